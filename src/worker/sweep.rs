//! Whose turn is it to sweep? Every worker sweeps its queues, each queue only when nobody else has just done it.

use std::time::Duration;

use futures_util::future::join;
use tokio::time::sleep;

use crate::broker::Broker;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::{QueueName, WorkerId};
use crate::sweeper::{SweepReport, Sweeper};

/// Sweeps for ever, with a rest of `interval` between two sweeps. A sweep that fails is logged and does not end it.
///
/// Cancel-safe: what it does, it does in single steps.
pub(super) async fn run(
    broker: Broker,
    sweeper: Sweeper,
    queues: Vec<QueueName>,
    worker: WorkerId,
    interval: Duration,
) {
    let queues: Vec<(QueueName, QueueKeys)> =
        queues.into_iter().map(|queue| (queue.clone(), QueueKeys::new(&queue))).collect();
    // A little less than the interval, so that the same worker may have the next turn too.
    let turn = interval.mul_f64(0.9);
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
        sleep(interval).await;
    }
}
