//! What may a task answer when it fails?

use std::error::Error;
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
///
/// In a function that returns it, `?` takes any [`std::error::Error`], to be retried, with its sources in the text:
///
/// ```
/// use delayed::TaskError;
///
/// fn parse(cents: &str) -> Result<i64, TaskError> {
///     Ok(cents.parse()?)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
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

// As `anyhow::Error`, it is no `std::error::Error` itself: that is what lets `?` turn any error into it.
impl<E: Error> From<E> for TaskError {
    /// [`TaskError::retry`], with the chain of sources in its text.
    fn from(error: E) -> Self {
        Self { message: chain(&error), retryable: true }
    }
}

/// An error and its sources as `a: b: c`. A source that the text before it ends with is not said twice.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}
