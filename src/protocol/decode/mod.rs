//! Decodes MessagePack into Rust types.
//!
//! serde's types, read more freely than `rmp-serde` reads them: the other languages send nil for an empty list or
//! map, whole numbers where floats are declared, texts where bytes are declared and arrays where structs are.
//! `docs/protocol.md` has the rules.

mod access;
mod actual;
mod deserializer;
mod error;
mod forms;
mod integer;
mod reader;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde::de::Visitor;

pub use self::error::{DecodeError, DecodeErrorKind};
pub use self::reader::skip;

use self::access::{Elements, Pairs};
pub(crate) use self::actual::{bytes_of, describe_actual};
pub(crate) use self::reader::{Head, Reader};
use crate::protocol::timestamp::{self, Timestamp};

/// So many lists and maps may stand inside each other.
pub const MAX_DEPTH: usize = 128;

/// Reads one whole value.
///
/// # Errors
/// Bytes that are not one value of that type, or not all of them are.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(bytes, MAX_DEPTH);
    let value = decoder.value::<T>()?;
    match decoder.reader.rest.len() {
        0 => Ok(value),
        count => Err(DecodeError::new(DecodeErrorKind::TrailingBytes { count })),
    }
}

/// Reads values off the front of bytes.
#[derive(Debug, Clone)]
pub(crate) struct Decoder<'de> {
    pub(crate) reader: Reader<'de>,
    /// How many more levels may be entered.
    depth: usize,
    /// Whether a value without a type had two forms: see `forms`.
    two_forms: bool,
    /// Whether such a value is given as text.
    as_text: bool,
}

impl<'de> Decoder<'de> {
    #[inline]
    pub(crate) fn new(bytes: &'de [u8], depth: usize) -> Self {
        Self { reader: Reader::new(bytes), depth, two_forms: false, as_text: false }
    }

    /// Reads the next value.
    #[inline]
    pub(crate) fn value<T: Deserialize<'de>>(&mut self) -> Result<T, DecodeError> {
        let begin = self.reader.rest;
        match T::deserialize(&mut *self) {
            Err(error) if self.two_forms => self.value_as_text(begin, error),
            result => result,
        }
    }

    /// Goes a level down; the caller adds it to `depth` again when it leaves.
    #[inline]
    fn enter(&mut self) -> Result<(), DecodeError> {
        let Some(depth) = self.depth.checked_sub(1) else { return Err(reader::too_deep()) };
        self.depth = depth;
        Ok(())
    }

    /// An array of `count` whose head was read; `fields` name its elements when it stands for a struct.
    #[inline]
    fn array<V: Visitor<'de>>(
        &mut self,
        count: usize,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.enter()?;
        let mut elements = Elements::new(self, count, fields);
        let result = visitor.visit_seq(&mut elements);
        let unread = elements.unread();
        self.depth += 1;
        if unread > 0 && result.is_ok() {
            return Err(too_long("an array", count, unread));
        }
        result
    }

    /// A map of `count` whose head was read.
    #[inline]
    fn map<V: Visitor<'de>>(&mut self, count: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.enter()?;
        let mut pairs = Pairs::new(self, count);
        let result = visitor.visit_map(&mut pairs);
        let unread = pairs.unread();
        self.depth += 1;
        if unread > 0 && result.is_ok() {
            return Err(too_long("a map", count, unread));
        }
        result
    }

    #[inline]
    fn text(&mut self, expected: &'static str) -> Result<&'de str, DecodeError> {
        let at = self.reader.rest;
        let (Head::Str(length) | Head::Bin(length)) = self.reader.head()? else {
            return Err(DecodeError::mismatch(expected, at));
        };
        std::str::from_utf8(self.reader.take(length)).map_err(|_| not_utf8(at))
    }

    #[inline]
    fn float(&mut self) -> Result<f64, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Float64(value) => Ok(value),
            Head::Float32(value) => Ok(f64::from(value)),
            Head::Unsigned(value) => Ok(value as f64),
            Head::Negative(value) => Ok(value as f64),
            _ => Err(DecodeError::mismatch("a float", at)),
        }
    }

    /// A moment whose head was read: the extension, RFC 3339, or a number of seconds; none when it is something else.
    fn moment(&mut self, head: Head) -> Option<Option<Timestamp>> {
        Some(match head {
            Head::Str(length) => {
                let text = std::str::from_utf8(self.reader.take(length)).ok()?;
                return Timestamp::parse(text).map(|(moment, _)| Some(moment));
            }
            Head::Ext(timestamp::EXTENSION, length) => Timestamp::from_extension(self.reader.take(length)),
            Head::Unsigned(seconds) => {
                i64::try_from(seconds).ok().and_then(|seconds| Timestamp::new(seconds, 0))
            }
            Head::Negative(seconds) => Timestamp::new(seconds, 0),
            Head::Float64(seconds) => Timestamp::from_seconds(seconds),
            Head::Float32(seconds) => Timestamp::from_seconds(seconds.into()),
            _ => return None,
        })
    }
}

#[cold]
fn not_utf8(at: &[u8]) -> DecodeError {
    DecodeError::new(DecodeErrorKind::InvalidUtf8 { found: describe_actual(at) })
}

#[cold]
fn too_long(what: &str, count: usize, unread: usize) -> DecodeError {
    let (expected, found) = (format!("{what} of {}", count - unread).into(), format!("{what} of {count}"));
    DecodeError::new(DecodeErrorKind::Mismatch { expected, found })
}
