//! Explains why the arguments of a message do not fit its task.

use std::fmt;

use super::param::Param;
use crate::protocol::decode::{DecodeError, DecodeErrorKind};

/// Why the arguments of a message do not fit its task. The text names the parameter, what was expected and what came;
/// the task is for the caller to name. As small as a pointer, so that a `Result` of it costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError(Box<ArgumentErrorKind>);

/// What is wrong with the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentErrorKind {
    /// An argument is of another type.
    Type {
        /// Its parameter.
        param: Param,
        /// Its place, from 0.
        index: usize,
        /// How many parameters there are.
        count: usize,
        /// Why it could not be read.
        error: DecodeError,
    },
    /// An argument is missing.
    Missing {
        /// Its parameter.
        param: Param,
        /// Its place, from 0.
        index: usize,
        /// How many parameters there are.
        count: usize,
        /// How many arguments there are, by place and by keyword.
        given: usize,
    },
    /// There are more arguments than parameters.
    TooMany {
        /// How many arguments there are by place.
        given: usize,
        /// How many parameters there are.
        count: usize,
    },
    /// A keyword that is the name of no parameter.
    UnknownKeyword {
        /// The keyword, shortened.
        keyword: String,
        /// The parameters.
        params: &'static [Param],
    },
    /// An argument is there by place and by keyword, or by keyword twice.
    Twice {
        /// Its parameter.
        param: Param,
        /// Its place, from 0.
        index: usize,
        /// How many parameters there are.
        count: usize,
    },
    /// Several arguments are in no array.
    NoArray {
        /// How many parameters there are.
        count: usize,
        /// What came, shortened.
        found: String,
    },
    /// The arguments by keyword are an array: Go's `NewPyTask` with a struct.
    KeywordsInArray,
    /// The bytes are not MessagePack.
    Undecodable(DecodeError),
}

impl ArgumentError {
    #[cold]
    pub(super) fn new(kind: ArgumentErrorKind) -> Self {
        Self(Box::new(kind))
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &ArgumentErrorKind {
        &self.0
    }
}

impl From<DecodeError> for ArgumentError {
    fn from(error: DecodeError) -> Self {
        Self::new(ArgumentErrorKind::Undecodable(error))
    }
}

impl std::error::Error for ArgumentError {}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ArgumentErrorKind::Type { param, index, count, error } => {
                write!(f, "argument `{}` ({} of {count}): expected {}, ", param.name, index + 1, param.ty)?;
                match error.kind() {
                    DecodeErrorKind::Mismatch { found, .. } if error.path().is_empty() => write!(f, "got {found}"),
                    DecodeErrorKind::OutOfRange { found, .. } if error.path().is_empty() => {
                        write!(f, "got {found}, which is out of range")
                    }
                    _ => write!(f, "but {error}"),
                }
            }
            ArgumentErrorKind::Missing { param, index, count, given } => {
                let Param { name, ty, .. } = param;
                let place = index + 1;
                write!(f, "too few arguments: {given} given, `{name}` ({place} of {count}, {ty}) is missing")
            }
            ArgumentErrorKind::TooMany { given, count: 0 } => {
                write!(f, "too many arguments: {given} given, none expected")
            }
            ArgumentErrorKind::TooMany { given, count } => {
                write!(f, "too many arguments: {given} given, at most {count} expected")
            }
            ArgumentErrorKind::UnknownKeyword { keyword, params } => {
                write!(f, "unknown keyword `{keyword}`: ")?;
                if params.is_empty() {
                    return f.write_str("no arguments are expected");
                }
                f.write_str("expected ")?;
                for (index, param) in params.iter().enumerate() {
                    write!(f, "{}`{}`", if index > 0 { ", " } else { "" }, param.name)?;
                }
                Ok(())
            }
            ArgumentErrorKind::Twice { param, index, count } => {
                write!(f, "argument `{}` ({} of {count}) is given twice", param.name, index + 1)
            }
            ArgumentErrorKind::NoArray { count, found } => {
                write!(f, "expected an array of {count} arguments, got {found}")
            }
            ArgumentErrorKind::KeywordsInArray => f.write_str(
                "arguments by keyword: expected a map, got an array, which is what Go's `NewPyTask` makes of a \
                 struct: give it a map of the parameters' names instead",
            ),
            ArgumentErrorKind::Undecodable(error) => write!(f, "arguments that cannot be read: {error}"),
        }
    }
}
