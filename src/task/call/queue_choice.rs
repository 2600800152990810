//! Takes the queue of a call in any form: a text or a checked name.

use std::sync::LazyLock;

use crate::protocol::names::{NameError, QueueName};

/// What [`Call::queue`](crate::Call::queue) takes.
#[derive(Debug, Clone)]
pub struct QueueChoice(Result<QueueName, Box<NameError>>);

impl QueueChoice {
    /// The name.
    ///
    /// # Errors
    /// It is invalid.
    pub(super) fn name(&self) -> Result<QueueName, NameError> {
        self.0.clone().map_err(|error| *error)
    }
}

impl Default for QueueChoice {
    fn default() -> Self {
        static DEFAULT: LazyLock<QueueName> = LazyLock::new(QueueName::default);
        DEFAULT.clone().into()
    }
}

impl From<QueueName> for QueueChoice {
    fn from(name: QueueName) -> Self {
        Self(Ok(name))
    }
}

impl From<&QueueName> for QueueChoice {
    fn from(name: &QueueName) -> Self {
        Self(Ok(name.clone()))
    }
}

impl From<&str> for QueueChoice {
    fn from(name: &str) -> Self {
        Self(QueueName::parse(name).map_err(Box::new))
    }
}

impl From<String> for QueueChoice {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}
