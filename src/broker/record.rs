//! Reads the record of a call, and receives its end.

use std::collections::HashMap;
use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use redis::aio::PubSubSink;
use redis::{RedisError, RedisResult};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::decode::{Head, Reader};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;

/// The fields of a record, by name: see `docs/protocol.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record(HashMap<String, Vec<u8>>);

/// The fields of a record that a list shows.
#[cfg_attr(not(feature = "inspect"), allow(dead_code))]
const LISTED: [&str; 18] = [
    "state",
    "task",
    "queued",
    "due",
    "began",
    "attempt",
    "slot",
    "progress",
    "text",
    "errors",
    "limit",
    "ended",
    "too_large",
    "unencodable",
    "reason",
    "error",
    "letter",
    "by",
];

/// The notice that a call has ended: its state, and fields of its record.
pub(crate) type RecordEnd = Record;

impl Record {
    /// The state of the call.
    pub(crate) fn state(&self) -> Option<CallState> {
        CallState::parse(self.text("state")?)
    }

    /// The field as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.bytes(name).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// The field as a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The field.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Parses the notice that `note_end` publishes: the state, then names and values.
    fn read_end(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let Head::Array(count) = reader.head().ok()? else { return None };
        let mut next = || match reader.head().ok()? {
            Head::Str(length) => Some(reader.take(length).to_vec()),
            Head::Unsigned(number) => Some(number.to_string().into_bytes()),
            _ => None,
        };
        let mut fields = HashMap::from([("state".to_owned(), next()?)]);
        for _ in 0..(count.saturating_sub(1) / 2) {
            fields.insert(String::from_utf8(next()?).ok()?, next()?);
        }
        Some(Self(fields))
    }
}

/// Subscribes to the channels of records. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RecordListener(PubSubSink);

/// The published ends of calls: each channel, and its notice.
pub(crate) type RecordEnds = Pin<Box<dyn Stream<Item = (String, Option<RecordEnd>)> + Send>>;

impl Broker {
    /// The record of a call; `None` if it has none, or no longer has one.
    pub(crate) async fn record(&self, queue: &QueueName, id: CallId) -> Result<Option<Record>, BrokerError> {
        let command = redis::cmd("HGETALL").arg(keys::record(queue, id)).to_owned();
        let fields: HashMap<String, Vec<u8>> = self.read("record", &command).await?;
        Ok((!fields.is_empty()).then_some(Record(fields)))
    }

    /// The records of calls, without results and logs, which may be large.
    pub(crate) async fn records(
        &self,
        queue: &QueueName,
        ids: &[CallId],
    ) -> Result<Vec<Option<Record>>, BrokerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for id in ids {
            pipe.cmd("HMGET").arg(keys::record(queue, *id)).arg(&LISTED[..]);
        }
        let replies: Vec<RedisResult<Vec<Option<Vec<u8>>>>> = pipe
            .ignore_errors()
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("record", &error))?;
        let record = |values: Vec<Option<Vec<u8>>>| {
            let fields = LISTED.iter().zip(values);
            let fields: HashMap<_, _> =
                fields.filter_map(|(name, value)| Some(((*name).to_owned(), value?))).collect();
            (!fields.is_empty()).then_some(Record(fields))
        };
        // A key of another program is not a record.
        let found = |reply: RedisResult<_>| {
            let reply = reply.map_err(|error| BrokerError::from_redis("record", &error));
            match reply {
                Err(error) if error.kind() != BrokerErrorKind::WrongType => Err(error),
                reply => Ok(reply.ok().and_then(record)),
            }
        };
        replies.into_iter().map(found).collect()
    }

    /// The ids of up to `count` finished calls with a record, without the first `start`. Records that are kept longest come
    /// first; these are the newest if all are kept equally long. `None` if there are no more.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn done(
        &self,
        keys: &QueueKeys,
        start: u64,
        count: u64,
    ) -> Result<Option<Vec<CallId>>, BrokerError> {
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(&keys.done).arg(start).arg(start.saturating_add(count).saturating_sub(1));
        let ids: Vec<Vec<u8>> = self.read("done", &command).await?;
        let call = |id: Vec<u8>| <[u8; 16]>::try_from(id).ok().map(CallId::from_bytes);
        Ok((!ids.is_empty()).then(|| ids.into_iter().filter_map(call).collect()))
    }

    /// Opens a connection that receives the ends of calls.
    pub(crate) async fn listen_to_records(&self) -> Result<(RecordListener, RecordEnds), BrokerError> {
        let timeout = self.target.timeout;
        // A Cluster passes on what is published to all of its nodes.
        let connect = async { self.target.master().await?.client().get_async_pubsub().await };
        let connected = tokio::time::timeout(timeout, connect).await;
        let late = |_| {
            BrokerError::new(
                "subscribe",
                BrokerErrorKind::Unreachable,
                format!("no reply within {timeout:?}"),
            )
        };
        let connection = connected.map_err(late)?.map_err(|error| failed(&error))?;
        let (sink, stream) = connection.split();
        let ends = stream.map(|message| {
            let channel = message.get_channel::<String>().unwrap_or_default();
            (channel, Record::read_end(message.get_payload_bytes()))
        });
        Ok((RecordListener(sink), Box::pin(ends)))
    }
}

impl RecordListener {
    /// Subscribes to the channel of a record.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<(), BrokerError> {
        self.0.clone().subscribe(channel).await.map_err(|error| failed(&error))
    }

    /// Waits until everything published earlier has been passed on.
    pub(crate) async fn catch_up(&self) -> Result<(), BrokerError> {
        self.0.clone().ping::<redis::Value>().await.map(drop).map_err(|error| failed(&error))
    }

    /// Unsubscribes from the channel of a record.
    pub(crate) async fn unsubscribe(&self, channel: &str) -> Result<(), BrokerError> {
        self.0.clone().unsubscribe(channel).await.map_err(|error| failed(&error))
    }
}

fn failed(error: &RedisError) -> BrokerError {
    BrokerError::from_redis("subscribe", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_read_as_scripts_pack_it() {
        let end = Record::read_end(b"\x95\xa9succeeded\xa7attempt\xa11\xa6result\xa1\x05").unwrap();
        assert_eq!(end.text("state"), Some("succeeded"));
        assert_eq!((end.number("attempt"), end.bytes("result")), (Some(1), Some(&b"\x05"[..])));
        for other in [&b""[..], b"\xa1x", b"\x92\xa1x", b"\x93\xa1x\xa1y"] {
            let read = Record::read_end(other).map(|end| end.0.len());
            assert!(read.is_none() || other == b"\x92\xa1x", "{other:?}");
        }
    }
}
