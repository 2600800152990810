//! Describes periodic tasks: their definitions, the calls of their ticks, and their history.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::protocol::call_id::CallId;
use crate::protocol::decode::from_slice;
use crate::protocol::encode::{self, EncodeError};
use crate::protocol::limit::{LimitError, LimitName};
use crate::protocol::message::{Form, Message};
use crate::protocol::meta;
use crate::protocol::names::{NameError, QueueName, is_hidden};
use crate::protocol::tracking::Tracking;

/// The longest name of a periodic task, in bytes.
pub const MAX_PERIODIC_NAME: usize = 200;
/// How many missed ticks are made up for at the most, and how many if nothing else is said.
pub const MOST_MISSED: u32 = 1000;
const USUAL_MISSED: u32 = 100;
/// A tick that was not made within this time was missed.
pub const MISSED_AFTER_MS: u64 = 60_000;
/// The record of a call is kept for this many times the time until the next tick, if the call does not say for how long.
const KEPT_TICKS: u64 = 10;
/// The longest time for which it is then kept: 30 days.
const KEPT_LONGEST_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The member of a periodic task in the timetable begins with this letter.
pub const MEMBER: u8 = b'p';
/// The fields of the hash of periodic tasks begin with one of these: a definition, and since when it is paused.
pub const DEFINITION_FIELD: &str = "d:";
/// See [`DEFINITION_FIELD`].
pub const PAUSED_FIELD: &str = "p:";

/// What happens when the call of an earlier tick has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Overlap {
    /// The next call is enqueued all the same.
    #[default]
    Allow,
    /// The tick is skipped.
    Skip,
    /// The next call waits until the earlier one has ended: it is enqueued, and a limit of its own lets one run at a time.
    Queue,
}

/// What happens to ticks that nobody made within a minute, because no worker and no sweeper was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Missed {
    /// They are not made up for.
    Skip,
    /// One call is made for all of them: that of the last one.
    #[default]
    Once,
    /// A call is made for each of the last ones, up to this many, at most 1000.
    All(u32),
}

/// Why a periodic task is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodicError {
    /// The name is empty or too long, or has spaces or hidden characters.
    #[error(
        "the name {name:?} of a periodic task is not valid: use 1 to {MAX_PERIODIC_NAME} bytes of printable text without spaces"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The expression or the time zone is not valid.
    #[cfg(feature = "periodic")]
    #[error("the periodic task {name:?} cannot be scheduled")]
    Schedule {
        /// Its name.
        name: String,
        /// The reason.
        #[source]
        source: crate::protocol::cron::ScheduleError,
    },
    /// The call has options that a call of a tick cannot have.
    #[error(
        "the call of the periodic task {name:?} has {option}, which the call of a tick cannot have: leave it out"
    )]
    Option {
        /// Its name.
        name: String,
        /// The option.
        option: &'static str,
    },
    /// The call is one of a Python or Go function, whose end is not known.
    #[error(
        "the periodic task {name:?} calls a function of Python or Go, and nobody knows when such a call ends: use the overlap \
         `allow`"
    )]
    Foreign {
        /// Its name.
        name: String,
    },
    /// The call begins a flow, which goes on after the call has ended.
    #[error(
        "the periodic task {name:?} begins a flow, which goes on after the call that begins it, so no other one waits for its \
         end: use the overlap `allow` or `skip`"
    )]
    Flow {
        /// Its name.
        name: String,
    },
    /// The call is unique in a way of its own.
    #[error(
        "the call of the periodic task {name:?} is unique already: leave out `unique`, or use the overlap `allow`"
    )]
    Unique {
        /// Its name.
        name: String,
    },
    /// The queue has no valid name.
    #[error(transparent)]
    Queue(#[from] NameError),
    /// The call cannot be written.
    #[error("the call of the periodic task {name:?} cannot be written")]
    Encode {
        /// Its name.
        name: String,
        /// The reason.
        #[source]
        source: EncodeError,
    },
    /// The task needs arguments.
    #[error("the periodic task {name:?} needs arguments, and a tick has none: make them optional")]
    Arguments {
        /// Its name.
        name: String,
    },
}

/// A text that is none of the words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of {words}")]
pub struct PolicyError {
    text: String,
    words: &'static str,
}

impl Overlap {
    const WORDS: &str = "allow, skip and queue";

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
        }
    }
}

impl FromStr for Overlap {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let known = [Self::Allow, Self::Skip, Self::Queue];
        let refused = || PolicyError { text: text.into(), words: Self::WORDS };
        known.into_iter().find(|known| known.as_str() == text).ok_or_else(refused)
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Missed {
    const WORDS: &str = "skip, once, all and all:N, with N from 1 to 1000";

    /// For `all` without a number.
    #[must_use]
    pub const fn all() -> Self {
        Self::All(USUAL_MISSED)
    }
}

impl FromStr for Missed {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let number = |text: &str| text.parse().ok().filter(|number| (1..=MOST_MISSED).contains(number));
        let found = match text {
            "skip" => Some(Self::Skip),
            "once" => Some(Self::Once),
            "all" => Some(Self::all()),
            _ => text.strip_prefix("all:").and_then(number).map(Self::All),
        };
        found.ok_or_else(|| PolicyError { text: text.into(), words: Self::WORDS })
    }
}

impl TryFrom<String> for Missed {
    type Error = PolicyError;

    fn try_from(text: String) -> Result<Self, PolicyError> {
        text.parse()
    }
}

impl From<Missed> for String {
    fn from(missed: Missed) -> Self {
        missed.to_string()
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Once => f.write_str("once"),
            Self::All(USUAL_MISSED) => f.write_str("all"),
            Self::All(most) => write!(f, "all:{most}"),
        }
    }
}

/// The definition of a periodic task, as it is stored: a MessagePack map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// The cron expression, or `@every` and an interval.
    pub cron: String,
    /// The name of its time zone. `None`: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// What happens when the call of an earlier tick has not ended.
    pub overlap: Overlap,
    /// What happens to ticks that were missed.
    pub missed: Missed,
    /// The message of the call, without its id and its expiry.
    #[serde(with = "serde_bytes")]
    pub message: Vec<u8>,
    /// Whether the message is one of ours, which gets an id.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ours: bool,
    /// For how many milliseconds after its tick the call is of use. `None`: forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// For how many milliseconds the lock of a unique call holds, where it holds for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_ms: Option<u64>,
    /// Whether it comes from the attribute of a task, and so belongs to the code.
    #[serde(default, skip_serializing_if = "is_false")]
    pub code: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The call of a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickCall {
    /// When it is due, in milliseconds since 1970.
    pub tick: u64,
    /// How the call is followed. `None`: it is one of a Python or Go function, and has no id.
    pub tracking: Option<Tracking>,
    /// The message.
    pub message: Vec<u8>,
}

impl Definition {
    /// With the usual policies, for a message.
    #[must_use]
    pub fn new(cron: impl Into<String>, message: Vec<u8>, ours: bool) -> Self {
        let (overlap, missed) = Default::default();
        let cron = cron.into();
        Self { cron, tz: None, overlap, missed, message, ours, expires_ms: None, lock_ms: None, code: false }
    }

    /// As it stands in Redis.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// Reads what stands in Redis. `None` if it is no definition.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        from_slice(bytes).ok()
    }

    /// The call of a tick, with the time until the next one, both in milliseconds. `None` if the message cannot be read.
    #[must_use]
    pub fn call(&self, name: &str, tick: u64, until_next: Option<u64>) -> Option<TickCall> {
        self.call_as(tick_id(name, tick), tick, until_next)
    }

    /// The same with another id, for a call that is made by hand.
    #[must_use]
    pub fn call_as(&self, id: CallId, tick: u64, until_next: Option<u64>) -> Option<TickCall> {
        let message = Message::decode(&self.message).ok()?;
        if !self.ours || message.form() == Form::Python {
            return Some(TickCall { tick, tracking: None, message: self.message.clone() });
        }
        let expires = self.expires_ms.map(|time| encode::integer(tick.saturating_add(time)));
        let usual = until_next.unwrap_or(u64::MAX).saturating_mul(KEPT_TICKS).min(KEPT_LONGEST_MS);
        // A unique call that does not say for how long has a record until its end.
        let kept = message.pairs().find(b"s").and_then(meta::keep).filter(|kept| *kept > 0);
        let keep = kept.is_none().then(|| encode::integer(usual));
        let mut encoded = Vec::with_capacity(18);
        encode::bytes(&mut encoded, id.as_bytes());
        let mut pairs = vec![(meta::ID, encoded.as_slice())];
        pairs.extend(expires.as_ref().map(|expires| (meta::EXPIRES, expires.as_slice())));
        pairs.extend(keep.as_ref().map(|keep| (meta::KEEP, keep.as_slice())));
        let message = message.with_pairs(&pairs);
        let tracking = Message::decode(&message).ok()?.tracking();
        Some(TickCall { tick, tracking, message })
    }
}

/// The id of the call of a tick: the same in every process.
#[must_use]
pub fn tick_id(name: &str, tick: u64) -> CallId {
    CallId::from(format!("{name}@{tick}"))
}

/// The key of the lock of the calls of a periodic task whose ticks are skipped while one of them has not ended.
#[must_use]
pub fn overlap_key(name: &str) -> String {
    format!("periodic:{name}")
}

/// The limit that lets one call of a periodic task run at a time.
///
/// # Errors
/// The names are too long together.
pub fn overlap_limit(queue: &QueueName, name: &str) -> Result<LimitName, LimitError> {
    LimitName::parse(&format!("periodic:{queue}:{name}"))
}

/// Checks the name of a periodic task.
///
/// # Errors
/// A name that is empty or too long, or has spaces or hidden characters.
pub fn check_name(name: &str) -> Result<(), PeriodicError> {
    let is_valid = (1..=MAX_PERIODIC_NAME).contains(&name.len())
        && !name.chars().any(|character| character.is_whitespace() || is_hidden(character));
    if is_valid { Ok(()) } else { Err(PeriodicError::Name { name: name.into() }) }
}

/// What became of a tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TickResult {
    /// It became the call with this id; `None`: a call of a Python or Go function, which has none.
    Enqueued(#[serde(serialize_with = "id_as_text")] Option<CallId>),
    /// It was skipped, because this call had not ended.
    Skipped(#[serde(serialize_with = "id_as_text")] Option<CallId>),
    /// So many ticks were missed and not made up for; this is the first of them.
    Missed(u64),
}

fn id_as_text<S: serde::Serializer>(id: &Option<CallId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&id.map_or_else(String::new, |id| id.to_string()))
}

/// An entry of the history of a periodic task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickEntry {
    /// When the tick was due, in milliseconds since 1970. `None`: the call was made by hand.
    pub tick_ms: Option<u64>,
    /// When it was made, in milliseconds since 1970 by Redis's clock.
    pub made_ms: u64,
    /// What became of it.
    pub result: TickResult,
}

/// The words of the history.
const ENQUEUED: &str = "enqueued";
const SKIPPED: &str = "skipped";
const MISSED: &str = "missed";

impl TickEntry {
    /// Reads an entry: `[tick, made, word]`, and an id or a number. `None` if it is no entry.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tick, made_ms, word, more): (u64, u64, String, serde_bytes::ByteBuf) = from_slice(bytes).ok()?;
        let id = || <[u8; 16]>::try_from(more.as_slice()).ok().map(CallId::from_bytes);
        let result = match word.as_str() {
            ENQUEUED => TickResult::Enqueued(id()),
            SKIPPED => TickResult::Skipped(id()),
            MISSED => TickResult::Missed(std::str::from_utf8(&more).ok()?.parse().ok()?),
            _ => return None,
        };
        Some(Self { tick_ms: (tick > 0).then_some(tick), made_ms, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Meta, native, py_task};

    #[test]
    fn definition_is_read_as_it_is_written() {
        let plain = Definition::new("@daily", b"\x92\xa1f\xc4\x01\xc0".to_vec(), true);
        let full = Definition {
            tz: Some("Europe/Berlin".into()),
            overlap: Overlap::Skip,
            missed: Missed::All(7),
            expires_ms: Some(60_000),
            lock_ms: Some(5),
            code: true,
            ..plain.clone()
        };
        for definition in [plain, full] {
            assert_eq!(Definition::decode(&definition.encode()), Some(definition));
        }
        assert_eq!(Definition::decode(b"\x81\xa4cron\xa6@daily"), None);
        assert_eq!(Definition::decode(b"junk"), None);
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in ["skip", "once", "all", "all:7"] {
            assert_eq!(text.parse::<Missed>().unwrap().to_string(), text);
        }
        for text in ["allow", "skip", "queue"] {
            assert_eq!(text.parse::<Overlap>().unwrap().to_string(), text);
        }
        for text in ["", "all:0", "all:1001", "all:x", "never"] {
            assert!(text.parse::<Missed>().is_err(), "{text}");
        }
        let refused = "wait".parse::<Overlap>().unwrap_err().to_string();
        assert_eq!(refused, "\"wait\" is none of allow, skip and queue");
    }

    #[test]
    fn call_of_a_tick_has_the_same_id_everywhere_and_a_record() {
        let definition = Definition {
            expires_ms: Some(5_000),
            ..Definition::new("@hourly", native("f", b"\x05", &Meta::default()), true)
        };
        let call = definition.call("nightly", 1_764_115_200_000, Some(60_000)).unwrap();
        let message = Message::decode(&call.message).unwrap();
        assert_eq!(message.id(), Some("nightly@1764115200000".into()));
        assert_eq!(message.expires_ms(), Some(1_764_115_205_000));
        assert_eq!(call.tracking.and_then(|tracking| tracking.keep_ms), Some(600_000));
        assert_eq!(definition.call("nightly", 1_764_115_200_000, Some(60_000)), Some(call));
        let kept = Meta { keep_ms: Some(7), retry: Some(2), ..Meta::default() };
        let definition = Definition::new("@hourly", native("f", b"\x05", &kept), true);
        let call = definition.call("nightly", 1, None).unwrap();
        let meta = Meta { id: Some("nightly@1".into()), ..kept };
        assert_eq!(call.message, native("f", b"\x05", &meta));
    }

    #[test]
    fn call_of_a_foreign_function_keeps_its_bytes() {
        let bytes = py_task("m:f", b"\x91\x05", b"", 3);
        let call = Definition::new("@hourly", bytes.clone(), false).call("n", 1, None).unwrap();
        assert_eq!((call.message, call.tracking), (bytes, None));
    }

    #[test]
    fn entries_of_the_history_are_read() {
        let id = CallId::from("a");
        let entry = |word: &str, more: &[u8]| {
            rmp_serde::to_vec(&(5, 7, word, serde_bytes::Bytes::new(more))).unwrap()
        };
        let read = |word, more: &[u8]| TickEntry::decode(&entry(word, more)).map(|entry| entry.result);
        assert_eq!(read("enqueued", id.as_bytes()), Some(TickResult::Enqueued(Some(id))));
        assert_eq!(read("enqueued", b""), Some(TickResult::Enqueued(None)));
        assert_eq!(read("skipped", id.as_bytes()), Some(TickResult::Skipped(Some(id))));
        assert_eq!(read("missed", b"12"), Some(TickResult::Missed(12)));
        assert_eq!((read("missed", b"x"), read("other", b"")), (None, None));
    }
}
