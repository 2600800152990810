//! Stores the history of queues.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::history::{
    DURATIONS, KINDS, RESOLUTIONS, Resolution, TASK_HOURS, hour, is_old, read_task_field, task_field,
    with_mark,
};
use crate::protocol::names::{QueueName, history, task_history};

/// When the history of a queue is dropped in which nothing happens any more.
const EXPIRY: Duration = Duration::from_secs(8 * 86_400);
/// When the history of a task is dropped that does not run any more.
const TASK_EXPIRY: Duration = Duration::from_secs(2 * 86_400);
/// The field of the marks.
const MARKS: &str = "marks";
/// The field of the version that started last.
const VERSION: &str = "version";

impl Broker {
    /// Counts calls that have ended: how many have succeeded, failed, and become dead letters.
    #[cfg(feature = "worker")]
    pub(crate) async fn count(
        &self,
        queue: &QueueName,
        now_ms: u64,
        counts: [u64; KINDS.len()],
    ) -> Result<(), BrokerError> {
        let key = history(queue);
        let mut pipe = redis::pipe();
        // A field that cannot be added to must not let the others be added again.
        pipe.ignore_errors();
        for resolution in RESOLUTIONS {
            for (kind, count) in KINDS.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
                pipe.cmd("HINCRBY")
                    .arg(&key)
                    .arg(resolution.field(resolution.bucket(now_ms), kind))
                    .arg(count);
            }
        }
        pipe.cmd("PEXPIRE").arg(&key).arg(EXPIRY.as_millis() as u64);
        let written: Result<Value, _> = pipe.query_async(&mut self.commands.clone()).await;
        written.map(drop).map_err(|error| BrokerError::from_redis("count", &error).of_key(Some(&key)))
    }

    /// Marks that a worker has started, unless it has the version of the one before.
    #[cfg(feature = "worker")]
    pub(crate) async fn mark_version(
        &self,
        queue: &QueueName,
        now_ms: u64,
        version: &str,
    ) -> Result<(), BrokerError> {
        let key = history(queue);
        let look = redis::cmd("HMGET").arg(&key).arg(MARKS).arg(VERSION).take();
        let (marks, before): (Option<String>, Option<String>) = self.read_own("mark_version", &look).await?;
        if !version.is_empty() && before.as_deref() == Some(version) {
            return Ok(());
        }
        let marks = with_mark(&marks.unwrap_or_default(), now_ms, version);
        let mut write = redis::pipe();
        write.cmd("HSET").arg(&key).arg(MARKS).arg(marks).arg(VERSION).arg(version);
        write.cmd("PEXPIRE").arg(&key).arg(EXPIRY.as_millis() as u64);
        let written: Result<Value, _> = write.query_async(&mut self.commands.clone()).await;
        written.map(drop).map_err(|error| BrokerError::from_redis("mark_version", &error).of_key(Some(&key)))
    }

    /// Deletes counts that are shown no more.
    #[cfg(feature = "worker")]
    pub(crate) async fn trim_history(&self, queue: &QueueName, now_ms: u64) -> Result<(), BrokerError> {
        let key = history(queue);
        let fields: Vec<String> = self.read_own("trim_history", redis::cmd("HKEYS").arg(&key)).await?;
        let old: Vec<String> = fields.into_iter().filter(|field| is_old(field, now_ms)).collect();
        if old.is_empty() {
            return Ok(());
        }
        self.read_own("trim_history", redis::cmd("HDEL").arg(&key).arg(old)).await
    }

    /// Counts runs of a task: how many have succeeded and failed, and how many have taken how long.
    #[cfg(feature = "worker")]
    pub(crate) async fn count_task(
        &self,
        task: &str,
        now_ms: u64,
        counts: &[u64],
    ) -> Result<(), BrokerError> {
        let key = task_history(task);
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for (what, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            pipe.cmd("HINCRBY").arg(&key).arg(task_field(hour(now_ms), what)).arg(count);
        }
        pipe.cmd("PEXPIRE").arg(&key).arg(TASK_EXPIRY.as_millis() as u64);
        let written: Result<Value, _> = pipe.query_async(&mut self.commands.clone()).await;
        written.map(drop).map_err(|error| BrokerError::from_redis("count_task", &error).of_key(Some(&key)))
    }

    /// Deletes counts of a task that are shown no more.
    #[cfg(feature = "worker")]
    pub(crate) async fn trim_task_history(&self, task: &str, now_ms: u64) -> Result<(), BrokerError> {
        let key = task_history(task);
        let fields: Vec<String> = self.read_own("trim_task_history", redis::cmd("HKEYS").arg(&key)).await?;
        let is_old = |field: &String| {
            read_task_field(field).is_some_and(|(of, _)| of.saturating_add(TASK_HOURS) < hour(now_ms))
        };
        let old: Vec<String> = fields.into_iter().filter(is_old).collect();
        if old.is_empty() {
            return Ok(());
        }
        self.read_own("trim_task_history", redis::cmd("HDEL").arg(&key).arg(old)).await
    }

    /// The counts of tasks in the last hours, in the order of [`count_task`](Self::count_task).
    #[cfg(feature = "inspect")]
    pub(crate) async fn task_counts(
        &self,
        tasks: &[&str],
        now_ms: u64,
    ) -> Result<Vec<[u64; 2 + DURATIONS]>, BrokerError> {
        let mut pipe = redis::pipe();
        // A key of another type is another program's.
        pipe.ignore_errors();
        for task in tasks {
            pipe.cmd("HGETALL").arg(task_history(task));
        }
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let replies: Vec<Value> = pipe
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("task_counts", &error))?;
        let read = |reply: Value| {
            let fields: HashMap<String, String> = redis::from_redis_value(reply).unwrap_or_default();
            let mut counts = [0_u64; 2 + DURATIONS];
            for (field, count) in fields {
                let found =
                    read_task_field(&field).filter(|(of, _)| of.saturating_add(TASK_HOURS) > hour(now_ms));
                if let (Some((_, what)), Ok(count)) = (found, count.parse::<u64>()) {
                    counts[what] = counts[what].saturating_add(count);
                }
            }
            counts
        };
        Ok(replies.into_iter().map(read).collect())
    }

    /// The counts of the buckets up to that of this moment, oldest first, and the marks.
    #[cfg(feature = "inspect")]
    pub(crate) async fn ended_calls(
        &self,
        queue: &QueueName,
        now_ms: u64,
        resolution: Resolution,
    ) -> Result<(Vec<[u64; KINDS.len()]>, String), BrokerError> {
        let last = resolution.bucket(now_ms);
        let mut command = redis::cmd("HMGET");
        command.arg(history(queue)).arg(MARKS);
        for bucket in last + 1 - resolution.count..=last {
            for kind in KINDS {
                command.arg(resolution.field(bucket, kind));
            }
        }
        let values: Vec<Option<String>> = self.read_own("ended_calls", &command).await?;
        let mut values = values.into_iter();
        let marks = values.next().flatten().unwrap_or_default();
        let counts: Vec<u64> =
            values.map(|value| value.and_then(|value| value.parse().ok()).unwrap_or(0)).collect();
        let buckets = counts.chunks_exact(KINDS.len()).map(|bucket| [bucket[0], bucket[1], bucket[2]]);
        Ok((buckets.collect(), marks))
    }
}
