//! Filling batches: how many items each has, and when it becomes a message.

use serde::Serialize;

use crate::broker::Batch;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::names::QueueName;

/// A filling batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchStatus {
    /// Its queue.
    pub queue: String,
    /// The path of its task.
    pub task: String,
    /// Its key, if its calls gave one.
    pub key: Option<String>,
    /// How many items it has.
    pub items: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// When its first item came, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it becomes a message at the latest, in milliseconds since 1970.
    pub due_ms: u64,
}

impl Inspector {
    /// Returns the batches of a queue that fill, the first to become a message first.
    ///
    /// # Errors
    /// Redis cannot be reached, or the timetable has a wrong type.
    pub async fn batches(&self, queue: &QueueName) -> Result<Vec<BatchStatus>, Error> {
        let status = |batch: Batch| {
            let Batch { name, items, since_ms, bytes, due_ms } = batch;
            let (task, key) = match name.split_once(' ') {
                Some((task, key)) => (task.to_owned(), Some(key.to_owned())),
                None => (name, None),
            };
            BatchStatus { queue: queue.to_string(), task, key, items, bytes, since_ms, due_ms }
        };
        Ok(self.broker.batches(queue).await?.into_iter().map(status).collect())
    }

    /// Makes a filling batch due now: a worker or sweeper of its queue makes a message of the items that it has. Returns
    /// whether there is one of this task with this key.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn flush_batch(&self, queue: &QueueName, task: &str, key: Option<&str>) -> Result<bool, Error> {
        let name = key.map_or_else(|| task.to_owned(), |key| format!("{task} {key}"));
        Ok(self.broker.flush_batch(queue, &name).await?)
    }
}
