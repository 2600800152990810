//! The error of a task, and whether the call is retried.

use std::error::Error;
use std::fmt::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::excerpt::{Excerpt, excerpt};

/// Why a task failed, and whether another attempt can help.
///
/// A text longer than 16 KiB is shortened to its beginning and end.
///
/// A task may return any error that is `Display`, which is the same as [`TaskError::retry`]. Return this type if a retry is
/// useless:
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
/// Or to set the time of the next attempt, in place of the back-off, and whether this attempt counts:
///
/// ```
/// use delayed::TaskError;
/// use std::time::Duration;
///
/// fn fetch(status: u16) -> Result<(), TaskError> {
///     match status {
///         429 => Err(TaskError::retry_after(Duration::from_secs(30), "too many requests")),
///         // Not ready yet, which is no failure: asks again in a minute, and the attempt does not count.
///         202 => Err(TaskError::snooze(Duration::from_secs(60))),
///         _ => Ok(()),
///     }
/// }
/// # assert!(fetch(429).unwrap_err().is_retryable() && fetch(202).unwrap_err().is_retryable());
/// ```
///
/// In a function that returns this type, `?` accepts any [`std::error::Error`], to be retried, with its sources in the text:
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
    again: RetryWhen,
    /// The items of a batch that failed: their places, and why.
    items: Option<Box<FailedItems>>,
}

/// The items of a batch that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedItems {
    /// How many items there were.
    pub(crate) of: u32,
    /// The place of each that failed, and why it did.
    pub(crate) items: Vec<FailedItem>,
}

/// The place of an item in its batch, and why it failed.
pub(crate) type FailedItem = (u32, TaskError);

/// Whether a failed call is retried, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RetryWhen {
    /// After its back-off.
    AfterBackoff,
    /// After that time.
    After(Duration),
    /// After that time, and this attempt does not count.
    Snoozed(Duration),
    Never,
}

/// More than a hundred years.
const LONGEST_DELAY: Duration = Duration::from_secs(101 * 366 * 24 * 60 * 60);

impl TaskError {
    /// The task failed; the call is retried if it has retries left.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::of(message, RetryWhen::AfterBackoff)
    }

    /// The task failed; the call is retried after `delay` if it has retries left, in place of its back-off. In whole milliseconds,
    /// at most a hundred years.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        Self::of(message, RetryWhen::After(delay.min(LONGEST_DELAY)))
    }

    /// The task did not fail, and runs again after `delay`, any number of times: the attempt does not count. In whole milliseconds,
    /// at most a hundred years.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        let delay = delay.min(LONGEST_DELAY);
        Self::of(format_args!("snoozed for {delay:?}"), RetryWhen::Snoozed(delay))
    }

    /// The task failed for good: the call becomes a dead letter, even if it has retries left.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self::of(message, RetryWhen::Never)
    }

    pub(crate) fn of(message: impl fmt::Display, again: RetryWhen) -> Self {
        Self { message: excerpt(message), again, items: None }
    }

    /// Of a batch, some items of which failed.
    pub(crate) fn of_items(message: String, failed: FailedItems) -> Self {
        let again = match failed.items.iter().any(|(_, error)| error.is_retryable()) {
            true => RetryWhen::AfterBackoff,
            false => RetryWhen::Never,
        };
        Self { message, again, items: Some(Box::new(failed)) }
    }

    /// The items of a batch that failed, unless all of it did.
    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) fn items(&self) -> Option<&FailedItems> {
        self.items.as_deref()
    }

    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) fn again(&self) -> RetryWhen {
        self.again
    }

    /// Whether another attempt can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.again != RetryWhen::Never
    }

    /// Whether the attempt does not count.
    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) fn is_snooze(&self) -> bool {
        matches!(self.again, RetryWhen::Snoozed(_))
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
        Self { message: chain(&error), again: RetryWhen::AfterBackoff, items: None }
    }
}

/// An error and its sources as `a: b: c`, shortened. A source whose text is a part of the text before it is not said twice.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = Excerpt::default();
    let _ = write!(text, "{error}");
    let mut source = error.source();
    while let Some(error) = source {
        let mut cause = Excerpt::default();
        let _ = write!(cause, "{error}");
        if !text.contains(&cause) {
            let _ = write!(text, ": {error}");
        }
        source = error.source();
    }
    text.into_text()
}
