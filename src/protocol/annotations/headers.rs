//! Defines user headers: a sorted map of texts, limited in number and size.

use std::collections::BTreeMap;

use crate::protocol::decode::{Head, Reader};

/// User headers: values by name, both of them texts, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(BTreeMap<String, String>);

/// Why the headers of a call cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There are more than [`Headers::MAX_COUNT`].
    #[error(
        "a call can have at most {} headers, but this one has {count}: send them as arguments",
        Headers::MAX_COUNT
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// They are larger than [`Headers::MAX_BYTES`].
    #[error(
        "the headers of a call can have at most {} bytes, names and values together, but these have {bytes}: send \
        large values as arguments",
        Headers::MAX_BYTES
    )]
    TooLarge {
        /// Their size in bytes.
        bytes: usize,
    },
    /// A name is empty.
    #[error("a header has an empty name: give it one, such as `tenant`")]
    EmptyName,
}

impl Headers {
    /// The largest number of headers of a call.
    pub const MAX_COUNT: usize = 32;
    /// The largest size of the headers of a call, names and values together, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Sets a header. Replaces one with the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the headers against the limits of a call.
    ///
    /// # Errors
    /// There are too many, they are too large, or one has no name.
    pub fn check(&self) -> Result<(), HeaderError> {
        let bytes = self.iter().map(|(name, value)| name.len() + value.len()).sum();
        match self.0.len() {
            count if count > Self::MAX_COUNT => Err(HeaderError::TooMany { count }),
            _ if bytes > Self::MAX_BYTES => Err(HeaderError::TooLarge { bytes }),
            _ if self.0.contains_key("") => Err(HeaderError::EmptyName),
            _ => Ok(()),
        }
    }

    /// Reads the value of `h`, whatever its size; the error is what belongs there.
    pub(crate) fn read(value: &[u8]) -> Result<Self, &'static str> {
        let mut headers = Self::default();
        each(value, |name, header| headers.insert(name, header))?;
        Ok(headers)
    }

    /// Checks that a value of `h` can be read.
    pub(crate) fn check_value(value: &[u8]) -> Result<(), &'static str> {
        each(value, |_, _| ())
    }
}

impl From<Headers> for BTreeMap<String, String> {
    fn from(headers: Headers) -> Self {
        headers.0
    }
}

/// Reads a map of texts, pair by pair.
fn each(value: &[u8], mut pair: impl FnMut(&str, &str)) -> Result<(), &'static str> {
    const EXPECTED: &str = "headers (a map of texts)";
    let mut reader = Reader::new(value);
    let Ok(Head::Map(count)) = reader.head() else { return Err(EXPECTED) };
    for _ in 0..count {
        let name = text(&mut reader).ok_or(EXPECTED)?;
        pair(name, text(&mut reader).ok_or(EXPECTED)?);
    }
    Ok(())
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    let Ok(Head::Str(length)) = reader.head() else { return None };
    str::from_utf8(reader.take(length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::annotations::Annotations;
    use crate::protocol::encode::{Meta, annotated};
    use crate::protocol::message::Message;

    fn headers(count: usize, value: &str) -> Headers {
        let mut headers = Headers::default();
        (0..count).for_each(|n| headers.insert(format!("{n:02}"), value));
        headers
    }

    #[test]
    fn headers_at_their_limits_are_sent_and_larger_ones_are_not() {
        assert_eq!(headers(32, "").check(), Ok(()));
        assert_eq!(headers(33, "").check(), Err(HeaderError::TooMany { count: 33 }));
        assert_eq!(headers(1, &"x".repeat(4094)).check(), Ok(()));
        assert_eq!(headers(1, &"x".repeat(4095)).check(), Err(HeaderError::TooLarge { bytes: 4097 }));
        let mut nameless = Headers::default();
        nameless.insert("", "x");
        assert_eq!(nameless.check(), Err(HeaderError::EmptyName));
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        for headers in [headers(0, ""), headers(3, "é\0 日本"), headers(20, &"x".repeat(300))] {
            let annotations = Annotations { headers, ..Annotations::default() };
            let written = annotated("f", b"", &Meta::default(), &annotations);
            assert_eq!(Message::decode(&written).unwrap().annotations(), annotations);
        }
    }

    #[test]
    fn only_maps_of_texts_are_headers() {
        for other in
            [&b"\xc0"[..], b"\x90", b"\xa1x", b"\x81\xa1x\x05", b"\x81\x05\xa1x", b"\x81\xa1x\xc4\x01a"]
        {
            assert!(Headers::read(other).is_err() && Headers::check_value(other).is_err(), "{other:02x?}");
        }
        assert!(Headers::read(b"\x81\xa1x\xa1\xff").is_err(), "expected UTF-8 only");
        let twice = Headers::read(b"\x82\xa1x\xa1a\xa1x\xa1b").unwrap();
        assert_eq!(twice.iter().collect::<Vec<_>>(), [("x", "b")], "expected the last one to hold");
    }
}
