//! Reads filling batches, and makes one full.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;

/// How many entries of the timetable one request reads.
const AT_ONCE: usize = 1000;

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

impl Broker {
    /// All batches of a queue that fill, the first to become a message first.
    pub(crate) async fn batches(&self, queue: &QueueName) -> Result<Vec<Batch>, BrokerError> {
        let (due, mut batches) = (QueueKeys::new(queue).due, Vec::new());
        for start in (0..).step_by(AT_ONCE) {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&due).arg(start).arg(start + AT_ONCE - 1).arg("WITHSCORES");
            let members: Vec<(Vec<u8>, f64)> = self.read("batches", &command).await?;
            let is_last = members.len() < AT_ONCE;
            for (member, due) in members {
                let name = member.strip_prefix(b"g").and_then(|name| String::from_utf8(name.to_vec()).ok());
                if let Some(name) = name {
                    batches.extend(self.batch(queue, name, due.max(0.0) as u64).await?);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(batches)
    }

    /// One of them; `None` if it is a message meanwhile, or its key is another program's.
    async fn batch(
        &self,
        queue: &QueueName,
        name: String,
        due_ms: u64,
    ) -> Result<Option<Batch>, BrokerError> {
        let key = keys::batch(queue, &name);
        let mut pipe = redis::pipe();
        pipe.cmd("LLEN").arg(&key).cmd("LINDEX").arg(&key).arg(0).ignore_errors();
        let replies: Vec<Value> = (pipe.query_async(&mut self.commands.clone()).await)
            .map_err(|error| BrokerError::from_redis("batches", &error))?;
        let [Value::Int(length), Value::BulkString(header)] = &replies[..] else { return Ok(None) };
        let header = String::from_utf8_lossy(header);
        let Some((since, bytes)) = header.split_once(' ') else { return Ok(None) };
        let (Ok(since_ms), Ok(bytes)) = (since.parse(), bytes.parse()) else { return Ok(None) };
        Ok(Some(Batch { name, items: length.unsigned_abs().saturating_sub(1), since_ms, bytes, due_ms }))
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
