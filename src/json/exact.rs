//! Is JSON read as it was written? What would be changed without a word is refused.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Map, Number, Value};

/// Reads a value. A name that comes twice in an object, of which one would win, is refused, and so is a whole number
/// that no integer of 64 bits holds, which would become a float. `-0` would become one too: it is 0.
pub(crate) fn parse(text: &str) -> Result<Value, Error> {
    let Exact(value) = serde_json::from_str(text)?;
    if let Some(number) = tokens(text).find(|token| is_wide(token)) {
        return Err(Error::custom(format_args!(
            "{number} does not fit into 64 bits: send it as a text, or as a float, {number}.0"
        )));
    }
    if !tokens(text).any(|token| token == "-0") {
        return Ok(value);
    }
    let text: String = tokens(text).map(|token| if token == "-0" { "0" } else { token }).collect();
    serde_json::from_str(&text).map(|Exact(value)| value)
}

/// Whether it is a whole number that does not fit.
fn is_wide(token: &str) -> bool {
    let is_whole = token.starts_with(begins_number) && !token.contains(['.', 'e', 'E']);
    is_whole && token.parse::<i64>().is_err() && token.parse::<u64>().is_err()
}

/// The strings, the numbers, and what stands between them, of a text that is JSON.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match rest.chars().next()? {
            '"' => string(rest),
            first if begins_number(first) => number(rest),
            _ => rest.find(|c| c == '"' || begins_number(c)).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
}

fn begins_number(character: char) -> bool {
    character == '-' || character.is_ascii_digit()
}

/// Where the string ends that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Where the number ends that a text begins with.
fn number(text: &str) -> usize {
    let part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    text.find(|c| !part(c)).unwrap_or(text.len())
}

/// A value in which no object has a name twice.
struct Exact(Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whole).map(Self)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Exact(value)) = elements.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = pairs.next_key::<String>()? {
            let Exact(value) = pairs.next_value()?;
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} comes twice in an object")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_sent_is_read_as_it_always_is() {
        for text in [
            r#"[null, true, -1, 0, 18446744073709551615, -9223372036854775808, 1.5, 1e300, "é\"99999999999999999999"]"#,
            r#"{"a": {"a": [{}]}, "18446744073709551616": "\\", "b": []}"#,
            "[18446744073709551616.0, 99999999999999999999e1]",
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn zero_is_whole_with_a_sign_as_without() {
        for (text, meant) in [
            ("-0", "0"),
            (r#"[-0, -0.0, -0e0, "-0", -10, {"-0": -0}]"#, r#"[0, -0.0, -0.0, "-0", -10, {"-0": 0}]"#),
            (r#"{"-0\"-0": [ -0]}"#, r#"{"-0\"-0": [0]}"#),
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(meant).unwrap(), "{text}");
        }
        assert!(parse("[-00]").is_err());
    }

    #[test]
    fn what_would_be_changed_is_refused() {
        for (text, told) in [
            ("[18446744073709551616]", "18446744073709551616 does not fit into 64 bits"),
            ("[[-9223372036854775809]]", "-9223372036854775809 does not fit"),
            (r#"{"a": 1, "a": 2}"#, "\"a\" comes twice"),
            (r#"[{"x": {"a": 1, "a": 1}}]"#, "\"a\" comes twice"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
