//! Busy polling: hears of a reply at once while the worker drains a queue.
//!
//! Between a claim and its reply a worker of quick tasks has nothing to do, and a Redis nearby answers sooner than a kernel
//! wakes a thread. Besides, the kernel likes to wake it on the very processor on which Redis is at work, and then both take
//! turns on one while another is idle. So the loop does not let its thread sleep for a short while: it yields to other tasks,
//! and looks for events, again and again.
//!
//! Another thread of the runtime that has nothing to do would wait for these events too, and be woken by them. So it rests
//! meanwhile, for much less than a millisecond; only threads of a [`runtime`] that is made for it do that, and the loop looks
//! for replies only there.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

/// For how long a reply is looked for.
const BUSY: Duration = Duration::from_micros(500);
/// For how long idle threads rest from each look on. What comes is done by one thread until then.
const REST: Duration = Duration::from_micros(250);
/// A Redis that takes longer to answer is not looked for, but for what it does for each message meanwhile.
const NEAR: Duration = Duration::from_micros(500);
/// What Redis takes for each slot of a request, about: with it, a request may stand behind another.
const EACH: Duration = Duration::from_micros(1);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Until when idle threads rest: nanoseconds since [`START`].
static REST_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The thread that looked last: its [`here`].
static LOOKER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread has begun to rest where another one looks.
    static RESTS: Cell<bool> = const { Cell::new(false) };
}

/// For how long, and whether at all, a loop looks for its next reply.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// Since when it has nothing else to do, it looks until then.
    until: Option<Instant>,
    /// Whether Redis is near, and what it brought last was done at once, on this thread.
    pays: bool,
}

/// The builder of a runtime for workers, as `delayed::main()` makes it.
///
/// It has a thread for each processor, two at the least, and all of tokio's drivers. While a worker in it drains a queue,
/// its thread looks for the replies of a Redis nearby instead of sleeping until they come, and idle threads leave them to
/// that one for up to 250 µs: more calls each second, for more processor time. With a single processor, or with an
/// `on_thread_park` of your own, it does not.
///
/// ```no_run
/// # async fn serve() {}
/// let runtime = delayed::worker::runtime().thread_name("mails").build()?;
/// runtime.block_on(serve());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn runtime() -> Builder {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(processors.max(2)).enable_all();
    if processors > 1 {
        // Whoever looks on the only processor would keep Redis from working.
        builder.on_thread_park(before_park);
    }
    builder
}

impl BusyPoll {
    pub(super) fn new() -> Self {
        Self { until: None, pays: true }
    }

    /// Whether to look once more, where the loop can only `wait` for a reply.
    pub(super) fn looks(&mut self, waits: bool) -> bool {
        if !(waits && self.pays && RESTS.get()) {
            return false;
        }
        let now = Instant::now();
        if now >= *self.until.get_or_insert(now + BUSY) {
            return false;
        }
        LOOKER.store(here(), Relaxed);
        REST_UNTIL.store(since_start(now + REST), Relaxed);
        // Redis may want to run on this processor.
        thread::yield_now();
        true
    }

    /// Something came that the loop had to do.
    pub(super) fn on_input(&mut self) {
        self.until = None;
    }

    /// A reply about so many slots came, after so long, and what it brought was done at once or not: what runs elsewhere
    /// ends there, and is heard of by threads that do not rest.
    pub(super) fn answered(&mut self, took: Duration, slots: usize, done: bool) {
        self.pays = took < NEAR + EACH * slots as u32 && done;
    }
}

/// Before a thread of the runtime waits for events: it rests while another one looks for them.
fn before_park() {
    RESTS.set(true);
    if LOOKER.load(Relaxed) == here() {
        LOOKER.store(0, Relaxed);
        REST_UNTIL.store(0, Relaxed);
        // Now somebody else may have to hear of what comes.
        resting().drain(..).for_each(|thread| thread.unpark());
        return;
    }
    while REST_UNTIL.load(Relaxed) > since_start(Instant::now()) {
        // Whoever ends the rest after this wakes it.
        resting().push(thread::current());
        let rest = REST_UNTIL.load(Relaxed).saturating_sub(since_start(Instant::now()));
        if rest > 0 {
            thread::park_timeout(Duration::from_nanos(rest));
        }
        resting().retain(|thread| thread.id() != thread::current().id());
    }
}

fn resting() -> MutexGuard<'static, Vec<Thread>> {
    static RESTING: Mutex<Vec<Thread>> = Mutex::new(Vec::new());
    RESTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn since_start(moment: Instant) -> u64 {
    u64::try_from(moment.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

/// A number of this thread, from 1.
fn here() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static HERE: Cell<u64> = const { Cell::new(0) };
    }
    if HERE.get() == 0 {
        HERE.set(THREADS.fetch_add(1, Relaxed));
    }
    HERE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_a_runtime_for_workers_rest() {
        let runtime = runtime().worker_threads(1).build().expect("a runtime");
        let rests = runtime.spawn(async {
            // Its thread parks meanwhile.
            tokio::time::sleep(Duration::from_millis(1)).await;
            RESTS.get()
        });
        let processors = available_parallelism().map_or(1, NonZero::get);
        assert_eq!(runtime.block_on(rests).expect("it ends"), processors > 1);
    }

    #[test]
    fn replies_of_a_near_redis_are_polled_while_others_rest() {
        let mut polling = BusyPoll::new();
        assert!(!polling.looks(true), "expected a thread of another runtime to be left alone");
        before_park();
        assert!(!polling.looks(false));
        let began = Instant::now();
        assert!(polling.looks(true));
        // Until it has looked for long enough.
        while polling.looks(true) {}
        assert!(began.elapsed() >= BUSY);
        let last = Instant::now();
        thread::spawn(before_park).join().expect("it ends");
        assert!(last.elapsed() < Duration::from_secs(1), "expected a rest to end by itself");
        assert!(since_start(Instant::now()) >= REST_UNTIL.load(Relaxed), "expected it to last that long");

        polling.on_input();
        assert!(polling.looks(true), "expected it to look again for what comes next");
        let rests_until = REST_UNTIL.load(Relaxed);
        before_park();
        assert!(
            rests_until > 0 && REST_UNTIL.load(Relaxed) == 0,
            "expected others not to rest while nobody looks"
        );

        // Each time anew: this thread may have been held up for longer than it looks.
        polling.on_input();
        assert!(polling.looks(true), "expected it to go on");
        REST_UNTIL.store(since_start(Instant::now() + Duration::from_secs(60)), Relaxed);
        let resting_thread = thread::spawn(before_park);
        while !resting().iter().any(|thread| thread.id() == resting_thread.thread().id()) {
            thread::yield_now();
        }
        before_park();
        let parked = Instant::now();
        resting_thread.join().expect("it ends");
        assert!(
            parked.elapsed() < Duration::from_secs(30),
            "expected who rests to be woken when nobody looks any more"
        );

        polling.on_input();
        polling.answered(NEAR + 10 * EACH, 10, true);
        assert!(!polling.looks(true), "expected a Redis that is far not to be looked for");
        polling.answered(NEAR / 2, 10, false);
        assert!(!polling.looks(true), "expected none where calls run elsewhere");
        polling.answered(NEAR, 10, true);
        polling.on_input();
        assert!(polling.looks(true));
    }
}
