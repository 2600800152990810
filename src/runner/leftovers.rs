//! Decides whether a run has left a preforked child unchanged, so that the child may run another call.
//!
//! Threads, futures and an alarm could disturb the next run while it is in progress, so they are checked before the end of
//! the run is reported. Everything else is checked afterwards, before the next run begins.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::sys::process_state::{Attributes, Descriptors, has_alarm, has_threads, threads};
use crate::sys::sessions;
use crate::task::{Registration, States};

/// How long a thread that is about to end may take.
const ENDING: Duration = Duration::from_millis(3);
/// How often that is checked.
const LOOK: Duration = Duration::from_micros(50);

/// How long an idle blocking thread of a child's runtime waits for more work: not until the end of the run.
pub(super) const KEEP_ALIVE: Duration = Duration::from_micros(200);

/// The state of a child after its setup.
pub(super) struct Leftovers {
    attributes: Attributes,
    descriptors: Descriptors,
    threads: usize,
    /// Futures that live in the runtime.
    futures: usize,
    /// How many connections clients had made at the last check, and whether a client connected during this run: its sockets
    /// and threads also serve later runs.
    sessions: u64,
    has_connected: bool,
}

/// What a task may leave to later runs.
#[derive(Clone, Copy)]
struct Allowance {
    /// Descriptors and futures, which a state may need.
    open: bool,
    /// Threads, which a state created in this process may start.
    threads: bool,
}

impl Allowance {
    fn of(task: &Registration, states: &States) -> Self {
        Self {
            open: !task.states.is_empty(),
            threads: task.states.iter().any(|state| states.is_made_here(state)),
        }
    }
}

impl Leftovers {
    /// Records the state of this process before its first run.
    ///
    /// # Errors
    /// The kernel does not provide it.
    pub(super) fn before_any() -> io::Result<Self> {
        Ok(Self {
            attributes: Attributes::now()?,
            descriptors: Descriptors::now()?,
            threads: threads().ok_or(io::ErrorKind::Unsupported)?,
            futures: 0,
            sessions: sessions::count(),
            has_connected: false,
        })
    }

    /// Runs code in which the child itself opens descriptors that it keeps, and starts this many threads.
    pub(super) fn keep<T>(this: Option<&mut Self>, threads: usize, open: impl FnOnce() -> T) -> T {
        let Some(this) = this else { return open() };
        this.threads += threads;
        this.descriptors.keep(open)
    }

    /// Checks, before the end of a run is reported, for anything that could end this process or write to its output later.
    /// Returns what it found.
    pub(super) fn after_run(
        &mut self,
        task: &Registration,
        states: &States,
        runtime: Option<&Runtime>,
    ) -> Option<&'static str> {
        let sessions = sessions::count();
        let has_connected = std::mem::replace(&mut self.sessions, sessions) != sessions;
        self.has_connected |= has_connected;
        let allowed =
            if has_connected { Allowance { open: true, threads: true } } else { Allowance::of(task, states) };
        let futures = runtime.map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        if futures > self.futures && !allowed.open {
            return Some("a future");
        }
        self.futures = futures;
        if allowed.threads {
            self.threads = threads().unwrap_or(self.threads);
        } else if !self.has_its_threads() {
            return Some("a thread");
        }
        has_alarm().then_some("an alarm")
    }

    /// Checks for everything else, after the end of a run was reported. Returns what it found.
    pub(super) fn before_next(&mut self, task: &Registration, states: &States) -> Option<&'static str> {
        const UNKNOWN: &str = "something that cannot be inspected";
        match self.attributes.are_unchanged() {
            Ok(true) => {}
            Ok(false) => {
                return Some("another attribute, such as its directory, a limit, a timer or a signal action");
            }
            Err(_) => return Some(UNKNOWN),
        }
        let may_open = std::mem::take(&mut self.has_connected) || Allowance::of(task, states).open;
        match self.descriptors.have_others() {
            Ok(have_others) => (have_others && !may_open).then_some("a descriptor"),
            Err(_) => Some(UNKNOWN),
        }
    }

    /// Whether there are no more threads than expected, now or very soon: a joined thread may not be completely gone.
    fn has_its_threads(&mut self) -> bool {
        if has_threads(self.threads) {
            return true;
        }
        let until = Instant::now() + ENDING;
        loop {
            match threads() {
                Some(count) if count <= self.threads => {
                    self.threads = count;
                    return true;
                }
                _ if Instant::now() >= until => return false,
                _ => thread::sleep(LOOK),
            }
        }
    }
}
