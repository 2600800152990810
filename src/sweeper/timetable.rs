//! Moves due calls into their queues.
//!
//! Periodic tasks that are due are left to `periodic.rs`, which makes their calls.
//!
//! A process knows when the next call of a queue is due from the calls that it scheduled, from its sweeps, and from each
//! reply to `promote`. It sleeps until then: nobody polls.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::broker::{Broker, BrokerError, Channels, Notice, Promoted};
use crate::protocol::keys::{DUE_CHANNEL, QueueKeys, queue_of};
use crate::protocol::names::WorkerId;
#[cfg(feature = "periodic")]
use crate::sweeper::periodic::Planner;

/// For how long one process has the timetable of a queue to itself, and by how much its death can delay a call.
const LEASE: Duration = Duration::from_secs(1);
/// Its name in the log.
const PROMOTE: &str = "moving calls that are due";
/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// When the next call of each queue is due, as far as this process knows.
#[derive(Debug)]
pub(crate) struct Timetable {
    broker: Broker,
    process: WorkerId,
    /// By queue.
    next: Mutex<BTreeMap<String, (QueueKeys, Instant)>>,
    sooner: Notify,
    #[cfg(feature = "periodic")]
    planner: Planner,
}

impl Timetable {
    pub(crate) fn new(broker: Broker, process: WorkerId) -> Self {
        Self {
            broker,
            process,
            next: Mutex::default(),
            sooner: Notify::new(),
            #[cfg(feature = "periodic")]
            planner: Planner::default(),
        }
    }

    /// Notes that a call of this queue is due after that time, or that one may be.
    pub(crate) fn note(&self, keys: &QueueKeys, after: Duration) {
        let at = Instant::now() + after;
        let is_first = {
            let mut next = self.next();
            let is_first = next.values().all(|(_, other)| at < *other);
            match next.entry(keys.queue.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert((keys.clone(), at));
                }
                Entry::Occupied(mut entry) => {
                    let known = &mut entry.get_mut().1;
                    *known = at.min(*known);
                }
            }
            is_first
        };
        if is_first {
            self.sooner.notify_one();
        }
    }

    /// Moves due calls until it is dropped.
    ///
    /// Cancel-safe: each move is one script call.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let first = self.next().values().map(|(_, at)| *at).min();
            match first {
                None => self.sooner.notified().await,
                Some(at) => tokio::select! {
                    () = self.sooner.notified() => continue,
                    () = tokio::time::sleep_until(at.into()) => {}
                },
            }
            for keys in self.take_due() {
                match self.promote(&keys).await {
                    Ok(_) => self.broker.outage().succeeded(PROMOTE, &keys.queue),
                    Err(error) => {
                        self.broker.outage().failed(PROMOTE, &keys.queue, &error);
                        self.note(&keys, PAUSE);
                    }
                }
            }
        }
    }

    /// Listens, until it is dropped, for calls that others schedule earlier than all known ones. If it cannot, sweeps find them
    /// later. Other notices are handed to `others`; `None`: earlier ones were missed.
    ///
    /// Cancel-safe: it changes nothing.
    pub(crate) async fn listen(self: Arc<Self>, channels: Channels, others: impl Fn(Option<Notice>) + Send) {
        let mut is_failing = false;
        loop {
            match self.broker.listen(&channels).await {
                Ok(mut listener) => {
                    is_failing = false;
                    if let Channels::Named(names) = &channels {
                        // Earlier messages were missed.
                        let queues = names.iter().filter_map(|name| queue_of(name, DUE_CHANNEL));
                        queues.for_each(|queue| self.note(&QueueKeys::new(&queue), Duration::ZERO));
                    }
                    others(None);
                    while let Some(notice) = listener.next().await {
                        match notice {
                            Notice::Due { queue, after } => self.note(&QueueKeys::new(&queue), after),
                            Notice::Paused { .. } => others(Some(notice)),
                        }
                    }
                }
                Err(error) => {
                    if !is_failing {
                        tracing::debug!(%error, "subscription to scheduled calls failed; retrying");
                    }
                    is_failing = true;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Moves all due calls of one queue, makes those of its periodic tasks, and notes when the next one is due. Returns how
    /// many it moved and made.
    pub(crate) async fn promote(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        let mut total = 0;
        loop {
            let Promoted { moved, next, ticks } =
                self.broker.promote(keys, self.process.as_str(), LEASE).await?;
            total += moved;
            #[cfg(feature = "periodic")]
            if let Some((now, due)) = ticks {
                let made = self.planner.make(&self.broker, keys, now, due).await?;
                total += made.calls;
                if made.has_failed {
                    self.note(keys, PAUSE);
                    return Ok(total);
                }
            }
            #[cfg(not(feature = "periodic"))]
            let _ = ticks;
            match next {
                None => return Ok(total),
                Some(Duration::ZERO) => {}
                Some(after) => {
                    self.note(keys, after);
                    return Ok(total);
                }
            }
        }
    }

    /// Takes the queues with calls that are due now; their replies will say when the next ones are.
    fn take_due(&self) -> Vec<QueueKeys> {
        let now = Instant::now();
        let mut next = self.next();
        let due: Vec<String> =
            next.iter().filter(|(_, (_, at))| *at <= now).map(|(queue, _)| queue.clone()).collect();
        due.iter().filter_map(|queue| next.remove(queue)).map(|(keys, _)| keys).collect()
    }

    fn next(&self) -> MutexGuard<'_, BTreeMap<String, (QueueKeys, Instant)>> {
        // No foreign code runs under the lock, so a panic leaves nothing half done.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
