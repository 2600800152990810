//! Sweeps once more before a burst ends, because messages of dead workers may have returned to a queue that was empty.
//!
//! It takes no sweep lock, since the last sweep of another worker may be older than the end of a lease. Messages of a
//! worker whose lease is still valid belong to that worker: a burst does not wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::broker::{Broker, BrokerError, BrokerErrorKind};
use crate::sweeper::{SweepReport, Sweeper};
use crate::worker::outbox::Outbox;
use crate::worker::queue::cooldown::Cooldown;
use crate::worker::queue::served::ServedQueue;

/// What a queue looks like after a sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweptQueue {
    /// The sweep moved something.
    pub(super) moved: bool,
    /// Messages are waiting.
    pub(super) waits: bool,
}

/// The sweep before the end, and its result.
pub(super) struct LastSweep {
    parts: Arc<SweepParts>,
    under_way: Option<Pin<Box<dyn Future<Output = Vec<SweptQueue>> + Send>>>,
    /// How many messages the worker had claimed when the last sweep began.
    began: u64,
    /// The sweep found nothing.
    found_nothing: bool,
}

/// What a sweep needs.
struct SweepParts {
    broker: Broker,
    /// `None` if the worker does not sweep.
    sweeper: Option<Sweeper>,
    /// What ended leaves more calls behind.
    outbox: Outbox,
}

impl LastSweep {
    pub(super) fn new(broker: Broker, sweeper: Option<Sweeper>, outbox: Outbox) -> Self {
        let parts = Arc::new(SweepParts { broker, sweeper, outbox });
        Self { parts, under_way: None, began: 0, found_nothing: false }
    }

    /// Whether a sweep found nothing and nothing was claimed since it began; `claimed` is the number of claims so far.
    /// Otherwise starts a sweep.
    pub(super) fn is_done(&mut self, claimed: u64, queues: impl Iterator<Item = Arc<ServedQueue>>) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        let has_swept = self.found_nothing && self.began == claimed;
        let needs_none = self.parts.sweeper.is_none() && self.parts.outbox.is_untouched();
        if needs_none || (has_swept && self.parts.outbox.is_idle()) {
            return true;
        }
        (self.began, self.found_nothing) = (claimed, false);
        let (parts, queues) = (Arc::clone(&self.parts), queues.collect::<Vec<_>>());
        self.under_way = Some(Box::pin(async move {
            parts.outbox.idle().await;
            join_all(queues.iter().map(|queue| sweep(&parts, queue))).await
        }));
        false
    }

    /// The state of each queue after the sweep. Cancel-safe: the sweep continues. Never resolves if no sweep is in
    /// progress.
    pub(super) async fn ended(&mut self) -> Vec<SweptQueue> {
        let Some(sweep) = &mut self.under_way else { return std::future::pending().await };
        let left = sweep.await;
        self.under_way = None;
        left
    }

    /// Notes that the sweep found nothing.
    pub(super) fn note_nothing(&mut self) {
        self.found_nothing = true;
    }
}

/// The name of this sweep in the log.
const LAST_SWEEP: &str = "last sweep";

/// Sweeps one queue. Retries until it succeeds or cannot succeed.
async fn sweep(SweepParts { broker, sweeper, .. }: &SweepParts, queue: &ServedQueue) -> SweptQueue {
    let mut backoff = Cooldown::default();
    loop {
        let swept = async {
            let report = match sweeper {
                Some(sweeper) => {
                    sweeper.sweep_queue(&queue.keys, broker.server_time(&queue.keys).await?).await?
                }
                None => SweepReport::default(),
            };
            let moved = report.requeued > 0 || report.balanced > 0;
            Ok::<_, BrokerError>(SweptQueue { moved, waits: broker.waiting_count(&queue.keys).await? > 0 })
        };
        let error = match swept.await {
            Ok(left) => {
                broker.outage().succeeded(LAST_SWEEP, queue.queue.as_str());
                return left;
            }
            Err(error) => error,
        };
        if is_lasting(&error) {
            tracing::warn!(queue = %queue.queue, %error, "last sweep rejected");
            return SweptQueue { moved: false, waits: false };
        }
        let pause = backoff.fail();
        broker.outage().failed(LAST_SWEEP, queue.queue.as_str(), &error);
        tokio::time::sleep(pause).await;
    }
}

/// Whether someone must act before the sweep can succeed.
fn is_lasting(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Denied | BrokerErrorKind::WrongType)
}
