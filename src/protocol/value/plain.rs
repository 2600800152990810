//! Shows values without a type as JSON does.

use std::collections::HashSet;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::protocol::decode::{Head, Reader, skip};
use crate::protocol::message::Message;
use crate::protocol::timestamp::{self, Timestamp};

/// Bytes in hexadecimal: `{"$hex": "00ff"}`.
pub const HEX: &str = "$hex";
/// Beside [`HEX`], the type of an extension: `{"$ext": 5, "$hex": "00ff"}`.
pub const EXTENSION: &str = "$ext";
/// The timestamp extension: `{"$time": "2023-11-14T22:13:20Z"}`.
pub const TIME: &str = "$time";
/// A float that is not finite: `{"$float": "NaN"}`, `"inf"` or `"-inf"`.
pub const FLOAT: &str = "$float";
/// A float of 32 bits: `{"$float32": 1.5}`, or a name as of [`FLOAT`].
pub const FLOAT_32: &str = "$float32";
/// A map that is no object of JSON, as its pairs: `{"$map": [[1, "one"]]}`.
pub const MAP: &str = "$map";

/// Whether an object of JSON with these names stands for a value that JSON does not have.
#[must_use]
pub fn is_notation<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    matches!(
        (names.next(), names.next(), names.next()),
        (Some(HEX | TIME | FLOAT | FLOAT_32 | MAP), None, None)
            | (Some(EXTENSION), Some(HEX), None)
            | (Some(HEX), Some(EXTENSION), None)
    )
}

/// One MessagePack value. It is serialized as it is. What JSON does not have becomes an object of one name that begins with
/// `$`: [`HEX`], [`EXTENSION`], [`TIME`], [`FLOAT`], [`FLOAT_32`], [`MAP`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainValue(Vec<u8>);

impl PlainValue {
    /// A value; none where the bytes are not one, and nothing more.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        matches!(skip(bytes), Ok((_, []))).then(|| Self(bytes.to_vec()))
    }

    /// The arguments of a message by place, an array; none when its payload is no value. A payload that is no array is
    /// one argument.
    #[doc(hidden)]
    #[must_use]
    pub fn by_place(message: &Message<'_>) -> Option<Self> {
        let (payload, _) = message.arguments().parts();
        if matches!(payload, [] | [0xc0]) {
            return Some(Self(vec![0x90]));
        }
        let (_, []) = skip(payload).ok()? else { return None };
        match Reader::new(payload).head() {
            Ok(Head::Array(_)) => Some(Self(payload.to_vec())),
            _ => Some(Self([&[0x91], payload].concat())),
        }
    }

    /// The arguments of a message by keyword; none when there are none.
    #[doc(hidden)]
    #[must_use]
    pub fn by_keyword(message: &Message<'_>) -> Option<Self> {
        let (_, keywords) = message.arguments().parts();
        keywords
            .filter(|keywords| !matches!(keywords, [0x80 | 0x90 | 0xc0]))
            .map(|keywords| Self(keywords.to_vec()))
    }
}

impl Serialize for PlainValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Plain(&self.0).serialize(serializer)
    }
}

struct Plain<'a>(&'a [u8]);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut reader = Reader::new(self.0);
        match reader.head() {
            Ok(Head::Nil) | Err(_) => to.serialize_unit(),
            Ok(Head::Bool(value)) => to.serialize_bool(value),
            Ok(Head::Unsigned(value)) => to.serialize_u64(value),
            Ok(Head::Negative(value)) => to.serialize_i64(value),
            Ok(Head::Float32(value)) if value.is_finite() => single(to, FLOAT_32, &value),
            Ok(Head::Float32(value)) => single(to, FLOAT_32, &value.to_string()),
            Ok(Head::Float64(value)) if value.is_finite() => to.serialize_f64(value),
            Ok(Head::Float64(value)) => single(to, FLOAT, &value.to_string()),
            Ok(Head::Str(length)) => {
                let content = reader.take(length);
                match std::str::from_utf8(content) {
                    Ok(text) => to.serialize_str(text),
                    Err(_) => bytes(to, None, content),
                }
            }
            Ok(Head::Bin(length)) => bytes(to, None, reader.take(length)),
            Ok(Head::Array(count)) => {
                let mut list = to.serialize_seq(Some(count))?;
                for _ in 0..count {
                    list.serialize_element(&Plain(reader.value().unwrap_or_default()))?;
                }
                list.end()
            }
            Ok(Head::Map(count)) => {
                let pairs: Vec<_> = (0..count)
                    .map(|_| (reader.value().unwrap_or_default(), reader.value().unwrap_or_default()))
                    .collect();
                let Some(names) = names(&pairs) else { return single(to, MAP, &Listed(&pairs)) };
                to.collect_map(names.into_iter().zip(pairs.iter().map(|(_, value)| Plain(value))))
            }
            Ok(Head::Ext(kind, length)) => {
                let content = reader.take(length);
                let moment =
                    (kind == timestamp::EXTENSION).then(|| Timestamp::from_extension(content)).flatten();
                match moment {
                    Some(moment) => single(to, TIME, &moment.to_string()),
                    None => bytes(to, Some(kind), content),
                }
            }
        }
    }
}

/// The names of an object of JSON; none where a key is no text, comes twice, or where the object would stand for another
/// value.
fn names<'a>(pairs: &[(&'a [u8], &[u8])]) -> Option<Vec<&'a str>> {
    let mut seen = HashSet::with_capacity(pairs.len());
    let names: Vec<&str> = pairs
        .iter()
        .map(|(key, _)| {
            let mut reader = Reader::new(key);
            let Ok(Head::Str(length)) = reader.head() else { return None };
            std::str::from_utf8(reader.take(length)).ok().filter(|name| seen.insert(*name))
        })
        .collect::<Option<_>>()?;
    (!is_notation(names.iter().copied())).then_some(names)
}

/// The pairs of a map.
struct Listed<'a>(&'a [(&'a [u8], &'a [u8])]);

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|(key, value)| (Plain(key), Plain(value))))
    }
}

fn single<S: Serializer, T: Serialize + ?Sized>(to: S, name: &str, value: &T) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry(name, value)?;
    map.end()
}

fn bytes<S: Serializer>(to: S, kind: Option<i8>, bytes: &[u8]) -> Result<S::Ok, S::Error> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let Some(kind) = kind else { return single(to, HEX, &hex) };
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry(EXTENSION, &kind)?;
    map.serialize_entry(HEX, &hex)?;
    map.end()
}
