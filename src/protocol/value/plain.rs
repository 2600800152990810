//! What are arguments for a program that knows no types here? Values as JSON has them.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::{Timestamp, describe, timestamp};
use crate::protocol::decode::{Head, Reader, skip};
use crate::protocol::message::Message;

/// How many characters of a key are shown that is no text.
const KEY: usize = 1000;

/// One MessagePack value. It is serialized as it is; bytes become `{"hex": "00ff"}`, a moment its text, a float that is no
/// number its name, another extension `{"ext": 5, "hex": "00ff"}`, and a key that is no text its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainValue(Vec<u8>);

impl PlainValue {
    /// The arguments of a message by place, an array; none when its payload is no value. A payload that is no array is
    /// one argument.
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
            Ok(Head::Float32(value)) if value.is_finite() => to.serialize_f32(value),
            Ok(Head::Float64(value)) if value.is_finite() => to.serialize_f64(value),
            Ok(Head::Float32(value)) => to.collect_str(&value),
            Ok(Head::Float64(value)) => to.collect_str(&value),
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
                let mut map = to.serialize_map(Some(count))?;
                for _ in 0..count {
                    let (key, value) =
                        (reader.value().unwrap_or_default(), reader.value().unwrap_or_default());
                    match crate::protocol::decode::from_slice::<&str>(key) {
                        Ok(name) => map.serialize_entry(name, &Plain(value))?,
                        Err(_) => map.serialize_entry(&describe(key, KEY), &Plain(value))?,
                    }
                }
                map.end()
            }
            Ok(Head::Ext(kind, length)) => {
                let content = reader.take(length);
                let moment =
                    (kind == timestamp::EXTENSION).then(|| Timestamp::from_extension(content)).flatten();
                match moment {
                    Some(moment) => to.collect_str(&moment),
                    None => bytes(to, Some(kind), content),
                }
            }
        }
    }
}

fn bytes<S: Serializer>(to: S, kind: Option<i8>, bytes: &[u8]) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    if let Some(kind) = kind {
        map.serialize_entry("ext", &kind)?;
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    map.serialize_entry("hex", &hex)?;
    map.end()
}
