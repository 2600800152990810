//! The phases of a worker: running → quiet → stopping → now. A phase never goes back, except from quiet after a pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::worker::stats::{Counters, Stats};

/// The phase of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The worker claims and runs.
    Running,
    /// The worker claims nothing more, but does not end.
    Quiet,
    /// The worker claims nothing more. It ends when its runs have ended or the deadline passes.
    Stopping {
        /// When the remaining runs are put back.
        deadline: Instant,
    },
    /// The worker puts back what it holds and ends.
    Now,
}

/// Why a worker returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The worker was told to stop, by a signal or a [`WorkerHandle`].
    Requested,
    /// The worker was told to run until its queues are empty. They are, or hold only calls that it put back for others.
    Drained,
}

/// Tells a running worker to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    phase: Arc<watch::Sender<Phase>>,
    /// Whether it has begun to claim.
    serves: Arc<watch::Sender<bool>>,
    shutdown: Duration,
    counters: Arc<Counters>,
}

impl WorkerHandle {
    pub(super) fn new(shutdown: Duration, counters: Arc<Counters>) -> Self {
        let (phase, serves) = (watch::Sender::new(Phase::Running), watch::Sender::new(false));
        Self { phase: Arc::new(phase), serves: Arc::new(serves), shutdown, counters }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The statistics of the worker so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Stops claiming. Runs continue, and the worker stays until [`stop`](Self::stop).
    pub fn quiet(&self) {
        self.go(Phase::Quiet);
    }

    /// Stops claiming, lets runs continue until the shutdown deadline, puts the rest back, and ends the worker. A second
    /// call ends it at once.
    pub fn stop(&self) {
        let stopping = matches!(*self.phase.borrow(), Phase::Stopping { .. });
        if stopping { self.stop_now() } else { self.wind_down() }
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Wakes the event loop without a change of phase.
    pub(super) fn wake(&self) {
        self.phase.send_modify(|_| ());
    }

    /// Makes a running worker quiet. Returns whether it was running.
    pub(super) fn pause(&self) -> bool {
        let was_running = *self.phase.borrow() == Phase::Running;
        self.quiet();
        was_running
    }

    /// Makes a quiet worker claim again.
    pub(super) fn resume(&self) {
        self.phase.send_if_modified(|phase| {
            let quiet = *phase == Phase::Quiet;
            if quiet {
                *phase = Phase::Running;
            }
            quiet
        });
    }

    /// The worker begins to claim.
    pub(super) fn set_serving(&self) {
        self.serves.send_replace(true);
    }

    /// Resolves when the worker has begun to claim. Cancel-safe.
    #[cfg(feature = "cli")]
    pub(crate) async fn serving(&self) {
        // This handle holds the sender, so the channel stays open.
        let _ = self.serves.subscribe().wait_for(|serves| *serves).await;
    }

    /// Resolves when the worker is told to stop. Cancel-safe.
    pub(crate) async fn told_to_stop(&self) {
        // This handle holds the sender, so the channel stays open.
        let _ = self.watch().wait_for(|phase| *phase > Phase::Quiet).await;
    }

    /// Does the same for a reason that may be one of several: a worker that is already stopping continues to do so.
    pub(super) fn wind_down(&self) {
        self.go(Phase::Stopping { deadline: Instant::now() + self.shutdown });
    }

    /// Puts back running calls and ends the worker at once.
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
