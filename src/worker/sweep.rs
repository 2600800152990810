//! Sweeps the queues of a worker, each only if no other worker has just swept it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::broker::Broker;
use crate::protocol::names::WorkerId;
use crate::sweeper::{SWEEP, SweepReport, Sweeper};
use crate::worker::queue::served::ServedQueue;

/// When a worker sweeps again.
pub(super) enum Pace {
    /// After a beat that found something: the queues concerned. Beats come at about that interval.
    Beats(Arc<Notify>, Duration),
    /// All queues, after a pause, which is shorter than that interval.
    Rests(Duration),
}

impl Pace {
    fn interval(&self) -> Duration {
        let (Self::Beats(_, interval) | Self::Rests(interval)) = self;
        *interval
    }

    async fn rest(&self, queues: &[Arc<ServedQueue>]) {
        match self {
            Self::Beats(found, _) => found.notified().await,
            Self::Rests(interval) => {
                sleep(*interval).await;
                queues.iter().for_each(|queue| queue.note_found());
            }
        }
    }
}

/// Sweeps at that pace until it is dropped. A failed sweep is logged and does not end the loop.
///
/// Cancel-safe: each step is one script call.
pub(super) async fn run(
    broker: Broker,
    sweeper: Sweeper,
    queues: Vec<Arc<ServedQueue>>,
    worker: WorkerId,
    pace: Pace,
) {
    // Slightly less than the interval, so that the same worker can get the next lock, too.
    let lock = pace.interval().mul_f64(0.9);
    loop {
        for queue in queues.iter().filter(|queue| queue.take_found()) {
            let (queue, keys) = (&queue.queue, &queue.keys);
            // Requested together, which saves a round trip if it gets the lock.
            let (taken, now) =
                join(broker.take_turn(keys, worker.as_str(), lock), broker.server_time(keys)).await;
            match taken {
                Ok(false) => {}
                Ok(true) => match async { sweeper.sweep_queue(keys, now?).await }.await {
                    Ok(report) => {
                        if report != SweepReport::default() {
                            tracing::info!(%queue, requeued = report.requeued, buried = report.buried, balanced = report.balanced, promoted = report.promoted, delivered = report.delivered, "swept");
                        }
                        broker.outage().succeeded(SWEEP, queue.as_str());
                    }
                    Err(error) => broker.outage().failed(SWEEP, queue.as_str(), &error),
                },
                Err(error) => broker.outage().failed(SWEEP, queue.as_str(), &error),
            }
        }
        pace.rest(&queues).await;
    }
}
