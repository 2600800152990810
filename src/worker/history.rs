//! Writes the history of the worker's queues: how many calls have ended, and that the worker has started.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::meter::now_ms;
use crate::worker::queue::served::ServedQueue;

/// The interval between two writes.
const PERIOD: Duration = Duration::from_secs(5);
/// After how many writes old counts are deleted: an hour.
const TRIM_EVERY: u64 = 720;

/// Writes the history until it is dropped. `version` is that of the program.
pub(super) async fn keep(broker: Broker, queues: Vec<Arc<ServedQueue>>, version: Option<String>) {
    for served in &queues {
        let version = version.as_deref().unwrap_or_default();
        if let Err(error) = broker.mark_version(&served.queue, now_ms(), version).await {
            tracing::debug!(queue = %served.queue, %error, "history not written");
        }
    }
    for round in 0_u64.. {
        if round.is_multiple_of(TRIM_EVERY) {
            for served in &queues {
                if let Err(error) = broker.trim_history(&served.queue, now_ms()).await {
                    tracing::debug!(queue = %served.queue, %error, "history not written");
                }
            }
        }
        tokio::time::sleep(PERIOD).await;
        write(&broker, &queues).await;
    }
}

/// Writes what was counted since the last time. What cannot be written is written the next time; if a reply was lost, it may count
/// twice.
pub(super) async fn write(broker: &Broker, queues: &[Arc<ServedQueue>]) {
    for served in queues {
        let counts = served.tally.take();
        if counts.iter().all(|count| *count == 0) {
            continue;
        }
        if let Err(error) = broker.count(&served.queue, now_ms(), counts).await {
            served.tally.give_back(counts);
            tracing::debug!(queue = %served.queue, %error, "history not written");
        }
    }
}
