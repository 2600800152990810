//! Whose turn is it to sweep? Every worker sweeps its queues, each queue only when nobody else has just done it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::broker::{Broker, BrokerErrorKind};
use crate::protocol::names::WorkerId;
use crate::sweeper::{SweepReport, Sweeper};
use crate::worker::lane::Lane;

/// When a worker sweeps again.
pub(super) enum Pace {
    /// When a beat says so, the queues of which it does; it beats in intervals of about that time.
    Beats(Arc<Notify>, Duration),
    /// After a rest, which is shorter, all queues.
    Rests(Duration),
}

impl Pace {
    fn interval(&self) -> Duration {
        let (Self::Beats(_, interval) | Self::Rests(interval)) = self;
        *interval
    }

    async fn rest(&self, lanes: &[Arc<Lane>]) {
        match self {
            Self::Beats(found, _) => found.notified().await,
            Self::Rests(interval) => {
                sleep(*interval).await;
                lanes.iter().for_each(|lane| lane.note_found());
            }
        }
    }
}

/// Sweeps for ever at that pace. A sweep that fails is logged and does not end it.
///
/// Cancel-safe: what it does, it does in single steps.
pub(super) async fn run(
    broker: Broker,
    sweeper: Sweeper,
    lanes: Vec<Arc<Lane>>,
    worker: WorkerId,
    pace: Pace,
) {
    // A little less than the interval, so that the same worker may have the next turn too.
    let turn = pace.interval().mul_f64(0.9);
    loop {
        for lane in lanes.iter().filter(|lane| lane.take_found()) {
            let (queue, keys) = (&lane.queue, &lane.keys);
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
                Err(error)
                    if matches!(error.kind(), BrokerErrorKind::Denied | BrokerErrorKind::WrongType) =>
                {
                    tracing::warn!(%queue, %error, "could not take a turn to sweep")
                }
                Err(error) => tracing::debug!(%queue, %error, "could not take a turn to sweep"),
            }
        }
        pace.rest(&lanes).await;
    }
}
