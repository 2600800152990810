//! Polls busily for replies while the worker drains a queue.
//!
//! Between a claim and its reply, a worker of quick tasks has nothing to do, and a nearby Redis answers faster than the
//! kernel wakes a thread. Besides, the kernel tends to wake the thread on the processor that Redis uses, and then both
//! share one processor while another is idle. So for a short while the loop does not let its thread sleep: it repeatedly
//! yields to other tasks and checks for events.
//!
//! An idle thread of the runtime would wait for the same events and be woken by them, so it stays parked meanwhile, for
//! much less than a millisecond. Only threads of a [`runtime`] built for this do so, and the loop polls busily only there.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

/// How long the loop polls for a reply.
const BUSY: Duration = Duration::from_micros(500);
/// How long idle threads stay parked after a poll. One thread handles all events until then.
const REST: Duration = Duration::from_micros(250);
/// The loop does not poll a Redis whose replies take longer than this, not counting its work for each message.
const NEAR: Duration = Duration::from_micros(500);
/// About how long Redis works on each slot of a request, including the request that may be ahead of it.
const EACH: Duration = Duration::from_micros(1);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// When parked idle threads may continue: nanoseconds since [`START`].
static REST_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The thread that polled last: its number from [`here`].
static LOOKER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread has parked while another one polls.
    static RESTS: Cell<bool> = const { Cell::new(false) };
}

/// How long, and whether at all, a loop polls for its next reply.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// The loop polls until then. Set when it has nothing else to do.
    until: Option<Instant>,
    /// Whether Redis is near, and the work of its last reply was done at once, on this thread.
    pays: bool,
}

/// Returns a builder for a worker's runtime, as `delayed::main()` uses it.
///
/// The runtime has one thread per processor, at least two, and all of tokio's drivers. While a worker drains a queue, its
/// thread polls for the replies of a nearby Redis instead of sleeping, and idle threads leave the replies to it for up to
/// 250 µs. This runs more calls per second and uses more processor time. With a single processor, or with your own
/// `on_thread_park`, the runtime does not do this.
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
        // Busy polling on the only processor would keep Redis from working.
        builder.on_thread_park(before_park);
    }
    builder
}

impl BusyPoll {
    pub(super) fn new() -> Self {
        Self { until: None, pays: true }
    }

    /// Whether to poll once more, given that the loop can only `wait` for a reply.
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
        // Redis may need this processor.
        thread::yield_now();
        true
    }

    /// Notes that the loop had something to do.
    pub(super) fn on_input(&mut self) {
        self.until = None;
    }

    /// Records the latency and the batch size of a reply, and whether its calls finished inline. If calls run elsewhere,
    /// they end there, and only threads that are not parked receive their ends.
    pub(super) fn answered(&mut self, took: Duration, slots: usize, done: bool) {
        self.pays = took < NEAR + EACH * slots as u32 && done;
    }
}

/// Parks a thread of the runtime, before it waits for events, while another thread polls.
fn before_park() {
    RESTS.set(true);
    if LOOKER.load(Relaxed) == here() {
        LOOKER.store(0, Relaxed);
        REST_UNTIL.store(0, Relaxed);
        // Now another thread may have to handle the events.
        resting().drain(..).for_each(|thread| thread.unpark());
        return;
    }
    while REST_UNTIL.load(Relaxed) > since_start(Instant::now()) {
        // A thread that ends the pause after this point wakes this one.
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

/// The number of this thread, from 1.
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
            // The thread of the test parks meanwhile.
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
        // Until it has polled for long enough.
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

        // Repeated, because this thread may have been held up for longer than it polls.
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
