//! Represents a moment, as the timestamp extension of MessagePack.

mod text;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

pub(crate) use self::text::looks_like_rfc3339;

/// The type of the extension.
pub(crate) const EXTENSION: i8 = -1;
/// How the decoder recognizes a [`Timestamp`].
pub(crate) const NAME: &str = "delayed::Timestamp";
/// The fields under which formats without the extension know it: those of `SystemTime`.
pub(crate) const FIELDS: &[&str] = &["secs_since_epoch", "nanos_since_epoch"];

/// What a moment is read from.
pub(crate) const EXPECTED: &str = "a timestamp (the extension, RFC 3339 or a number of seconds)";

const NANOS_PER_SEC: u32 = 1_000_000_000;

/// A moment: seconds since 1970 UTC and nanoseconds, from 292 billion years before to as many after.
///
/// As an argument it travels as the MessagePack timestamp extension (type -1), which is what Go makes of a
/// `time.Time`. A parameter of this type, or of [`SystemTime`], also takes a number of seconds, as Python's
/// `time.time()` gives it, and a text in RFC 3339, such as `2023-11-14T22:13:20.5Z`.
///
/// Send a `Timestamp` rather than a [`SystemTime`]: serde writes the latter as two numbers, which Rust reads again
/// but Go does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

/// A moment that [`SystemTime`] cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the moment {0} is out of the range of a SystemTime")]
pub struct TimestampRangeError(Timestamp);

impl Timestamp {
    /// A moment `seconds` after the beginning of 1970 UTC (before it when negative) and `nanoseconds` later, or
    /// none when those are a whole second or more.
    #[must_use]
    pub const fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        if nanoseconds < NANOS_PER_SEC { Some(Self { seconds, nanoseconds }) } else { None }
    }

    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Whole seconds since the beginning of 1970 UTC, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds since then: 0 to 999,999,999.
    #[must_use]
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// A moment by a number of seconds, or none when it is not finite or too large.
    pub(crate) fn from_seconds(seconds: f64) -> Option<Self> {
        let whole = seconds.floor();
        // 2^63 itself is out of range, and no float lies between it and the largest i64.
        if !(whole >= i64::MIN as f64 && whole < i64::MAX as f64) {
            return None;
        }
        let nanoseconds = ((seconds - whole) * f64::from(NANOS_PER_SEC)).round() as u32;
        if nanoseconds >= NANOS_PER_SEC {
            return (whole as i64).checked_add(1).and_then(|seconds| Self::new(seconds, 0));
        }
        Self::new(whole as i64, nanoseconds)
    }

    /// Reads the content of the extension, or none when it has no allowed length or too many nanoseconds.
    pub(crate) fn from_extension(content: &[u8]) -> Option<Self> {
        if let Ok(seconds) = content.try_into() {
            return Self::new(i64::from(u32::from_be_bytes(seconds)), 0);
        }
        if let Ok(both) = content.try_into() {
            let both = u64::from_be_bytes(both);
            return Self::new((both & ((1 << 34) - 1)) as i64, (both >> 34) as u32);
        }
        let (nanoseconds, seconds) = content.split_first_chunk()?;
        Self::new(i64::from_be_bytes(seconds.try_into().ok()?), u32::from_be_bytes(*nanoseconds))
    }

    /// The shortest content of the extension that holds it: the buffer and its length.
    fn to_extension(self) -> ([u8; 12], usize) {
        let mut content = [0; 12];
        let length = match (u64::try_from(self.seconds), self.nanoseconds) {
            (Ok(seconds), 0) if seconds <= u64::from(u32::MAX) => {
                content[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
                4
            }
            (Ok(seconds), nanoseconds) if seconds < 1 << 34 => {
                content[..8].copy_from_slice(&((u64::from(nanoseconds) << 34) | seconds).to_be_bytes());
                8
            }
            _ => {
                content[..4].copy_from_slice(&self.nanoseconds.to_be_bytes());
                content[4..].copy_from_slice(&self.seconds.to_be_bytes());
                12
            }
        };
        (content, length)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
                match before.subsec_nanos() {
                    0 => (seconds, 0),
                    nanoseconds => (seconds.saturating_sub(1), NANOS_PER_SEC - nanoseconds),
                }
            }
        };
        Self { seconds, nanoseconds }
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = TimestampRangeError;

    fn try_from(timestamp: Timestamp) -> Result<Self, TimestampRangeError> {
        let seconds = Duration::from_secs(timestamp.seconds.unsigned_abs());
        let whole = if timestamp.seconds < 0 {
            UNIX_EPOCH.checked_sub(seconds)
        } else {
            UNIX_EPOCH.checked_add(seconds)
        };
        whole
            .and_then(|whole| whole.checked_add(Duration::from_nanos(timestamp.nanoseconds.into())))
            .ok_or(TimestampRangeError(timestamp))
    }
}

impl Serialize for Timestamp {
    /// The extension in MessagePack, a struct of [`SystemTime`]'s fields in formats for humans.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let mut fields = serializer.serialize_struct(NAME, 2)?;
            fields.serialize_field(FIELDS[0], &self.seconds)?;
            fields.serialize_field(FIELDS[1], &self.nanoseconds)?;
            return fields.end();
        }
        let (content, length) = self.to_extension();
        extension(EXTENSION, serde_bytes::Bytes::new(&content[..length]), serializer)
    }
}

/// Writes an extension of MessagePack.
pub(crate) fn extension<S: Serializer>(
    kind: i8,
    content: &serde_bytes::Bytes,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_newtype_struct(rmp_serde::MSGPACK_EXT_STRUCT_NAME, &(kind, content))
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(TimestampVisitor);
        }
        deserializer.deserialize_struct(NAME, FIELDS, TimestampVisitor)
    }
}

struct TimestampVisitor;

impl TimestampVisitor {
    fn checked<E: de::Error>(seconds: i64, nanoseconds: u32) -> Result<Timestamp, E> {
        Timestamp::new(seconds, nanoseconds)
            .ok_or_else(|| E::custom(format!("{nanoseconds} nanoseconds are more than a second")))
    }
}

impl<'de> Visitor<'de> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Timestamp, E> {
        Self::checked(seconds, 0)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Timestamp, E> {
        let out_of_range = |_| E::invalid_value(de::Unexpected::Unsigned(seconds), &self);
        Self::checked(i64::try_from(seconds).map_err(out_of_range)?, 0)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
        Timestamp::from_seconds(seconds)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let (moment, _) =
            Timestamp::parse(text).ok_or_else(|| E::invalid_type(de::Unexpected::Str(text), &self))?;
        Ok(moment)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Timestamp, A::Error> {
        let missing = |count| de::Error::invalid_length(count, &"seconds and nanoseconds");
        let seconds = parts.next_element()?.ok_or_else(|| missing(0))?;
        Self::checked(seconds, parts.next_element()?.ok_or_else(|| missing(1))?)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Timestamp, A::Error> {
        let (mut seconds, mut nanoseconds) = (None, None);
        while let Some(field) = fields.next_key::<std::borrow::Cow<'_, str>>()? {
            match &*field {
                "secs_since_epoch" => seconds = Some(fields.next_value()?),
                "nanos_since_epoch" => nanoseconds = Some(fields.next_value()?),
                other => return Err(de::Error::unknown_field(other, FIELDS)),
            }
        }
        let seconds = seconds.ok_or_else(|| de::Error::missing_field(FIELDS[0]))?;
        Self::checked(seconds, nanoseconds.ok_or_else(|| de::Error::missing_field(FIELDS[1]))?)
    }
}

#[cfg(test)]
mod tests;
