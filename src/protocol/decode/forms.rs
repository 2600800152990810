//! Reads types that have two forms: one of text, and one of bytes or parts.
//!
//! Such a type asks `is_human_readable` and then takes one form alone: a `Uuid` is a text or 16 bytes, an `IpAddr` a text or
//! a map of its version to its octets. Other languages send texts, Rust sends the other form. So the answer is the form
//! that comes.
//!
//! Enums that are untagged or internally tagged, and structs with `flatten`, first read a value without knowing its type.
//! serde then offers its types nothing but text. When that fails, the value is read once more, and what has two forms
//! is given as text.
//!
//! Adjacently tagged enums also have two forms: `derive` reads their variants less freely from arrays than it writes them.

use std::net::{IpAddr, SocketAddr};

use serde::de::{Deserialize, DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::error::DecodeError;
use super::reader::{Head, Reader};
use super::{Decoder, MAX_DEPTH};
use crate::protocol::timestamp::{self, Timestamp, looks_like_rfc3339};

/// Whether the next value is to be read as text. A moment in RFC 3339 is not, since the types that read it as parts have a
/// text of their own, and all others read it as a text whatever the answer is.
pub(super) fn is_text(mut reader: Reader<'_>) -> bool {
    match reader.head() {
        Ok(Head::Str(length)) => !looks_like_rfc3339(reader.take(length)),
        _ => false,
    }
}

/// Whether the content of a map of one pair may be that of an `IpAddr` or a `SocketAddr`.
#[inline]
pub(super) fn is_address(content: &[u8]) -> bool {
    matches!(content, [0xa2, b'V', b'4' | b'6', ..])
}

/// Whether a variant with fields is wanted, by what `derive` says that it expects.
pub(super) fn is_struct_variant<'de>(visitor: &impl Visitor<'de>) -> bool {
    (visitor as &dyn Expected).to_string().starts_with("struct variant ")
}

/// The variant of an `IpAddr` of these octets alone, as Go's `net.IP` travels.
pub(super) fn version(octets: &[u8]) -> &'static str {
    if octets.len() == 4 || mapped(octets).is_some() { "V4" } else { "V6" }
}

/// The octets of an IPv4 address in 16 bytes: Go's `net.ParseIP` makes these of it.
fn mapped(octets: &[u8]) -> Option<&[u8]> {
    octets.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]).filter(|octets| octets.len() == 4)
}

/// A float that is not finite, for a value without a type. `serde_json::Value` has none and would make null of it without
/// a word.
#[cold]
pub(super) fn no_number<'de, V: Visitor<'de>>(
    float: f64,
    at: &[u8],
    visitor: V,
) -> Result<V::Value, DecodeError> {
    if (&visitor as &dyn Expected).to_string() == "any valid JSON value" {
        return Err(DecodeError::out_of_range("a value of JSON", at));
    }
    visitor.visit_f64(float)
}

impl<'de> Decoder<'de> {
    /// Reads the value at `begin` once more after `error`.
    #[cold]
    pub(super) fn value_as_text<T: Deserialize<'de>>(
        &mut self,
        begin: &'de [u8],
        error: DecodeError,
    ) -> Result<T, DecodeError> {
        (self.reader.rest, self.as_text) = (begin, true);
        let value = T::deserialize(&mut *self);
        (self.two_forms, self.as_text) = (false, false);
        value.map_err(|_| error)
    }

    /// A map that may be an address, and begins at `at`, for a value without a type.
    #[cold]
    pub(super) fn address<V: Visitor<'de>>(
        &mut self,
        at: &'de [u8],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if self.as_text
            && let Some((text, rest)) = address_as_text(at)
        {
            self.reader.rest = rest;
            return visitor.visit_string(text);
        }
        self.two_forms = true;
        self.map(1, visitor)
    }

    /// An array of `count` whose head was read, where `derive` reads a variant's fields from a map alone.
    #[cold]
    pub(super) fn fields_by_order<V: Visitor<'de>>(
        &mut self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.enter()?;
        let result = visitor.visit_map(Places { decoder: &mut *self, next: 0, count: count as u64 });
        self.depth += 1;
        result
    }

    /// An extension where a text is declared: most types of dates and times are read from a text.
    #[cold]
    pub(super) fn moment_as_text(&mut self) -> Result<String, DecodeError> {
        let at = self.reader.rest;
        let head = self.reader.head()?;
        match self.moment(head).flatten() {
            Some(moment) => Ok(moment.to_string()),
            None => Err(DecodeError::mismatch("a string", at)),
        }
    }

    /// A tuple of `length` that is no array of as many, nor as many bytes: a moment, from whose parts the types of the crate
    /// `time` are read, or an IPv4 address as Go has it.
    #[cold]
    pub(super) fn other_tuple<V: Visitor<'de>>(
        &mut self,
        head: Head,
        at: &'de [u8],
        length: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_seq(Parts::Numbers(self.numbers(head, at, length)?.into_iter()))
    }

    #[cold]
    fn numbers(&mut self, head: Head, at: &[u8], length: usize) -> Result<Vec<i64>, DecodeError> {
        let moment = match (head, length) {
            (Head::Bin(16), 4) => match mapped(self.reader.take(16)) {
                Some(octets) => return Ok(octets.iter().copied().map(i64::from).collect()),
                None => None,
            },
            (Head::Ext(..), _) => self.moment(head).flatten().map(|moment| (moment, 0)),
            (Head::Str(length), _) => {
                std::str::from_utf8(self.reader.take(length)).ok().and_then(Timestamp::parse)
            }
            _ => None,
        };
        let parts = moment.and_then(|(moment, offset)| Some((moment.parts(offset)?, i64::from(offset))));
        match (parts, length) {
            (Some((parts, 0)), 6) => Ok(parts.to_vec()),
            (Some((parts, offset)), 9) => {
                Ok([&parts[..], &[offset / 3600, offset / 60 % 60, offset % 60]].concat())
            }
            _ => Err(DecodeError::mismatch(format!("an array of {length}"), at)),
        }
    }

    /// A struct that is no map, nor an array of its fields: the tag alone of an adjacently tagged enum, or a moment, if that
    /// is what the struct stands for. Also one field of a struct of two.
    #[cold]
    pub(super) fn other_struct<V: Visitor<'de>>(
        &mut self,
        head: Head,
        at: &'de [u8],
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if matches!(head, Head::Array(_)) {
            self.enter()?;
            let adjacent = (&visitor as &dyn Expected).to_string().starts_with("adjacently tagged enum ");
            let first = fields.first().copied().unwrap_or("?");
            let result = visitor.visit_seq(Parts::First { decoder: &mut *self, first, taken: 0, adjacent });
            self.depth += 1;
            return result;
        }
        visitor.visit_seq(Parts::Numbers(self.fields_of_moment(head, at, name, fields)?.into_iter()))
    }

    #[cold]
    fn fields_of_moment(
        &mut self,
        head: Head,
        at: &[u8],
        name: &str,
        fields: &[&str],
    ) -> Result<Vec<i64>, DecodeError> {
        let standard = name == "SystemTime";
        if !((standard || name == timestamp::NAME) && fields == timestamp::FIELDS) {
            let expected = match name {
                "" => "a map or an array of fields".into(),
                _ => format!("`{name}` (a map or an array of its fields)"),
            };
            return Err(DecodeError::mismatch(expected, at));
        }
        match self.moment(head) {
            // serde reads a `SystemTime` from seconds without a sign.
            Some(Some(moment)) if !standard || moment.seconds() >= 0 => {
                Ok(vec![moment.seconds(), i64::from(moment.nanoseconds())])
            }
            Some(Some(_)) => {
                Err(DecodeError::out_of_range("a moment after 1970 (or the type `Timestamp`)", at))
            }
            Some(None) => Err(DecodeError::out_of_range(timestamp::EXPECTED, at)),
            None => Err(DecodeError::mismatch(timestamp::EXPECTED, at)),
        }
    }
}

/// Elements of an array that did not come as they are wanted. One type, so that each type that is read is compiled for one
/// more only.
enum Parts<'a, 'de> {
    Numbers(std::vec::IntoIter<i64>),
    /// The only element of an array. The tag of an `adjacent` variant without content is written so, and read with nil
    /// after it.
    First {
        decoder: &'a mut Decoder<'de>,
        first: &'static str,
        taken: u8,
        adjacent: bool,
    },
}

impl<'de> SeqAccess<'de> for Parts<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        match self {
            Self::Numbers(numbers) => match numbers.next() {
                Some(number) => seed.deserialize(number.into_deserializer()).map(Some),
                None => Ok(None),
            },
            Self::First { decoder, first, taken, adjacent } => {
                *taken += 1;
                let mut nil = Decoder::new(&[0xc0], 1);
                let decoder = match taken {
                    1 => &mut **decoder,
                    2 if *adjacent => &mut nil,
                    _ => return Ok(None),
                };
                seed.deserialize(decoder).map(Some).map_err(|error| error.at_field(first))
            }
        }
    }
}

/// The elements of an array as fields, by their places.
struct Places<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    next: u64,
    count: u64,
}

impl<'de> MapAccess<'de> for Places<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        if self.next == self.count {
            return Ok(None);
        }
        self.next += 1;
        seed.deserialize((self.next - 1).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let place = self.next as usize - 1;
        seed.deserialize(&mut *self.decoder).map_err(|error| error.at_index(place))
    }
}

/// The text of the address at the beginning of `at`, and what follows it.
fn address_as_text(at: &[u8]) -> Option<(String, &[u8])> {
    let mut decoder = Decoder::new(at, MAX_DEPTH);
    if let Ok(address) = IpAddr::deserialize(&mut decoder) {
        return Some((address.to_string(), decoder.reader.rest));
    }
    let mut decoder = Decoder::new(at, MAX_DEPTH);
    let address = SocketAddr::deserialize(&mut decoder).ok()?;
    Some((address.to_string(), decoder.reader.rest))
}
