//! Writes the history of the worker's queues and tasks: how many runs have ended, how long they took, and that the worker has started.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::broker::{Broker, BrokerError};
use crate::protocol::history::{DURATIONS, KINDS};
use crate::worker::queue::served::ServedQueue;
use crate::worker::queue::tally::{Tally, TaskTally};

/// The interval between two writes.
const PERIOD: Duration = Duration::from_secs(5);
/// After how many writes old counts are deleted: an hour.
const TRIM_EVERY: u64 = 720;

/// What a worker counts, and what of it was written.
pub(super) struct History {
    broker: Broker,
    queues: Vec<Counted<Arc<ServedQueue>, { KINDS.len() }>>,
    tasks: Vec<Counted<(&'static str, Arc<TaskTally>), { 2 + DURATIONS }>>,
    /// The version of the program.
    version: Option<String>,
}

/// Something that is counted, and the counts that were written.
struct Counted<T, const N: usize> {
    what: T,
    written: Mutex<[u64; N]>,
}

impl<T, const N: usize> Counted<T, N> {
    fn new(what: T) -> Self {
        Self { what, written: Mutex::new([0; N]) }
    }

    /// What was counted since the last write; `None` if that is nothing.
    fn new_counts(&self, tally: &Tally<N>) -> Option<([u64; N], [u64; N])> {
        let (now, before) = (tally.get(), *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        let new = std::array::from_fn(|place| now[place] - before[place]);
        (now != before).then_some((new, now))
    }

    /// What cannot be written is written the next time; if a reply was lost, it may count twice.
    fn settle(&self, now: [u64; N], result: Result<(), BrokerError>) {
        match result {
            Ok(()) => *self.written.lock().unwrap_or_else(PoisonError::into_inner) = now,
            Err(error) => tracing::debug!(%error, "history not written"),
        }
    }
}

impl History {
    pub(super) fn new(
        broker: &Broker,
        queues: &[Arc<ServedQueue>],
        tasks: impl Iterator<Item = (&'static str, Arc<TaskTally>)>,
        version: Option<&String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            broker: broker.clone(),
            queues: queues.iter().cloned().map(Counted::new).collect(),
            tasks: tasks.map(Counted::new).collect(),
            version: version.cloned(),
        })
    }

    /// Writes until it is dropped.
    pub(super) async fn keep(self: Arc<Self>) {
        self.mark().await;
        for round in 0_u64.. {
            if round.is_multiple_of(TRIM_EVERY) {
                self.trim().await;
            }
            tokio::time::sleep(PERIOD).await;
            self.write().await;
        }
    }

    /// The time of Redis, by which all workers count.
    async fn now_ms(&self) -> Option<u64> {
        match self.broker.time().await {
            Ok(now) => u64::try_from(now.as_millis()).ok(),
            Err(error) => {
                tracing::debug!(%error, "history not written");
                None
            }
        }
    }

    async fn mark(&self) {
        let Some(now_ms) = self.now_ms().await else { return };
        let version = self.version.as_deref().unwrap_or_default();
        for served in self.queues.iter().map(|counted| &counted.what) {
            if let Err(error) = self.broker.mark_version(&served.queue, now_ms, version).await {
                tracing::debug!(%error, "history not written");
            }
        }
    }

    async fn trim(&self) {
        let Some(now_ms) = self.now_ms().await else { return };
        for served in self.queues.iter().map(|counted| &counted.what) {
            if let Err(error) = self.broker.trim_history(&served.queue, now_ms).await {
                tracing::debug!(%error, "history not written");
            }
        }
        for (task, _) in self.tasks.iter().map(|counted| &counted.what) {
            if let Err(error) = self.broker.trim_task_history(task, now_ms).await {
                tracing::debug!(%error, "history not written");
            }
        }
    }

    /// Writes what was counted since the last time. What was counted during an outage counts for the minute after it.
    pub(super) async fn write(&self) {
        let queues: Vec<_> = (self.queues.iter())
            .filter_map(|counted| Some((counted, counted.new_counts(&counted.what.tally)?)))
            .collect();
        let tasks: Vec<_> = (self.tasks.iter())
            .filter_map(|counted| Some((counted, counted.new_counts(&counted.what.1)?)))
            .collect();
        if queues.is_empty() && tasks.is_empty() {
            return;
        }
        let Some(now_ms) = self.now_ms().await else { return };
        for (counted, (new, now)) in queues {
            counted.settle(now, self.broker.count(&counted.what.queue, now_ms, new).await);
        }
        for (counted, (new, now)) in tasks {
            counted.settle(now, self.broker.count_task(counted.what.0, now_ms, &new).await);
        }
    }
}
