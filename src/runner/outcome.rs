//! What happened to one run? Data, not an error.

use std::fmt;

use crate::task::TaskError;

/// What happened to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It came to its end.
    Succeeded,
    /// The task said that it failed.
    Failed(TaskError),
    /// The task panicked.
    Panicked {
        /// The panic's message, where it was text.
        message: String,
    },
    /// The arguments do not fit the task; it did not run.
    Arguments {
        /// Which argument, what was expected, and what came.
        problem: String,
    },
    /// There is no task of that name here; it did not run.
    Unknown,
    /// The bytes are not a message; nothing ran.
    Malformed {
        /// What is wrong with them.
        problem: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Panicked { message } => write!(f, "panicked: {message}"),
            Self::Arguments { problem } => write!(f, "arguments: {problem}"),
            Self::Unknown => f.write_str("unknown task"),
            Self::Malformed { problem } => write!(f, "malformed: {problem}"),
        }
    }
}
