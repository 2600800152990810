//! The keys beside a queue, and whether their values belong to this library or to another program.
//!
//! Every suffix is in [`KeyKind::ALL`], so that `doctor` checks it.

use redis::{RedisResult, Value};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::token::TOKEN;
use crate::broker::transitions::Paused;
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};
use crate::protocol::periodic::{DEFINITION_FIELD, Definition, PAUSED_FIELD};

/// The field with which every entry of the list of finished calls begins.
pub(super) const FINISHED_FIELD: &[u8] = b"task";

/// The kind of a key beside a queue, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Notifications,
    Hand,
    Processing,
    Workers,
    Dead,
    Deaths,
    Sweep,
    Due,
    Later,
    Timetable,
    Cancelled,
    Done,
    Finished,
    Paused,
    Parked,
    Periodic,
    Outbox,
    Flows,
}

impl KeyKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 18] = [
        Self::Notifications,
        Self::Hand,
        Self::Processing,
        Self::Workers,
        Self::Dead,
        Self::Deaths,
        Self::Sweep,
        Self::Due,
        Self::Later,
        Self::Timetable,
        Self::Cancelled,
        Self::Done,
        Self::Finished,
        Self::Paused,
        Self::Parked,
        Self::Periodic,
        Self::Outbox,
        Self::Flows,
    ];

    /// The suffix that is appended to the queue's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Notifications => "_noti",
            Self::Hand => "_hand",
            Self::Processing => "_processing",
            Self::Workers => "_workers",
            Self::Dead => "_dead",
            Self::Deaths => "_deaths",
            Self::Sweep => "_sweep",
            Self::Due => "_due",
            Self::Later => "_later",
            Self::Timetable => "_timetable",
            Self::Cancelled => "_cancelled",
            Self::Done => "_done",
            Self::Finished => "_finished",
            Self::Paused => "_paused",
            Self::Parked => "_parked",
            Self::Periodic => "_periodic",
            Self::Outbox => "_outbox",
            Self::Flows => "_flows",
        }
    }

    /// The content, in words.
    pub(crate) fn content(self) -> &'static str {
        match self {
            Self::Notifications | Self::Hand => "notifications",
            Self::Processing => "messages by the slots that own them",
            Self::Workers => "the ids of workers",
            Self::Dead => "dead letters",
            Self::Deaths => "counts of deaths",
            Self::Sweep | Self::Timetable => "the id of a worker",
            Self::Due => "when calls are due",
            Self::Later => "calls that are to run later",
            Self::Cancelled => "the ids of cancelled calls",
            Self::Done => "the ids of finished calls",
            Self::Finished => "finished calls",
            Self::Paused => "since when the queue is paused",
            Self::Parked => "the names of limits",
            Self::Periodic => "periodic tasks",
            Self::Outbox => "what is to be done for flows",
            Self::Flows => "the ids of flows",
        }
    }

    /// The kind of a key, if it is one of `kinds`, and its queue.
    pub(crate) fn of_key<'a>(key: &'a str, kinds: &[Self]) -> Option<(Self, &'a str)> {
        kinds.iter().find_map(|kind| Some((*kind, key.strip_suffix(kind.suffix())?)))
    }

    /// Appends the two commands that check the value. Each fails if the key has another type.
    fn ask(self, pipe: &mut redis::Pipeline, key: &str) {
        match self {
            Self::Notifications | Self::Hand => {
                pipe.cmd("LINDEX").arg(key).arg(0).cmd("LINDEX").arg(key).arg(-1);
                return;
            }
            Self::Processing | Self::Deaths | Self::Later | Self::Periodic | Self::Outbox => {
                pipe.cmd("HRANDFIELD").arg(key).arg(1).arg("WITHVALUES")
            }
            Self::Workers | Self::Due | Self::Cancelled | Self::Done | Self::Flows => {
                pipe.cmd("ZRANGE").arg(key).arg(0).arg(0)
            }
            Self::Parked => pipe.cmd("SRANDMEMBER").arg(key).arg(1),
            Self::Dead | Self::Finished => pipe.cmd("XRANGE").arg(key).arg("-").arg("+").arg("COUNT").arg(1),
            Self::Sweep | Self::Timetable | Self::Paused => pipe.cmd("GET").arg(key),
        };
        pipe.cmd("EXISTS").arg(key);
    }

    /// Whether the replies are as expected; `None` if the key does not exist.
    fn fits(self, key: &str, answers: &[RedisResult<Value>]) -> Option<bool> {
        let [Ok(first), Ok(second)] = answers else { return Some(false) };
        match (self, first) {
            (_, Value::Nil) => None,
            (_, Value::Array(found)) if found.is_empty() => None,
            (Self::Notifications | Self::Hand, first) => Some(is_token(first) && is_token(second)),
            (Self::Processing, Value::Array(pair)) => {
                Some(is_owned(key.strip_suffix(self.suffix()).unwrap_or_default(), pair))
            }
            (Self::Deaths, Value::Array(pair)) => Some(is_count(pair)),
            (Self::Workers, Value::Array(ids)) => Some(ids.first().is_some_and(is_worker)),
            (Self::Dead, Value::Array(entries)) => Some(begins_with(entries, b"message")),
            (Self::Finished, Value::Array(entries)) => Some(begins_with(entries, FINISHED_FIELD)),
            (Self::Sweep | Self::Timetable, who) => Some(is_worker(who)),
            (Self::Paused, text) => Some(is_pause(text)),
            (Self::Parked, Value::Array(names)) => Some(names.first().is_some_and(is_limit)),
            (Self::Due, Value::Array(members)) => Some(members.first().is_some_and(is_entry)),
            (Self::Later, Value::Array(pair)) => Some(is_scheduled(pair)),
            (Self::Periodic, Value::Array(pair)) => Some(is_periodic(pair)),
            (Self::Cancelled | Self::Done | Self::Flows, Value::Array(ids)) => {
                Some(ids.first().is_some_and(is_id))
            }
            (Self::Outbox, Value::Array(pair)) => Some(is_delivery(pair)),
            _ => Some(false),
        }
    }
}

fn is_token(value: &Value) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == TOKEN)
}

fn is_worker(value: &Value) -> bool {
    matches!(value, Value::BulkString(id) if std::str::from_utf8(id).ok().and_then(WorkerId::parse).is_some())
}

fn is_limit(value: &Value) -> bool {
    matches!(value, Value::BulkString(name) if std::str::from_utf8(name).is_ok_and(|name| LimitName::parse(name).is_ok()))
}

fn is_pause(value: &Value) -> bool {
    matches!(value, Value::BulkString(text) if Paused::parse(text).is_some())
}

/// Whether this is a slot of a worker of this library, or any slot that owns a message.
fn is_owned(queue: &str, pair: &[Value]) -> bool {
    let [Value::BulkString(wire_id), Value::BulkString(message)] = pair else { return false };
    let is_ours = || {
        let queue = QueueName::parse(queue).ok()?;
        WorkerId::of_wire_id(&queue, std::str::from_utf8(wire_id).ok()?)
    };
    Message::decode(message).is_ok() || is_ours().is_some()
}

fn is_count(pair: &[Value]) -> bool {
    let [Value::BulkString(digest), Value::BulkString(count)] = pair else { return false };
    digest.len() == 40
        && digest.iter().all(u8::is_ascii_hexdigit)
        && count.first().is_some_and(u8::is_ascii_digit)
}

/// Whether this is the id of a call, or an entry of a later version, which begins with another letter.
fn is_entry(value: &Value) -> bool {
    matches!(value, Value::BulkString(member) if member.len() > 1 && member[0].is_ascii_lowercase())
}

fn is_id(value: &Value) -> bool {
    matches!(value, Value::BulkString(id) if id.len() == 16)
}

fn is_periodic(pair: &[Value]) -> bool {
    let [Value::BulkString(field), Value::BulkString(value)] = pair else { return false };
    match field.get(..2) {
        Some(kind) if kind == DEFINITION_FIELD.as_bytes() => Definition::decode(value).is_some(),
        Some(kind) if kind == PAUSED_FIELD.as_bytes() => Paused::parse(value).is_some(),
        _ => false,
    }
}

/// Whether this is how a step ended, or what a flow has to do.
fn is_delivery(pair: &[Value]) -> bool {
    let [Value::BulkString(what), Value::BulkString(_)] = pair else { return false };
    matches!(what.len(), 16 | 21)
}

fn is_scheduled(pair: &[Value]) -> bool {
    let [Value::BulkString(id), Value::BulkString(message)] = pair else { return false };
    id.len() == 16 && Message::decode(message).is_ok()
}

/// Whether this is the first field of the first entry of a stream.
pub(super) fn begins_with(entries: &[Value], field: &[u8]) -> bool {
    let Some(Value::Array(entry)) = entries.first() else { return false };
    let Some(Value::Array(fields)) = entry.get(1) else { return false };
    matches!(fields.first(), Some(Value::BulkString(name)) if name == field)
}

impl Broker {
    /// Whether each key holds what it should; `None` if it does not exist.
    pub(crate) async fn look(&self, keys: &[(&str, KeyKind)]) -> Result<Vec<Option<bool>>, BrokerError> {
        let mut pipe = redis::pipe();
        keys.iter().for_each(|(key, kind)| kind.ask(&mut pipe, key));
        let answers: Vec<RedisResult<Value>> = pipe
            .ignore_errors()
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("look", &error))?;
        Ok(keys.iter().zip(answers.chunks(2)).map(|((key, kind), seen)| kind.fits(key, seen)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::names::SUFFIXES;

    #[test]
    fn every_suffix_has_its_content() {
        // This suffix is reserved, and no key uses it.
        let used = SUFFIXES.into_iter().filter(|suffix| *suffix != "_scheduled");
        for suffix in used {
            assert!(
                KeyKind::ALL.iter().any(|kind| kind.suffix() == suffix),
                "expected {suffix} in `KeyKind::ALL`"
            );
        }
    }

    #[test]
    fn keys_that_hold_something_else_do_not_fit() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let texts = |words: &[&str]| Value::Array(words.iter().map(|word| text(word)).collect());
        let fits = |kind: KeyKind, first: Value| {
            kind.fits(&format!("q{}", kind.suffix()), &[Ok(first), Ok(text("1"))])
        };
        let worker = "abcdefghijklmn27";
        let digest = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
        let entry = |field: &str| Value::Array(vec![Value::Array(vec![text("1-0"), texts(&[field, "x"])])]);
        for (kind, ours, foreign) in [
            (KeyKind::Notifications, text("1"), text("2")),
            (KeyKind::Hand, text("1"), text("\u{e9}")),
            (KeyKind::Processing, texts(&[&format!("q:{worker}:3"), "{}"]), texts(&["4711", "{}"])),
            (KeyKind::Workers, texts(&[worker]), texts(&["anna"])),
            (KeyKind::Dead, entry("message"), entry("temperature")),
            (KeyKind::Deaths, texts(&[digest, "1 2 3"]), texts(&[digest, "x"])),
            (KeyKind::Sweep, text(worker), text("dust")),
            (KeyKind::Due, texts(&["c0123456789abcdef"]), texts(&["2026-11-26"])),
            (
                KeyKind::Later,
                Value::Array(vec![text("0123456789abcdef"), Value::BulkString(vec![0xa1, b'f'])]),
                texts(&["anna", "x"]),
            ),
            (KeyKind::Timetable, text(worker), text("dust")),
            (KeyKind::Cancelled, texts(&["0123456789abcdef"]), texts(&["anna"])),
            (KeyKind::Done, texts(&["0123456789abcdef"]), texts(&["anna"])),
            (KeyKind::Finished, entry("task"), entry("message")),
            (KeyKind::Parked, texts(&["github"]), texts(&["two words"])),
            (KeyKind::Periodic, texts(&["p:nightly", "17 anna"]), texts(&["nightly", "17 anna"])),
            (KeyKind::Outbox, texts(&["0123456789abcdef", "x"]), texts(&["anna", "x"])),
            (KeyKind::Flows, texts(&["0123456789abcdef"]), texts(&["anna"])),
            (KeyKind::Paused, text("17 anna at home"), text("yes")),
        ] {
            assert_eq!(fits(kind, ours), Some(true), "{kind:?}");
            assert_eq!(fits(kind, foreign), Some(false), "{kind:?}");
            assert_eq!(kind.fits("q", &[Ok(Value::Nil), Ok(Value::Nil)]), None, "{kind:?}");
            assert_eq!(kind.fits("q", &[]), Some(false), "{kind:?}");
        }
        let last = KeyKind::Notifications.fits("q_noti", &[Ok(text("1")), Ok(text("x"))]);
        assert_eq!(last, Some(false), "expected the last one to be looked at");
        assert_eq!(fits(KeyKind::Workers, Value::Array(Vec::new())), None);
    }
}
