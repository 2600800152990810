//! What may a task answer when it fails?

use std::fmt;

/// Why a task failed, and whether another attempt could help.
///
/// A task may return any error that is `Display`: that is the same as [`TaskError::retry`]. Return this type to
/// say that no further attempt is of use:
///
/// ```
/// use delayed::TaskError;
///
/// fn charge(cents: i64) -> Result<(), TaskError> {
///     if cents <= 0 {
///         return Err(TaskError::fatal(format!("cannot charge {cents} cents")));
///     }
///     Ok(())
/// }
/// assert!(!charge(0).unwrap_err().is_retryable());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    message: String,
    retryable: bool,
}

impl TaskError {
    /// The task failed, and is tried again when it has retries left.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retryable: true }
    }

    /// The task failed for good: it goes to the dead letters whatever retries are left.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retryable: false }
    }

    /// Whether another attempt could help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TaskError {}
