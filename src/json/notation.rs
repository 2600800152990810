//! Reads what `--json` writes for values that JSON does not have: `{"$hex": "00ff"}`, `{"$float32": 1.5}` and others.

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_bytes::Bytes;
use serde_json::{Map, Value};

use crate::protocol::timestamp::{self, Timestamp};
use crate::protocol::value::plain::{EXTENSION, FLOAT, FLOAT_32, HEX, MAP, TIME, is_notation};

/// A value of JSON, which is written as MessagePack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument<'a>(pub(crate) &'a Value);

/// What an object stands for.
enum Meaning<'a> {
    Object(&'a Map<String, Value>),
    Bytes(Vec<u8>),
    Extension(i8, Vec<u8>),
    Time(Timestamp),
    Float(f64),
    Float32(f32),
    Pairs(Vec<(&'a Value, &'a Value)>),
}

/// Checks all objects in a value that stand for other values.
pub(crate) fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(check),
        Value::Object(object) => match meaning(object)? {
            Meaning::Object(object) => object.values().try_for_each(check),
            Meaning::Pairs(pairs) => pairs.into_iter().try_for_each(|(key, value)| {
                check(key)?;
                check(value)
            }),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn meaning(object: &Map<String, Value>) -> Result<Meaning<'_>, String> {
    if !is_notation(object.keys().map(String::as_str)) {
        return Ok(Meaning::Object(object));
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let meaning = if let Some(kind) = object.get(EXTENSION) {
        let kind = kind.as_i64().and_then(|kind| i8::try_from(kind).ok());
        kind.zip(text(HEX).and_then(bytes)).map(|(kind, content)| Meaning::Extension(kind, content))
    } else if object.contains_key(HEX) {
        text(HEX).and_then(bytes).map(Meaning::Bytes)
    } else if object.contains_key(TIME) {
        text(TIME).and_then(Timestamp::parse).map(|(moment, _)| Meaning::Time(moment))
    } else if let Some(float) = object.get(FLOAT) {
        number(float).map(Meaning::Float)
    } else if let Some(float) = object.get(FLOAT_32) {
        number(float).and_then(narrow).map(Meaning::Float32)
    } else {
        object.get(MAP).and_then(pairs).map(Meaning::Pairs)
    };
    meaning.ok_or_else(|| {
        let shown: String = Value::Object(object.clone()).to_string().chars().take(80).collect();
        format!(
            "{shown} is not one of {{\"{HEX}\": \"00ff\"}}, {{\"{EXTENSION}\": 5, \"{HEX}\": \"00ff\"}}, \
            {{\"{TIME}\": \"2023-11-14T22:13:20Z\"}}, {{\"{FLOAT}\": \"NaN\"}}, {{\"{FLOAT_32}\": 1.5}} and \
            {{\"{MAP}\": [[1, \"one\"]]}}"
        )
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) || hex.contains('+') {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(name) if matches!(&**name, "NaN" | "inf" | "-inf") => name.parse().ok(),
        _ => None,
    }
}

/// None when only a float of 64 bits can hold it.
fn narrow(float: f64) -> Option<f32> {
    let narrow = float as f32;
    (narrow.is_finite() || !float.is_finite()).then_some(narrow)
}

fn pairs(list: &Value) -> Option<Vec<(&Value, &Value)>> {
    let list = list.as_array()?;
    let is_pair = |one: &Value| one.as_array().is_some_and(|one| one.len() == 2);
    if !list.iter().all(is_pair) {
        return None;
    }
    Some(list.iter().map(|pair| (&pair[0], &pair[1])).collect())
}

impl Serialize for Argument<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(values) => to.collect_seq(values.iter().map(Argument)),
            Value::Object(object) => match meaning(object).map_err(S::Error::custom)? {
                Meaning::Object(object) => {
                    to.collect_map(object.iter().map(|(name, value)| (name, Argument(value))))
                }
                Meaning::Bytes(bytes) => to.serialize_bytes(&bytes),
                Meaning::Extension(kind, content) => timestamp::extension(kind, Bytes::new(&content), to),
                Meaning::Time(moment) => moment.serialize(to),
                Meaning::Float(float) => to.serialize_f64(float),
                Meaning::Float32(float) => to.serialize_f32(float),
                Meaning::Pairs(pairs) => {
                    let mut map = to.serialize_map(Some(pairs.len()))?;
                    for (key, value) in pairs {
                        map.serialize_entry(&Argument(key), &Argument(value))?;
                    }
                    map.end()
                }
            },
            value => value.serialize(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::encode::Encoder;
    use crate::protocol::message::Message;
    use crate::protocol::value::PlainValue;

    fn written(value: &Value) -> Vec<u8> {
        let mut encoder = Encoder::new(1);
        encoder.argument("value", &Argument(value));
        encoder.finish().unwrap()
    }

    #[test]
    fn what_json_shows_is_written_as_it_came() {
        for payload in [
            &b"\xc4\x02\x00\xff"[..],
            b"\xc4\0",
            b"\xd6\xff\x65\x53\xf1\x00",
            b"\xd7\xff\x77\x35\x94\x00\x65\x53\xf1\x00",
            b"\xc7\x0c\xff\0\0\0\x01\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"\xd4\x05\x09",
            b"\xd4\xff\x09",
            b"\xca\x3f\x8c\xcc\xcd",
            b"\xca\x7f\xc0\0\0",
            b"\xca\xff\x80\0\0",
            b"\xcb\x7f\xf8\0\0\0\0\0\0",
            b"\xcb\xff\xf0\0\0\0\0\0\0",
            b"\xcb\x3f\xf0\0\0\0\0\0\0",
            b"\xcb\x80\0\0\0\0\0\0\0",
            b"\x83\x01\xff\xa1k\xc4\x01\x09\xc0\xc3",
            b"\x82\xa1k\x01\xa1k\x02",
            b"\x81\xa4$hex\xa200",
            b"\x82\xa4$ext\x05\xa4$hex\xa200",
            b"\x82\xa4$hex\xa200\xa1a\x01",
            b"\x81\xc4\x01k\x01",
            b"\x80",
            b"\x92\x91\x81\xa1a\xc4\x01\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let message = [&b"\x92\xa1f\xc4"[..], &[payload.len() as u8 + 1, 0x91], payload].concat();
            let shown = PlainValue::by_place(&Message::decode(&message).unwrap()).unwrap();
            let shown: Value = serde_json::from_str(&serde_json::to_string(&shown).unwrap()).unwrap();
            check(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(written(&shown[0]), payload, "{shown}");
        }
    }

    #[test]
    fn object_is_notation_only_when_it_has_one_known_key() {
        let object = json!({"$set": {"$hex": "ff"}, "$ext": 5, "hex": "00"});
        assert_eq!(written(&object), b"\x83\xa4$set\xc4\x01\xff\xa4$ext\x05\xa3hex\xa200");
        assert_eq!(written(&json!({"$time": "2023-11-14T23:13:20+01:00"})), b"\xd6\xff\x65\x53\xf1\x00");
        for wrong in [
            json!({"$hex": "0"}),
            json!({"$hex": "+1"}),
            json!({"$hex": "é0"}),
            json!({"$hex": 1}),
            json!({"$ext": 128, "$hex": ""}),
            json!({"$time": "yesterday"}),
            json!({"$float": "1"}),
            json!({"$float32": 1e39}),
            json!({"$map": {"a": 1}}),
            json!({"$map": [[1]]}),
            json!([{"a": {"$map": [[1, {"$hex": "x"}]]}}]),
        ] {
            let error = check(&wrong).unwrap_err();
            assert!(error.contains("is not one of {\"$hex\": \"00ff\"}"), "{wrong}: {error}");
        }
    }
}
