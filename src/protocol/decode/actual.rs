//! Describes the actual value, in an error about one that did not fit.

use serde::de::Unexpected;

use super::reader::{Head, Reader};

/// At most so many characters of a text, and so many bytes, are shown.
const SHOWN: usize = 40;

/// Names the value at the beginning of `bytes`: `the integer 5`, `a string "abc"`, `an array of 3`.
#[cold]
pub(crate) fn describe_actual(bytes: &[u8]) -> String {
    let mut reader = Reader::new(bytes);
    let Ok(head) = reader.head() else { return "bytes that are no value".into() };
    match head {
        Head::Nil => "nil".into(),
        Head::Bool(value) => format!("the boolean {value}"),
        Head::Unsigned(value) => format!("the integer {value}"),
        Head::Negative(value) => format!("the integer {value}"),
        Head::Float32(value) => format!("the float {value:?}"),
        Head::Float64(value) => format!("the float {value:?}"),
        Head::Str(length) => match std::str::from_utf8(reader.take(length)) {
            Ok(text) => format!("a string {}", quoted(text)),
            Err(_) => format!("a string that is not UTF-8 ({})", bytes_of(length)),
        },
        Head::Bin(length) => format!("{}{}", bytes_of(length), hex(reader.take(length))),
        Head::Array(length) => format!("an array of {length}"),
        Head::Map(length) => format!("a map of {length}"),
        Head::Ext(-1, _) => "a timestamp".into(),
        Head::Ext(kind, length) => format!("an extension of type {kind} ({})", bytes_of(length)),
    }
}

/// The same for what a `Visitor` was given.
#[cold]
pub(crate) fn unexpected(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("the boolean {value}"),
        Unexpected::Unsigned(value) => format!("the integer {value}"),
        Unexpected::Signed(value) => format!("the integer {value}"),
        Unexpected::Float(value) => format!("the float {value:?}"),
        Unexpected::Str(text) => format!("a string {}", quoted(text)),
        Unexpected::Bytes(bytes) => format!("{}{}", bytes_of(bytes.len()), hex(bytes)),
        Unexpected::Unit | Unexpected::Option => "nil".into(),
        Unexpected::Seq => "an array".into(),
        Unexpected::Map => "a map".into(),
        other => other.to_string(),
    }
}

/// So many bytes.
#[cold]
pub(crate) fn bytes_of(count: usize) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// The beginning of a text.
pub(crate) fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let mut text = String::from(" 0x");
    for byte in bytes.iter().take(SHOWN / 2) {
        text.push_str(&format!("{byte:02x}"));
    }
    if bytes.len() > SHOWN / 2 {
        text.push('…');
    }
    text
}
