//! Reads and writes the metadata of a message, the third element of our form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader};

/// The keys, as they are encoded.
pub(crate) const ATTEMPTS: &[u8] = &[0xa1, b'a'];
pub(crate) const BACKOFF: &[u8] = &[0xa1, b'b'];
pub(crate) const EXPIRES: &[u8] = &[0xa1, b'd'];
pub(crate) const ERRORS: &[u8] = &[0xa1, b'e'];
pub(crate) const FIRST_FAILED: &[u8] = &[0xa1, b'f'];
pub(crate) const RETRY_FOR: &[u8] = &[0xa1, b'g'];
pub(crate) const HEADERS: &[u8] = &[0xa1, b'h'];
pub(crate) const ID: &[u8] = &[0xa1, b'i'];
pub(crate) const KEYWORDS: &[u8] = &[0xa1, b'k'];
pub(crate) const LIMITS: &[u8] = &[0xa1, b'l'];
pub(crate) const MEMBER: &[u8] = &[0xa1, b'm'];
pub(crate) const RETRY: &[u8] = &[0xa1, b'r'];
pub(crate) const KEEP: &[u8] = &[0xa1, b's'];
pub(crate) const TIMEOUT: &[u8] = &[0xa1, b't'];
pub(crate) const UNIQUE: &[u8] = &[0xa1, b'u'];
pub(crate) const TRACE: &[u8] = &[0xa1, b'w'];

/// An encoded key and its encoded value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a meta map: each was found to be well formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pairs<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(count: usize, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// All but those with one of these keys.
    pub(crate) fn without(self, keys: &[&[u8]]) -> impl Iterator<Item = Pair<'a>> {
        self.iter().filter(move |(key, _)| !name(key).is_some_and(|name| keys.contains(&name)))
    }

    /// All but what belongs to the attempts that were made: their count and errors, and the time until which they were of use.
    pub(crate) fn without_past(self) -> impl Iterator<Item = Pair<'a>> {
        self.without(&[b"a", b"d", b"e", b"f"])
    }

    /// The value of a key.
    pub(crate) fn find(self, key: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(other, _)| name(other) == Some(key)).map(|(_, value)| value)
    }

    fn iter(self) -> impl Iterator<Item = Pair<'a>> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| Some((reader.value().ok()?, reader.value().ok()?)))
    }
}

/// Reads `a`; the error is what belongs there. So for those below.
pub(crate) fn attempts(value: &[u8]) -> Result<u32, &'static str> {
    match Reader::new(value).head() {
        Ok(Head::Unsigned(attempts)) => u32::try_from(attempts).map_err(|_| "a count below 2^32"),
        _ => Err("a count"),
    }
}

/// Reads `d`.
pub(crate) fn expires(value: &[u8]) -> Result<u64, &'static str> {
    match Reader::new(value).head() {
        Ok(Head::Unsigned(moment)) => Ok(moment),
        _ => Err("a moment (milliseconds since 1970)"),
    }
}

/// Reads `s`; `None` for anything else than a time.
pub(crate) fn keep(value: &[u8]) -> Option<u64> {
    match Reader::new(value).head() {
        Ok(Head::Unsigned(keep)) => Some(keep),
        _ => None,
    }
}

/// Reads `g` or `t`.
pub(crate) fn time(value: &[u8]) -> Result<u64, &'static str> {
    match Reader::new(value).head() {
        Ok(Head::Unsigned(time @ 1..)) => Ok(time),
        _ => Err("a time (milliseconds, at least 1)"),
    }
}

/// Reads `i`.
pub(crate) fn id(value: &[u8]) -> Result<CallId, &'static str> {
    const EXPECTED: &str = "an id (16 bytes)";
    let mut reader = Reader::new(value);
    let Ok(Head::Bin(length)) = reader.head() else { return Err(EXPECTED) };
    reader.take(length).try_into().map(CallId::from_bytes).map_err(|_| EXPECTED)
}

/// Reads `r`, or the fourth element of Python's form: a number, or nil when it does not say.
pub(crate) fn retry(value: &[u8]) -> Result<Option<i64>, &'static str> {
    const EXPECTED: &str = "a count of retries (an integer of 64 bits)";
    match Reader::new(value).head() {
        Ok(Head::Unsigned(retry)) => i64::try_from(retry).map(Some).map_err(|_| EXPECTED),
        Ok(Head::Negative(retry)) => Ok(Some(retry)),
        Ok(Head::Nil) => Ok(None),
        _ => Err(EXPECTED),
    }
}

/// A time in whole milliseconds, rounded up.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A moment in milliseconds since 1970; 0 is also what lies before.
pub(crate) fn since_1970(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).map_or(0, milliseconds)
}

/// A map or nil; and an array, which is Go's mistake and refused only when the arguments are read, so that the
/// message can be named.
pub(crate) fn may_be_keywords(value: &[u8]) -> bool {
    matches!(Reader::new(value).head(), Ok(Head::Map(_) | Head::Array(_) | Head::Nil))
}

/// The text of an encoded key, in whatever width its length is, or none when it is no text.
pub(crate) fn name(key: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(key);
    match reader.head() {
        Ok(Head::Str(length)) => Some(reader.take(length)),
        _ => None,
    }
}
