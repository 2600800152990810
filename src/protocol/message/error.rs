//! Explains why bytes are not a message.

use crate::protocol::decode::{DecodeError, bytes_of};

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes are not MessagePack.
    #[error("not a message: {0}")]
    Undecodable(DecodeError),
    /// There are bytes after the message.
    #[error("not a message: {} too many after its end", bytes_of(*count))]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// A value of another type, or an array of another length.
    #[error(
        "not a message: expected the path of a task, or an array of 1 to 4 that begins with one, got {found}"
    )]
    Frame {
        /// What came, shortened.
        found: String,
    },
    /// The first element is not a path.
    #[error("not a message: expected the path of a task first, got {found}")]
    Path {
        /// What came, shortened.
        found: String,
    },
    /// The path has no characters.
    #[error("not a message: the path of its task is empty")]
    EmptyPath,
    /// The second element is neither a payload nor Python's arguments.
    #[error("not a message: expected a payload (bytes) or arguments (an array) second, got {found}")]
    Payload {
        /// What came, shortened.
        found: String,
    },
    /// The third element is not a map.
    #[error("not a message: expected {expected} third, got {found}")]
    Third {
        /// What belongs there.
        expected: &'static str,
        /// What came, shortened.
        found: String,
    },
    /// There is a fourth element after a payload, or it is not a count of retries.
    #[error("not a message: expected {expected} fourth, got {found}")]
    Fourth {
        /// What belongs there.
        expected: &'static str,
        /// What came, shortened.
        found: String,
    },
    /// A key of the meta with a value that it cannot have.
    #[error("not a message: expected {expected} as `{key}` of its meta, got {found}")]
    Meta {
        /// The key.
        key: char,
        /// What belongs there.
        expected: &'static str,
        /// What came, shortened.
        found: String,
    },
}

// Its text is in ours, so it is no `source`.
impl From<DecodeError> for MessageError {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}
