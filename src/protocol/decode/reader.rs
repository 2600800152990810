//! Reads markers and lengths, and checks each against the bytes that are left.

use super::MAX_DEPTH;
use super::error::{DecodeError, DecodeErrorKind};

/// The head of a value. A length has been checked: so many bytes, elements or pairs can be left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Head {
    Nil,
    Bool(bool),
    Unsigned(u64),
    /// Smaller than zero.
    Negative(i64),
    Float32(f32),
    Float64(f64),
    Str(usize),
    Bin(usize),
    Array(usize),
    Map(usize),
    Ext(i8, usize),
}

/// Reads heads off the front of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'de> {
    pub(crate) rest: &'de [u8],
}

impl<'de> Reader<'de> {
    #[inline]
    pub(crate) fn new(rest: &'de [u8]) -> Self {
        Self { rest }
    }

    /// The head of the next value; the reader then stands at its content.
    #[inline]
    pub(crate) fn head(&mut self) -> Result<Head, DecodeError> {
        let Some((&marker, rest)) = self.rest.split_first() else { return Err(end()) };
        self.rest = rest;
        Ok(match marker {
            0x00..=0x7f => Head::Unsigned(u64::from(marker)),
            0x80..=0x8f => return self.map(usize::from(marker & 0x0f)),
            0x90..=0x9f => return self.array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Head::Str(self.length(usize::from(marker & 0x1f))?),
            0xc0 => Head::Nil,
            0xc1 => return Err(DecodeError::new(DecodeErrorKind::Reserved)),
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Bin(self.length8()?),
            0xc5 => Head::Bin(self.length16()?),
            0xc6 => Head::Bin(self.length32()?),
            0xc7 => return self.ext8(),
            0xc8 => return self.ext16(),
            0xc9 => return self.ext32(),
            0xca => Head::Float32(f32::from_be_bytes(self.fixed()?)),
            0xcb => Head::Float64(f64::from_be_bytes(self.fixed()?)),
            0xcc => Head::Unsigned(u64::from(u8::from_be_bytes(self.fixed()?))),
            0xcd => Head::Unsigned(u64::from(u16::from_be_bytes(self.fixed()?))),
            0xce => Head::Unsigned(u64::from(u32::from_be_bytes(self.fixed()?))),
            0xcf => Head::Unsigned(u64::from_be_bytes(self.fixed()?)),
            0xd0 => signed(i64::from(i8::from_be_bytes(self.fixed()?))),
            0xd1 => signed(i64::from(i16::from_be_bytes(self.fixed()?))),
            0xd2 => signed(i64::from(i32::from_be_bytes(self.fixed()?))),
            0xd3 => signed(i64::from_be_bytes(self.fixed()?)),
            0xd4..=0xd8 => return self.ext(1 << (marker - 0xd4)),
            0xd9 => Head::Str(self.length8()?),
            0xda => Head::Str(self.length16()?),
            0xdb => Head::Str(self.length32()?),
            0xdc => {
                let count = u16::from_be_bytes(self.fixed()?);
                return self.array(usize::from(count));
            }
            0xdd => {
                let count = u32::from_be_bytes(self.fixed()?);
                return self.array(count as usize);
            }
            0xde => {
                let count = u16::from_be_bytes(self.fixed()?);
                return self.map(usize::from(count));
            }
            0xdf => {
                let count = u32::from_be_bytes(self.fixed()?);
                return self.map(count as usize);
            }
            0xe0..=0xff => Head::Negative(i64::from(marker as i8)),
        })
    }

    /// The next `length` bytes, or all that are left when there are fewer.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &'de [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Whether the next value is nil.
    #[inline]
    pub(crate) fn at_nil(&self) -> bool {
        self.rest.first() == Some(&0xc0)
    }

    /// Whether the next value is an extension.
    #[inline]
    pub(crate) fn at_extension(&self) -> bool {
        matches!(self.rest.first(), Some(0xc7..=0xc9 | 0xd4..=0xd8))
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else { return Err(end()) };
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    fn length(&self, length: usize) -> Result<usize, DecodeError> {
        if length > self.rest.len() {
            return Err(self.lie(length));
        }
        Ok(length)
    }

    fn length8(&mut self) -> Result<usize, DecodeError> {
        let length = u8::from_be_bytes(self.fixed()?);
        self.length(usize::from(length))
    }

    fn length16(&mut self) -> Result<usize, DecodeError> {
        let length = u16::from_be_bytes(self.fixed()?);
        self.length(usize::from(length))
    }

    fn length32(&mut self) -> Result<usize, DecodeError> {
        let length = u32::from_be_bytes(self.fixed()?);
        self.length(length as usize)
    }

    /// An element has at least one byte.
    #[inline]
    fn array(&self, count: usize) -> Result<Head, DecodeError> {
        self.length(count).map(Head::Array)
    }

    /// A pair has at least two bytes.
    #[inline]
    fn map(&self, count: usize) -> Result<Head, DecodeError> {
        if count > self.rest.len() / 2 {
            return Err(self.lie(count));
        }
        Ok(Head::Map(count))
    }

    fn ext8(&mut self) -> Result<Head, DecodeError> {
        let length = u8::from_be_bytes(self.fixed()?);
        self.ext(usize::from(length))
    }

    fn ext16(&mut self) -> Result<Head, DecodeError> {
        let length = u16::from_be_bytes(self.fixed()?);
        self.ext(usize::from(length))
    }

    fn ext32(&mut self) -> Result<Head, DecodeError> {
        let length = u32::from_be_bytes(self.fixed()?);
        self.ext(length as usize)
    }

    fn ext(&mut self, length: usize) -> Result<Head, DecodeError> {
        let kind = i8::from_be_bytes(self.fixed()?);
        Ok(Head::Ext(kind, self.length(length)?))
    }

    #[cold]
    fn lie(&self, claimed: usize) -> DecodeError {
        DecodeError::new(DecodeErrorKind::Length { claimed: claimed as u64, left: self.rest.len() })
    }

    /// Passes over one value that may nest `depth` levels deep.
    pub(crate) fn skip(&mut self, depth: usize) -> Result<(), DecodeError> {
        let count = match self.head()? {
            Head::Str(length) | Head::Bin(length) | Head::Ext(_, length) => {
                self.take(length);
                return Ok(());
            }
            Head::Array(count) => count,
            Head::Map(count) => 2 * count,
            _ => return Ok(()),
        };
        let Some(depth) = depth.checked_sub(1) else { return Err(too_deep()) };
        for _ in 0..count {
            self.skip(depth)?;
        }
        Ok(())
    }

    /// The bytes of the next value.
    pub(crate) fn value(&mut self) -> Result<&'de [u8], DecodeError> {
        let begin = self.rest;
        self.skip(MAX_DEPTH)?;
        Ok(&begin[..begin.len() - self.rest.len()])
    }
}

/// Splits off the first value: its bytes, and what follows them. Takes time linear in the length of the value.
///
/// # Errors
/// Bytes that do not begin with a whole value, or one that nests deeper than [`MAX_DEPTH`].
pub fn skip(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = reader.value()?;
    Ok((value, reader.rest))
}

#[inline]
fn signed(value: i64) -> Head {
    u64::try_from(value).map_or(Head::Negative(value), Head::Unsigned)
}

#[cold]
fn end() -> DecodeError {
    DecodeError::new(DecodeErrorKind::UnexpectedEnd)
}

#[cold]
pub(crate) fn too_deep() -> DecodeError {
    DecodeError::new(DecodeErrorKind::TooDeep)
}
