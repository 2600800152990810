//! Renews the worker's lease for as long as it may own a message.
//!
//! The heartbeat is a thread with its own connection, so that a worker whose tasks starve the runtime does not look dead.
//!
//! A queue that is empty, and of which the worker owns nothing, gets one beat per lease. If another worker claims a message
//! of that queue meanwhile and dies, the message is found within one lease of the claim.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::broker::{BrokerError, ForeignLists, KillRequest, LeaseKeeper};
use crate::meter::LastBeat;
use crate::protocol::limit::LimitKeys;
use crate::protocol::names::WorkerId;
use crate::repeats::WINDOW;
use crate::worker::description::Description;
use crate::worker::permits::HeldLimits;
use crate::worker::queue::pause::PauseEvent;
use crate::worker::queue::served::ServedQueue;

/// The name of a beat in the log.
const HEARTBEAT: &str = "heartbeat";
/// How many live keys one script call renews.
const CHUNK: usize = 500;
/// Every second beat wakes the runtime, because blocking code may hold the thread that polls sockets. This is often enough to
/// notice a message that was picked up from a resting queue while its live key still has time for a beat that covers it.
const WAKE_EVERY: u64 = 2;
/// Sweep every 16 beats, so that NAT does not drop the connection for commands, which is idle while all queues are empty.
const SWEEP_EVERY: u64 = 16;
/// How many beats a queue skips after one that had nothing to renew and found nothing, unless the worker claims one of its
/// messages. Together with the beat itself this adds up to one lease.
const RESTS: u64 = 3;

/// What each beat needs.
pub(super) struct BeatParts {
    pub(super) queues: Vec<BeatingQueue>,
    pub(super) worker: WorkerId,
    pub(super) lease: Duration,
    pub(super) period: Duration,
    pub(super) description: Description,
    /// The limits held by calls of this worker.
    pub(super) permits: Arc<HeldLimits>,
    /// When a beat last succeeded.
    pub(super) last: LastBeat,
    /// The runtime of the tasks.
    pub(super) runtime: Handle,
    /// Notified after each beat, except the first, that found something to sweep. The queues have it noted.
    pub(super) found: Arc<Notify>,
    /// To the event loop: requests to kill runs, each with the index of its queue.
    pub(super) kills: UnboundedSender<(usize, KillRequest)>,
    /// To the event loop: queues that turn out to be paused or resumed, contrary to what it knows.
    pub(super) pauses: UnboundedSender<PauseEvent>,
}

/// A queue of the worker, and how many beats it still skips.
pub(super) struct BeatingQueue {
    queue: Arc<ServedQueue>,
    rests: u64,
}

/// A thread that beats until it is stopped. Stop it after the last message is settled, not when draining begins: a draining
/// worker still owns messages, and messages of a silent owner are requeued.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// Starts the beats. The thread ends when this is dropped.
    begin: Option<Sender<Begin>>,
    has_begun: bool,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has ended.
    ended: oneshot::Receiver<()>,
}

/// What the thread needs to begin.
struct Begin {
    parts: BeatParts,
    /// Receives the result of the first beat.
    first: oneshot::Sender<Result<(), BrokerError>>,
}

impl Heartbeat {
    /// Starts the thread. It connects at once, so that it is ready to beat when the worker is.
    pub(super) fn start(keeper: LeaseKeeper) -> std::io::Result<Self> {
        let (begin, begun) = channel();
        let (alive, ended) = oneshot::channel();
        // A server other than Redis may send a deeply nested reply, which needs stack space.
        let thread =
            std::thread::Builder::new().name("delayed-beat".into()).stack_size(1 << 20).spawn(move || {
                let _alive: oneshot::Sender<()> = alive;
                run(keeper, &begun);
            })?;
        Ok(Self { begin: Some(begin), has_begun: false, thread: Some(thread), ended })
    }

    /// Makes the first beat, then one in each period. Call it once.
    ///
    /// # Errors
    /// The connection or the first beat failed. No other beat follows.
    pub(super) async fn begin(&mut self, parts: BeatParts) -> Result<(), BrokerError> {
        let (first, result) = oneshot::channel();
        if let Some(begin) = &self.begin {
            let _ = begin.send(Begin { parts, first });
        }
        result.await.expect("the heartbeat thread reports its first beat")?;
        self.has_begun = true;
        Ok(())
    }

    /// Stops beating. Returns when a beat in flight has ended. Uses no blocking thread of the runtime, because functions
    /// that never end may occupy all of them.
    pub(super) async fn stop(&mut self) {
        self.begin = None;
        let _ = (&mut self.ended).await;
        self.join();
    }

    fn join(&mut self) {
        self.begin = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("heartbeat thread panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // A thread that is still connecting ends by itself.
        if self.has_begun {
            self.join();
        }
    }
}

/// Connects, waits for the signal to begin, then beats every period until the sender is dropped. Soon repeats a beat that
/// failed: the lease is four periods long.
fn run(mut keeper: LeaseKeeper, begun: &Receiver<Begin>) {
    keeper.connect_ahead();
    let Ok(Begin { mut parts, first }) = begun.recv() else { return };
    // The worker owns nothing yet, so this beat may take longer than a short lease.
    let beat = match parts.beat(&mut keeper) {
        // The connection is as old as the worker and may have been closed meanwhile. A new one is not.
        Err(error) if error.is_silence() => parts.beat(&mut keeper),
        beat => beat,
    };
    keeper.hurry(parts.period);
    let begins = beat.is_ok();
    if first.send(beat.map(drop)).is_err() || !begins {
        return;
    }
    let mut last_success = Instant::now();
    let mut warned = None::<Instant>;
    let mut pause = parts.period;
    let mut beats = 0;
    loop {
        match begun.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let beat = parts.beat(&mut keeper);
        beats += 1;
        parts.wake(beats, &beat);
        match beat {
            Ok(_) => {
                last_success = Instant::now();
                warned = None;
                pause = parts.period;
                keeper.outage().succeeded(HEARTBEAT, "");
            }
            Err(error) => {
                pause = parts.period / 4;
                keeper.outage().failed(HEARTBEAT, "", &error);
                let silent = last_success.elapsed();
                let owned: usize = parts.queues.iter().map(|beating| beating.queue.surely_owned()).sum();
                // If the worker owns nothing, others have nothing to take over.
                if owned > 0 && silent > parts.lease && warned.is_none_or(|warned| warned.elapsed() >= WINDOW)
                {
                    warned = Some(Instant::now());
                    tracing::warn!(worker = %parts.worker, owned, %error, ?silent, "lease ended; others may run what this worker owns");
                }
            }
        }
    }
}

/// Notes which lists of a queue belong to another program, and logs changes.
fn note_foreign(queue: &ServedQueue, now: ForeignLists) {
    let before = queue.note_foreign(now);
    let lists = [
        (&queue.keys.hand, before.hand, now.hand),
        (&queue.keys.notifications, before.notifications, now.notifications),
    ];
    for (key, before, now) in lists {
        if now && !before {
            tracing::error!(queue = %queue.queue, key, hint = "another program uses this key: rename it, or use another queue name", "list contains no notifications; left unchanged");
        } else if before && !now {
            tracing::info!(queue = %queue.queue, key, "list contains notifications again");
        }
    }
}

/// Splits items into chunks for one script call each; no items make one empty chunk.
pub(super) fn chunks<T>(items: &[T]) -> impl Iterator<Item = &[T]> {
    items.chunks(CHUNK).chain(items.is_empty().then_some(items))
}

impl BeatingQueue {
    pub(super) fn new(queue: Arc<ServedQueue>) -> Self {
        Self { queue, rests: 0 }
    }

    /// The slots to cover with this beat; none when the queue rests.
    fn due(&mut self) -> Option<Vec<usize>> {
        let slots = self.queue.to_cover();
        if slots.is_empty() && self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        self.rests = 0;
        Some(slots)
    }
}

impl BeatParts {
    /// Wakes the runtime, unless all queues are empty: an idle worker sleeps through most beats.
    ///
    /// Blocking code may hold the thread that polled sockets last, while the other threads sleep until they get a task.
    /// This wakes one of them, which then polls the sockets and sweeps.
    fn wake(&self, beats: u64, beat: &Result<bool, BrokerError>) {
        if beat.is_err() || beats.is_multiple_of(SWEEP_EVERY) {
            // The contents of the queues are unknown.
            self.queues.iter().for_each(|beating| beating.queue.note_found());
        }
        if !matches!(beat, Ok(false)) || beats.is_multiple_of(WAKE_EVERY) {
            let found = Arc::clone(&self.found);
            self.runtime.spawn(async move { found.notify_one() });
        }
    }

    /// Renews the lease on every queue that does not rest, and passes kill requests to the event loop. If one queue fails,
    /// continues with the others, unless Redis does not answer. Returns whether there may be something to sweep.
    ///
    /// # Errors
    /// The last error.
    fn beat(&mut self, keeper: &mut LeaseKeeper) -> Result<bool, BrokerError> {
        let mut result = Ok(());
        let mut found = false;
        // In a Cluster, the others are renewed all the same.
        let mut silent = HashSet::new();
        keeper.begin();
        let owns_messages = self.queues.iter().any(|beating| beating.queue.surely_owned() > 0);
        if self.description.update(owns_messages) {
            // The phase is written for each queue.
            self.queues.iter_mut().for_each(|beating| beating.rests = 0);
        }
        for (index, beating) in self.queues.iter_mut().enumerate() {
            let server = keeper.server_of(&beating.queue.keys.queue);
            if silent.contains(&server) {
                continue;
            }
            let Some(slots) = beating.due() else { continue };
            let queue = &beating.queue;
            let mut is_idle = slots.is_empty();
            // A queue may rest for a whole lease and must not look dead meanwhile.
            let lease = if is_idle { self.lease * 2 } else { self.lease };
            let info = self.description.encode(index);
            for chunk in chunks(&slots) {
                let (sent, at) = (queue.now(), Instant::now());
                let ids = queue.ids(chunk);
                let keys = queue.lease_keys(self.worker.as_str());
                match keeper.beat(keys, lease, &info, &ids) {
                    Ok(beaten) => {
                        queue.cover(chunk, sent, self.lease);
                        note_foreign(queue, beaten.foreign);
                        if beaten.found {
                            queue.note_found();
                            found = true;
                            is_idle = false;
                        }
                        // Nothing else notices the resume if its notification was missed.
                        is_idle &= beaten.paused.is_none();
                        if beaten.paused.is_some() != queue.is_paused() {
                            let by = beaten.paused.map(|paused| paused.by);
                            let _ = self.pauses.send(PauseEvent::Beat { queue: index, by, sent: at });
                        }
                        beaten.orders.iter().for_each(|order| self.description.obey(order));
                        for kill in beaten.kills {
                            // If the event loop is gone, it has put back or settled all of its messages.
                            let _ = self.kills.send((index, kill));
                        }
                    }
                    Err(error) if error.is_silence() && server.is_none() => return Err(error),
                    Err(error) => {
                        let is_silent = error.is_silence();
                        result = Err(error);
                        is_idle = false;
                        if is_silent {
                            silent.insert(server);
                            break;
                        }
                    }
                }
            }
            if is_idle {
                beating.rests = RESTS;
            }
        }
        for (limit, holders) in self.permits.all() {
            let keys = LimitKeys::new(&limit);
            let server = keeper.server_of(&keys.policy);
            for chunk in holders.chunks(CHUNK) {
                if silent.contains(&server) {
                    break;
                }
                match keeper.renew(&keys, self.lease, chunk) {
                    Ok(_) => {}
                    Err(error) if error.is_silence() && server.is_none() => return Err(error),
                    Err(error) => {
                        if error.is_silence() {
                            silent.insert(server.clone());
                        }
                        result = Err(error);
                    }
                }
            }
        }
        if result.is_ok() {
            self.last.set();
        }
        result.map(|()| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::names::QueueName;

    #[test]
    fn queue_rests_until_a_lease_has_passed_or_it_owns_something() {
        let queue = Arc::new(ServedQueue::new(QueueName::default(), &WorkerId::random(), 1));
        let mut beating = BeatingQueue::new(Arc::clone(&queue));
        assert_eq!(beating.due(), Some(Vec::new()), "expected it to beat until it may rest");
        beating.rests = RESTS;
        let due: Vec<bool> = (0..5).map(|_| beating.due().is_some()).collect();
        assert_eq!(due, [false, false, false, true, true]);

        beating.rests = RESTS;
        assert_eq!(beating.due(), None);
        queue.own(0);
        queue.disown(0);
        assert_eq!(beating.due(), Some(vec![0]), "expected what it owned since the last beat to be covered");
        assert_eq!(beating.due(), Some(Vec::new()), "expected it not to rest again by itself");
    }
}
