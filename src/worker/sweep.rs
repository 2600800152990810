//! Whose turn is it to sweep? Every worker sweeps its queues, each queue only when nobody else has just done it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::broker::Broker;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::{QueueName, WorkerId};
use crate::sweeper::{SweepReport, Sweeper};

/// When a worker sweeps again.
pub(super) enum Pace {
    /// At each of its beats, in intervals of about that time: it is awake then.
    Beats(Arc<Notify>, Duration),
    /// After a rest, which is shorter.
    Rests(Duration),
}

impl Pace {
    fn interval(&self) -> Duration {
        let (Self::Beats(_, interval) | Self::Rests(interval)) = self;
        *interval
    }

    async fn rest(&self) {
        match self {
            Self::Beats(beat, _) => beat.notified().await,
            Self::Rests(interval) => sleep(*interval).await,
        }
    }
}

/// Sweeps for ever at that pace. A sweep that fails is logged and does not end it.
///
/// Cancel-safe: what it does, it does in single steps.
pub(super) async fn run(
    broker: Broker,
    sweeper: Sweeper,
    queues: Vec<QueueName>,
    worker: WorkerId,
    pace: Pace,
) {
    let queues: Vec<(QueueName, QueueKeys)> =
        queues.into_iter().map(|queue| (queue.clone(), QueueKeys::new(&queue))).collect();
    // A little less than the interval, so that the same worker may have the next turn too.
    let turn = pace.interval().mul_f64(0.9);
    loop {
        for (queue, keys) in &queues {
            // Asked together, for whoever gets the turn.
            let (taken, now) =
                join(broker.take_turn(keys, worker.as_str(), turn), broker.server_time()).await;
            match taken {
                Ok(false) => {}
                Ok(true) => match async { sweeper.sweep_queue(keys, now?).await }.await {
                    Ok(report) if report != SweepReport::default() => {
                        tracing::info!(%queue, requeued = report.requeued, buried = report.buried, balanced = report.balanced, "swept");
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%queue, %error, "the sweep failed; it is tried again"),
                },
                Err(error) => tracing::debug!(%queue, %error, "could not take a turn to sweep"),
            }
        }
        pace.rest().await;
    }
}
