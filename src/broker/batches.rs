//! Reads filling batches, and makes one full.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;

/// How many entries of the timetable one request reads.
const AT_ONCE: usize = 1000;
/// How many batches one request reads.
const PAGE: usize = 100;
/// How many replies there are for each of them.
const REPLIES: usize = 2;

/// A filling batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The path of its task, followed by a space and its key if it has one.
    pub(crate) name: String,
    pub(crate) items: u64,
    /// When the first item came, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    pub(crate) bytes: u64,
    /// When it becomes a message at the latest, in milliseconds since 1970.
    pub(crate) due_ms: u64,
}

impl Batch {
    /// From its length and its first entry, which says since when it fills and how many bytes it has.
    fn read(name: &str, due_ms: u64, replies: &[Value]) -> Option<Self> {
        let [Value::Int(length), Value::BulkString(header)] = replies else { return None };
        let header = String::from_utf8_lossy(header);
        let (since, bytes) = header.split_once(' ')?;
        let items = length.unsigned_abs().saturating_sub(1);
        Some(Self {
            name: name.into(),
            items,
            since_ms: since.parse().ok()?,
            bytes: bytes.parse().ok()?,
            due_ms,
        })
    }
}

impl Broker {
    /// All batches of a queue that fill, the first to become a message first.
    pub(crate) async fn batches(&self, queue: &QueueName) -> Result<Vec<Batch>, BrokerError> {
        let (due, mut batches) = (QueueKeys::new(queue).due, Vec::new());
        for start in (0..).step_by(AT_ONCE) {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&due).arg(start).arg(start + AT_ONCE - 1).arg("WITHSCORES");
            let members: Vec<(Vec<u8>, f64)> = self.read("batches", &command).await?;
            let is_last = members.len() < AT_ONCE;
            let name = |(member, due): (Vec<u8>, f64)| {
                let name = String::from_utf8(member.strip_prefix(b"g")?.to_vec()).ok()?;
                Some((name, due.max(0.0) as u64))
            };
            let named: Vec<(String, u64)> = members.into_iter().filter_map(name).collect();
            for page in named.chunks(PAGE) {
                batches.extend(self.batches_named(queue, page).await?);
            }
            if is_last {
                break;
            }
        }
        Ok(batches)
    }

    /// Reads these batches, each with the time at which it becomes a message, in one request. One that is a message meanwhile,
    /// or whose key is another program's, is left out.
    async fn batches_named(
        &self,
        queue: &QueueName,
        named: &[(String, u64)],
    ) -> Result<Vec<Batch>, BrokerError> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for (name, _) in named {
            let key = keys::batch(queue, name);
            pipe.cmd("LLEN").arg(&key).cmd("LINDEX").arg(&key).arg(0);
        }
        let replies: Vec<Value> = (pipe.query_async(&mut self.commands.clone()).await)
            .map_err(|error| BrokerError::from_redis("batches", &error))?;
        let batches = named.iter().zip(replies.chunks(REPLIES));
        Ok(batches.filter_map(|((name, due_ms), replies)| Batch::read(name, *due_ms, replies)).collect())
    }

    /// The items of a filling batch, encoded.
    #[cfg(feature = "testing")]
    pub(crate) async fn batch_items(
        &self,
        queue: &QueueName,
        name: &str,
    ) -> Result<Vec<Vec<u8>>, BrokerError> {
        let mut command = redis::cmd("LRANGE");
        self.read("batches", command.arg(keys::batch(queue, name)).arg(1).arg(-1)).await
    }

    /// Makes a filling batch due, so that a worker or sweeper makes a message of it. Returns whether it fills.
    pub(crate) async fn flush_batch(&self, queue: &QueueName, name: &str) -> Result<bool, BrokerError> {
        let keys = QueueKeys::new(queue);
        let mut pipe = redis::pipe();
        let member = [b"g", name.as_bytes()].concat();
        pipe.cmd("LLEN").arg(keys::batch(queue, name));
        // Does nothing for one that is a message meanwhile.
        pipe.cmd("ZADD").arg(&keys.due).arg("XX").arg(0).arg(&member);
        pipe.cmd("PUBLISH").arg(&keys.due_channel).arg(0);
        let (length, _, _): (u64, Value, Value) = (pipe.query_async(&mut self.commands.clone()).await)
            .map_err(|error| BrokerError::from_redis("batches", &error))?;
        Ok(length > 1)
    }
}
