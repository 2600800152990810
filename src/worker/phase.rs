//! The phases of a worker: running → quiet → stopping → now. A phase never goes back, except from a quiet that was a pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::worker::stats::{Counters, Stats};

/// How far a worker is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It claims and runs.
    Running,
    /// It claims nothing more, and stays.
    Quiet,
    /// It claims nothing more, and ends when its runs have ended or the deadline comes.
    Stopping {
        /// When the runs that are left are put back.
        deadline: Instant,
    },
    /// It puts back what it has and ends.
    Now,
}

/// Why a worker returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// It was told to stop, by a signal or a [`WorkerHandle`].
    Requested,
    /// It was told to run until its queues are empty, and they are, or hold only calls that it put back for others.
    Drained,
}

/// Tells a running worker to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    phase: Arc<watch::Sender<Phase>>,
    shutdown: Duration,
    counters: Arc<Counters>,
}

impl WorkerHandle {
    pub(super) fn new(shutdown: Duration, counters: Arc<Counters>) -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Running)), shutdown, counters }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// What the worker has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Claims nothing more; runs go on, and the worker stays until [`stop`](Self::stop).
    pub fn quiet(&self) {
        self.go(Phase::Quiet);
    }

    /// Claims nothing more, lets runs end until the shutdown deadline, puts the rest back, and ends. Called a
    /// second time, it ends at once.
    pub fn stop(&self) {
        let stopping = matches!(*self.phase.borrow(), Phase::Stopping { .. });
        if stopping { self.stop_now() } else { self.wind_down() }
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Wakes the event loop, though the phase has not changed.
    pub(super) fn wake(&self) {
        self.phase.send_modify(|_| ());
    }

    /// Makes a running worker quiet. Whether it was running.
    pub(super) fn pause(&self) -> bool {
        let was_running = *self.phase.borrow() == Phase::Running;
        self.quiet();
        was_running
    }

    /// A quiet worker claims again.
    pub(super) fn resume(&self) {
        self.phase.send_if_modified(|phase| {
            let quiet = *phase == Phase::Quiet;
            if quiet {
                *phase = Phase::Running;
            }
            quiet
        });
    }

    /// Resolves when it was told to stop. Cancel-safe.
    pub(super) async fn told_to_stop(&self) {
        // The sender is a part of this handle, so there is an end to wait for.
        let _ = self.watch().wait_for(|phase| *phase > Phase::Quiet).await;
    }

    /// The same for a reason that may come beside others: where it stops already, that goes on.
    pub(super) fn wind_down(&self) {
        self.go(Phase::Stopping { deadline: Instant::now() + self.shutdown });
    }

    /// Puts back what is running and ends at once.
    pub fn stop_now(&self) {
        self.go(Phase::Now);
    }

    fn go(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let later =
                to > *phase && !matches!((*phase, to), (Phase::Stopping { .. }, Phase::Stopping { .. }));
            if later {
                *phase = to;
            }
            later
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_never_goes_back_and_a_second_stop_is_at_once() {
        let handle = WorkerHandle::new(Duration::from_secs(25), Arc::default());
        let phase = || *handle.phase.borrow();
        handle.resume();
        assert_eq!(phase(), Phase::Running);
        assert!(handle.pause() && !handle.pause());
        assert_eq!(phase(), Phase::Quiet);
        handle.resume();
        assert_eq!(phase(), Phase::Running);
        handle.quiet();
        handle.stop();
        assert!(matches!(phase(), Phase::Stopping { .. }));
        handle.quiet();
        assert!(matches!(phase(), Phase::Stopping { .. }));
        handle.stop();
        assert_eq!(phase(), Phase::Now);
        handle.resume();
        handle.stop();
        assert_eq!(phase(), Phase::Now);
    }
}
