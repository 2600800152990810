//! Explains why bytes could not be decoded.

use std::borrow::Cow;
use std::fmt;

use serde::de;

use super::actual::{self, bytes_of, shortened};

/// Why bytes could not be read as a value. As small as a pointer, so that a `Result` of it costs nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: DecodeErrorKind,
    path: String,
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end in the middle of a value.
    #[error("the bytes end in the middle of a value")]
    UnexpectedEnd,
    /// There are bytes after the value.
    #[error("{} too many after the value", bytes_of(*count))]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// Lists and maps nest deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("nested deeper than {}", super::MAX_DEPTH)]
    TooDeep,
    /// A length that is larger than what is left could hold.
    #[error("a length of {claimed} where {} left", match left { 1 => "1 byte is".into(), _ => format!("{left} bytes are") })]
    Length {
        /// The length that the bytes claim: of bytes, elements or pairs.
        claimed: u64,
        /// How many bytes are left.
        left: usize,
    },
    /// The byte `0xc1`, which MessagePack never uses.
    #[error("the byte 0xc1, which MessagePack does not use")]
    Reserved,
    /// A value of another type.
    #[error("expected {expected}, got {found}")]
    Mismatch {
        /// What the Rust type takes.
        expected: Cow<'static, str>,
        /// What came, shortened.
        found: String,
    },
    /// A value of a fitting type that the Rust type cannot hold.
    #[error("expected {expected}, got {found}, which is out of range")]
    OutOfRange {
        /// What the Rust type takes.
        expected: Cow<'static, str>,
        /// What came, shortened.
        found: String,
    },
    /// A text that is not UTF-8.
    #[error("expected a text in UTF-8, got {found}")]
    InvalidUtf8 {
        /// What came, shortened.
        found: String,
    },
    /// What the `Deserialize` of a type says.
    #[error("{message}")]
    Custom {
        /// Its message.
        message: String,
    },
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: DecodeErrorKind) -> Self {
        Self(Box::new(Inner { kind, path: String::new() }))
    }

    /// The value at the beginning of `at` is none of the `expected`.
    #[cold]
    pub(crate) fn mismatch(expected: impl Into<Cow<'static, str>>, at: &[u8]) -> Self {
        Self::new(DecodeErrorKind::Mismatch { expected: expected.into(), found: actual::describe_actual(at) })
    }

    /// The value at the beginning of `at` does not fit into the `expected`.
    #[cold]
    pub(crate) fn out_of_range(expected: impl Into<Cow<'static, str>>, at: &[u8]) -> Self {
        Self::new(DecodeErrorKind::OutOfRange {
            expected: expected.into(),
            found: actual::describe_actual(at),
        })
    }

    /// The same error, inside the element `index` of a list.
    #[cold]
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.0.path.insert_str(0, &format!("[{index}]"));
        self
    }

    /// The same error, inside the field `name`.
    #[cold]
    pub(crate) fn at_field(mut self, name: &str) -> Self {
        self.0.path.insert_str(0, &format!(".{}", shortened(name)));
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &DecodeErrorKind {
        &self.0.kind
    }

    /// Where inside the value: `items[2].name`, or empty for the value itself.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path.strip_prefix('.').unwrap_or(&self.0.path)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path().is_empty() {
            write!(f, "at {}: ", self.path())?;
        }
        self.0.kind.fmt(f)
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError").field("kind", &self.0.kind).field("path", &self.path()).finish()
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(DecodeErrorKind::Custom { message: message.to_string() })
    }

    #[cold]
    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let (expected, found) = (expected.to_string().into(), actual::unexpected(unexpected));
        Self::new(DecodeErrorKind::Mismatch { expected, found })
    }

    #[cold]
    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let (expected, found) = (expected.to_string().into(), actual::unexpected(unexpected));
        Self::new(DecodeErrorKind::OutOfRange { expected, found })
    }

    #[cold]
    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        let (expected, found) = (expected.to_string().into(), format!("only {length}"));
        Self::new(DecodeErrorKind::Mismatch { expected, found })
    }
}
