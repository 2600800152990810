//! Is this worker still alive? Says so to Redis for as long as it may own a message.
//!
//! From a thread of its own, with a connection of its own: a runtime that is starved by its tasks does not look dead.
//!
//! Of a queue that is empty and of which the worker owns nothing there is less to say, so it then says it once in a whole
//! lease. What another claims meanwhile, and leaves by its death, is found within a lease of the claim.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::broker::{BrokerError, Foreign, LeaseKeeper, Order};
use crate::protocol::names::WorkerId;
use crate::repeats::WINDOW;
use crate::worker::queue::pause::PauseNews;
use crate::worker::queue::served::ServedQueue;

/// What the log calls a beat.
const HEARTBEAT: &str = "heartbeat";
/// Live keys for one script call.
const CHUNK: usize = 500;
/// One beat of so many wakes the runtime whatever it finds, since it is not calls alone that may block its threads: so often
/// that what was picked up meanwhile for a queue that rests is heard of while its live key has time for a beat that covers it.
const WAKE_EVERY: u64 = 2;
/// One beat of so many has all queues swept whatever it finds: what lies between forgets a connection over which nothing is
/// ever sent, and that of commands has nothing else to send while all queues are empty.
const SWEEP_EVERY: u64 = 16;

/// So many beats a queue rests after one that had nothing to cover and found nothing, unless it comes to own something: with
/// the beat itself that is a lease.
const RESTS: u64 = 3;

/// What is said of the worker at each beat.
pub(super) struct Pulse {
    pub(super) queues: Vec<Beating>,
    pub(super) worker: WorkerId,
    pub(super) lease: Duration,
    pub(super) period: Duration,
    /// A worker's `info`, encoded.
    pub(super) info: Vec<u8>,
    /// Where the tasks run.
    pub(super) runtime: Handle,
    /// Told after a beat, but for the first, when queues may have something to sweep: those that note it.
    pub(super) found: Arc<Notify>,
    /// To the loop that claims: orders to end runs, and of which queue.
    pub(super) orders: UnboundedSender<(usize, Order)>,
    /// To the same: queues that are paused or resumed, unlike what it knows.
    pub(super) pauses: UnboundedSender<PauseNews>,
}

/// A queue of the worker's, and how many beats it still rests.
pub(super) struct Beating {
    queue: Arc<ServedQueue>,
    rests: u64,
}

/// A thread that beats until it is told to stop. Stop it after the last message is settled, not when draining
/// begins: a draining worker still owns messages, and a silent owner's messages are requeued.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// Tells the thread to begin. Without it the thread ends.
    tell: Option<Sender<Begin>>,
    /// Once it has begun.
    beats: bool,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has ended.
    ended: oneshot::Receiver<()>,
}

/// With what the thread begins.
struct Begin {
    pulse: Pulse,
    /// Hears what became of the first beat.
    first: oneshot::Sender<Result<(), BrokerError>>,
}

impl Heartbeat {
    /// Starts the thread, which connects at once: it is ready to beat when a worker that starts is.
    pub(super) fn start(keeper: LeaseKeeper) -> std::io::Result<Self> {
        let (tell, told) = channel();
        let (alive, ended) = oneshot::channel();
        // The reply of what is no Redis may be nested deeply, which takes room.
        let thread =
            std::thread::Builder::new().name("delayed-beat".into()).stack_size(1 << 20).spawn(move || {
                let _alive: oneshot::Sender<()> = alive;
                run(keeper, &told);
            })?;
        Ok(Self { tell: Some(tell), beats: false, thread: Some(thread), ended })
    }

    /// Makes the first beat, and one each period from then on. Once.
    ///
    /// # Errors
    /// It could not connect, or the beat failed: then no other follows.
    pub(super) async fn begin(&mut self, pulse: Pulse) -> Result<(), BrokerError> {
        let (first, heard) = oneshot::channel();
        if let Some(tell) = &self.tell {
            let _ = tell.send(Begin { pulse, first });
        }
        heard.await.expect("the thread that beats tells of its first beat")?;
        self.beats = true;
        Ok(())
    }

    /// Stops beating; returns when a beat that is under way has ended. Needs no thread but that one: functions that never end
    /// may hold all others that the runtime has for what blocks.
    pub(super) async fn stop(&mut self) {
        self.tell = None;
        let _ = (&mut self.ended).await;
        self.join();
    }

    fn join(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("heartbeat thread panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // One that still connects is not waited for: it ends by itself.
        if self.beats {
            self.join();
        }
    }
}

/// Connects, and when it is told to begin, beats every period until it is told to stop. A beat that fails is tried again
/// soon: the lease is four periods long.
fn run(mut keeper: LeaseKeeper, told: &Receiver<Begin>) {
    keeper.connect_ahead();
    let Ok(Begin { mut pulse, first }) = told.recv() else { return };
    // Nothing is owned yet: a short lease is no reason not to start.
    let beat = match pulse.beat(&mut keeper) {
        // The connection is as old as the worker and may have been closed since; another one has not.
        Err(error) if error.is_silence() => pulse.beat(&mut keeper),
        beat => beat,
    };
    keeper.hurry(pulse.period);
    let begins = beat.is_ok();
    if first.send(beat.map(drop)).is_err() || !begins {
        return;
    }
    let mut last_success = Instant::now();
    let mut told_of_lease = None::<Instant>;
    let mut pause = pulse.period;
    let mut beats = 0;
    loop {
        match told.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let beat = pulse.beat(&mut keeper);
        beats += 1;
        pulse.wake(beats, &beat);
        match beat {
            Ok(_) => {
                last_success = Instant::now();
                told_of_lease = None;
                pause = pulse.period;
                keeper.outage().succeeded(HEARTBEAT, "");
            }
            Err(error) => {
                pause = pulse.period / 4;
                keeper.outage().failed(HEARTBEAT, "", &error);
                let silent = last_success.elapsed();
                let owned: usize = pulse.queues.iter().map(|beating| beating.queue.surely_owned()).sum();
                // Where it owns nothing, nobody has anything to take over.
                if owned > 0
                    && silent > pulse.lease
                    && told_of_lease.is_none_or(|told| told.elapsed() >= WINDOW)
                {
                    told_of_lease = Some(Instant::now());
                    tracing::warn!(worker = %pulse.worker, owned, %error, ?silent, "lease ended; others may run what this worker owns");
                }
            }
        }
    }
}

/// Notes which lists of a queue are another program's, and logs what has changed.
fn note_foreign(queue: &ServedQueue, now: Foreign) {
    let before = queue.note_foreign(now);
    let lists = [
        (&queue.keys.hand, before.hand, now.hand),
        (&queue.keys.notifications, before.notifications, now.notifications),
    ];
    for (key, before, now) in lists {
        if now && !before {
            tracing::error!(queue = %queue.queue, key, hint = "another program uses this key: rename it, or use another queue name", "list holds no notifications; left alone");
        } else if before && !now {
            tracing::info!(queue = %queue.queue, key, "list holds notifications again");
        }
    }
}

/// In parts of what one script call takes; where there is nothing, one part of nothing.
pub(super) fn chunks<T>(items: &[T]) -> impl Iterator<Item = &[T]> {
    items.chunks(CHUNK).chain(items.is_empty().then_some(items))
}

impl Beating {
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

impl Pulse {
    /// Wakes the runtime, unless all queues are empty: an idle worker sleeps through most of its beats.
    ///
    /// The thread of the runtime that last looked for news of its sockets may be held by something that blocks, while the
    /// others sleep until they are given something. This wakes one of them, which then looks, and sweeps what was found.
    fn wake(&self, beats: u64, beat: &Result<bool, BrokerError>) {
        if beat.is_err() || beats.is_multiple_of(SWEEP_EVERY) {
            // There may be anything.
            self.queues.iter().for_each(|beating| beating.queue.note_found());
        }
        if !matches!(beat, Ok(false)) || beats.is_multiple_of(WAKE_EVERY) {
            let found = Arc::clone(&self.found);
            self.runtime.spawn(async move { found.notify_one() });
        }
    }

    /// Renews the lease on every queue that does not rest, and hands on the orders that stand there. One that is refused does
    /// not keep the others from it; a Redis that does not answer is not asked again. Tells whether there is anything to sweep.
    ///
    /// # Errors
    /// The last error.
    fn beat(&mut self, keeper: &mut LeaseKeeper) -> Result<bool, BrokerError> {
        let mut result = Ok(());
        let mut found = false;
        for (index, beating) in self.queues.iter_mut().enumerate() {
            let Some(slots) = beating.due() else { continue };
            let queue = &beating.queue;
            let mut is_idle = slots.is_empty();
            // One that may rest for the whole of its lease is not to look dead by then.
            let lease = if is_idle { self.lease * 2 } else { self.lease };
            for chunk in chunks(&slots) {
                let (sent, at) = (queue.now(), Instant::now());
                let ids = queue.ids(chunk);
                let keys = queue.lease_keys(self.worker.as_str());
                match keeper.beat(keys, lease, &self.info, &ids) {
                    Ok(beaten) => {
                        queue.cover(chunk, sent, self.lease);
                        note_foreign(queue, beaten.foreign);
                        if beaten.found {
                            queue.note_found();
                            found = true;
                            is_idle = false;
                        }
                        // Nothing else would tell when it is resumed, where that was not heard.
                        is_idle &= beaten.paused.is_none();
                        if beaten.paused.is_some() != queue.is_paused() {
                            let by = beaten.paused.map(|paused| paused.by);
                            let _ = self.pauses.send(PauseNews::Beat { queue: index, by, sent: at });
                        }
                        for order in beaten.orders {
                            // The loop is gone only when it has put back, or settled, all that it had.
                            let _ = self.orders.send((index, order));
                        }
                    }
                    Err(error) if error.is_silence() => return Err(error),
                    Err(error) => {
                        result = Err(error);
                        is_idle = false;
                    }
                }
            }
            if is_idle {
                beating.rests = RESTS;
            }
        }
        result.map(|()| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::names::QueueName;

    #[test]
    fn a_lane_rests_until_a_lease_has_passed_or_it_owns_something() {
        let queue = Arc::new(ServedQueue::new(QueueName::default(), &WorkerId::random(), 1));
        let mut beating = Beating::new(Arc::clone(&queue));
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
