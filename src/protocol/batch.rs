//! Names filling batches.

use std::borrow::Cow;

use crate::protocol::limit::MAX_LIMIT_NAME;
use crate::protocol::names::is_hidden;

/// Why the key of a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the batch key {key:?} is not valid: use 1 to {MAX_LIMIT_NAME} bytes of printable text without spaces"
)]
pub struct BatchKeyError {
    /// The key.
    pub key: String,
}

/// The name of a filling batch: the path of its task, followed by a space and its key if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchName(Cow<'static, str>);

impl BatchName {
    /// The batch of a task.
    #[must_use]
    pub fn of_task(task: &'static str) -> Self {
        Self(Cow::Borrowed(task))
    }

    /// The batch of a task with this key.
    ///
    /// # Errors
    /// A key that is empty or too long, or has spaces or hidden characters.
    pub fn with_key(task: &str, key: &str) -> Result<Self, BatchKeyError> {
        let is_valid = (1..=MAX_LIMIT_NAME).contains(&key.len())
            && !key.chars().any(|character| character.is_whitespace() || is_hidden(character));
        if is_valid {
            Ok(Self(Cow::Owned(format!("{task} {key}"))))
        } else {
            Err(BatchKeyError { key: key.to_owned() })
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
