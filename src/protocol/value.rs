//! Describes values without a type in a short text for people.

pub mod plain;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write};

pub use self::plain::PlainValue;

use crate::protocol::decode::{DecodeError, Head, MAX_DEPTH, Reader, bytes_of, skip};
use crate::protocol::message::Message;
use crate::protocol::timestamp::{self, Timestamp};

/// A text of one MessagePack value, like JSON: `{"id": 7, "tags": ["a", nil], "raw": 0x00ff, "at": 2023-11-14T22:13:20Z}`.
///
/// Never fails: bytes that are no value are shown in hexadecimal. Cut at `limit` characters, the last of which is
/// then `…`.
#[must_use]
pub fn describe(bytes: &[u8], limit: usize) -> String {
    let mut text = Text::new(limit);
    // An error says that the text is full.
    let _ = text.whole(bytes);
    text.finish()
}

/// The arguments of a message, as its caller wrote them: `(1, 2, name="x")`.
///
/// A payload does not say whether an array is one argument that is a list, or several: it is shown as several.
/// Cut at `limit` characters as by [`describe`].
#[must_use]
pub fn describe_arguments(message: &Message<'_>, limit: usize) -> String {
    let (payload, keywords) = message.arguments().parts();
    let mut text = Text::new(limit);
    let _ = text.arguments(payload, keywords);
    text.finish()
}

/// Takes so many characters and then refuses.
struct Text {
    text: String,
    left: usize,
    full: bool,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.char_indices().nth(self.left) {
            None => {
                self.left -= text.chars().count();
                self.text.push_str(text);
                Ok(())
            }
            Some((end, _)) => {
                self.text.push_str(&text[..end]);
                (self.left, self.full) = (0, true);
                Err(fmt::Error)
            }
        }
    }
}

impl Text {
    fn new(limit: usize) -> Self {
        Self { text: String::new(), left: limit, full: false }
    }

    fn finish(mut self) -> String {
        if self.full && self.text.pop().is_some() {
            self.text.push('…');
        }
        self.text
    }

    fn whole(&mut self, bytes: &[u8]) -> fmt::Result {
        match skip(bytes) {
            Ok((value, [])) => self.value(&mut Reader::new(value), MAX_DEPTH),
            Ok((_, rest)) => {
                self.hex(bytes)?;
                write!(self, " (no value: {} too many)", bytes_of(rest.len()))
            }
            Err(error) => {
                self.hex(bytes)?;
                write!(self, " (no value: {error})")
            }
        }
    }

    fn arguments(&mut self, payload: &[u8], keywords: Option<&[u8]>) -> fmt::Result {
        self.write_str("(")?;
        let mut reader = Reader::new(payload);
        let mut first = true;
        match reader.head() {
            Ok(Head::Array(count)) if skip(payload).is_ok_and(|(_, rest)| rest.is_empty()) => {
                self.list(&mut reader, count, MAX_DEPTH)?;
                first = count == 0;
            }
            Ok(Head::Nil) if payload.len() == 1 => {}
            Err(_) if payload.is_empty() => {}
            _ => {
                self.whole(payload)?;
                first = false;
            }
        }
        if let Some(keywords) = keywords {
            self.keywords(keywords, first)?;
        }
        self.write_str(")")
    }

    fn keywords(&mut self, keywords: &[u8], mut first: bool) -> fmt::Result {
        let mut reader = Reader::new(keywords);
        let count = match reader.head() {
            Ok(Head::Map(count)) => count,
            Ok(Head::Nil) => 0,
            _ => {
                self.write_str(if first { "**" } else { ", **" })?;
                return self.whole(keywords);
            }
        };
        for _ in 0..count {
            if !std::mem::take(&mut first) {
                self.write_str(", ")?;
            }
            let key = reader.value().unwrap_or_default();
            match crate::protocol::decode::from_slice::<&str>(key) {
                Ok(name) => self.write_str(name)?,
                Err(_) => self.whole(key)?,
            }
            self.write_str("=")?;
            self.value(&mut reader, MAX_DEPTH)?;
        }
        Ok(())
    }

    /// The next value; `depth` more levels may follow.
    fn value(&mut self, reader: &mut Reader<'_>, depth: usize) -> fmt::Result {
        let head = match reader.head() {
            Ok(head) => head,
            Err(error) => return self.broken(&error),
        };
        match head {
            Head::Nil => self.write_str("nil"),
            Head::Bool(value) => write!(self, "{value}"),
            Head::Unsigned(value) => write!(self, "{value}"),
            Head::Negative(value) => write!(self, "{value}"),
            Head::Float32(value) => write!(self, "{value:?}"),
            Head::Float64(value) => write!(self, "{value:?}"),
            Head::Str(length) => {
                let bytes = reader.take(length);
                match std::str::from_utf8(bytes) {
                    Ok(text) => write!(self, "{text:?}"),
                    Err(_) => self.hex(bytes),
                }
            }
            Head::Bin(length) => self.hex(reader.take(length)),
            Head::Array(count) => {
                self.write_str("[")?;
                self.list(reader, count, depth)?;
                self.write_str("]")
            }
            Head::Map(count) => {
                let Some(depth) = depth.checked_sub(1) else { return self.write_str("…") };
                self.write_str("{")?;
                for place in 0..count {
                    self.write_str(if place > 0 { ", " } else { "" })?;
                    self.value(reader, depth)?;
                    self.write_str(": ")?;
                    self.value(reader, depth)?;
                }
                self.write_str("}")
            }
            Head::Ext(kind, length) => {
                let content = reader.take(length);
                let moment =
                    if kind == timestamp::EXTENSION { Timestamp::from_extension(content) } else { None };
                if let Some(moment) = moment {
                    return write!(self, "{moment}");
                }
                write!(self, "ext({kind}, ")?;
                self.hex(content)?;
                self.write_str(")")
            }
        }
    }

    fn list(&mut self, reader: &mut Reader<'_>, count: usize, depth: usize) -> fmt::Result {
        let Some(depth) = depth.checked_sub(1) else { return self.write_str("…") };
        for place in 0..count {
            self.write_str(if place > 0 { ", " } else { "" })?;
            self.value(reader, depth)?;
        }
        Ok(())
    }

    fn hex(&mut self, bytes: &[u8]) -> fmt::Result {
        self.write_str("0x")?;
        bytes.iter().try_for_each(|byte| write!(self, "{byte:02x}"))
    }

    #[cold]
    fn broken(&mut self, error: &DecodeError) -> fmt::Result {
        write!(self, "({error})")
    }
}
