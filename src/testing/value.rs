//! A decoded argument without a type, to compare it with what a test expects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Any value that an argument can have.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Single(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl Value {
    /// Whether both are the same to a task: numbers by their value, text and bytes by their bytes, maps in any order.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Unsigned(one), Self::Unsigned(other)) => one == other,
            (Self::Negative(one), Self::Negative(other)) => one == other,
            (Self::Single(one), number) | (number, Self::Single(one)) => {
                number.as_double().is_some_and(|other| one.to_bits() == (other as f32).to_bits())
            }
            (Self::Double(one), number) | (number, Self::Double(one)) => {
                number.as_double().is_some_and(|other| one.to_bits() == other.to_bits())
            }
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
            }
            (Self::Map(one), Self::Map(other)) => {
                let has = |(key, value): &(Self, Self)| {
                    other.iter().any(|(name, other)| key.is_same(name) && value.is_same(other))
                };
                one.len() == other.len() && one.iter().all(has)
            }
            (one, other) => one.as_bytes().is_some_and(|one| other.as_bytes() == Some(one)),
        }
    }

    fn as_double(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Negative(value) => Some(*value as f64),
            Self::Single(value) => Some(f64::from(*value)),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// The bytes of a text, of bytes, or of a list of small numbers.
    fn as_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Bytes(bytes) => Some(bytes.clone()),
            Self::List(list) => list
                .iter()
                .map(|value| match value {
                    Self::Unsigned(value) => u8::try_from(*value).ok(),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Negative(value), Value::Unsigned))
    }

    fn visit_f32<E>(self, value: f32) -> Result<Value, E> {
        Ok(Value::Single(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            map.push(pair);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::protocol::decode::from_slice;
    use crate::protocol::encode::Encoder;

    fn value(value: impl Serialize) -> Value {
        let mut encoder = Encoder::new(1);
        encoder.argument("value", &value);
        from_slice(&encoder.finish().unwrap()).unwrap()
    }

    #[test]
    fn values_are_the_same_whatever_their_width_and_order() {
        let map = |pairs: [(&'static str, u8); 2]| value(std::collections::HashMap::from(pairs));
        for (one, other) in [
            (value(7_u8), value(7_i64)),
            (value(-7_i8), value(-7_i64)),
            (value(0.1_f32), value(0.1_f64)),
            (value(2.0_f64), value(2_u8)),
            (value("ab"), value(b"ab")),
            (value(vec![1_u8, 2]), value(vec![1_i64, 2])),
            (value(None::<u8>), value(())),
            (map([("a", 1), ("b", 2)]), map([("b", 2), ("a", 1)])),
        ] {
            assert!(one.is_same(&other) && other.is_same(&one), "{one:?} {other:?}");
        }
    }

    #[test]
    fn values_of_other_kinds_or_sizes_differ() {
        let all = [
            value(()),
            value(false),
            value(0_u8),
            value(-1_i8),
            value(0.5_f64),
            value("0"),
            value(vec!["0"]),
            value(["0", "1"]),
            value(std::collections::HashMap::from([("0", 1)])),
        ];
        for (place, one) in all.iter().enumerate() {
            for (index, other) in all.iter().enumerate() {
                assert_eq!(one.is_same(other), place == index, "{one:?} {other:?}");
            }
        }
    }
}
