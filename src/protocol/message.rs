//! What travels? (stub)
use crate::protocol::arguments::Arguments;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub struct MessageError;

/// One message, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    task: &'a str,
}

impl<'a> Message<'a> {
    /// Reads the frame of a message; arguments are only read when a task asks for them.
    ///
    /// # Errors
    /// Bytes that are none of the forms of `docs/protocol.md`.
    pub fn decode(_bytes: &'a [u8]) -> Result<Self, MessageError> {
        Err(MessageError)
    }

    /// The path of the task.
    #[must_use]
    pub fn task(&self) -> &'a str {
        self.task
    }

    /// The arguments, not yet read.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'a> {
        Arguments { _bytes: &[] }
    }
}
