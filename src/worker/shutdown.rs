//! When does a worker end? run → quiet → stopping → now; a phase never goes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
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

/// The signals that a worker obeys: SIGTERM, SIGINT and SIGHUP stop, a second one at once; SIGUSR1 and SIGTSTP make
/// quiet.
pub(super) struct Signals {
    stop: [(&'static str, Signal); 3],
    quiet: [(&'static str, Signal); 2],
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> std::io::Result<Self> {
        let tstp = SignalKind::from_raw(nix::sys::signal::Signal::SIGTSTP as i32);
        Ok(Self {
            stop: [
                ("SIGTERM", signal(SignalKind::terminate())?),
                ("SIGINT", signal(SignalKind::interrupt())?),
                ("SIGHUP", signal(SignalKind::hangup())?),
            ],
            quiet: [("SIGUSR1", signal(SignalKind::user_defined1())?), ("SIGTSTP", signal(tstp)?)],
        })
    }

    /// Obeys for ever.
    pub(super) async fn obey(mut self, handle: WorkerHandle) {
        loop {
            let [term, int, hup] = &mut self.stop;
            let [usr1, tstp] = &mut self.quiet;
            let (name, quiet) = tokio::select! {
                _ = term.1.recv() => (term.0, false),
                _ = int.1.recv() => (int.0, false),
                _ = hup.1.recv() => (hup.0, false),
                _ = usr1.1.recv() => (usr1.0, true),
                _ = tstp.1.recv() => (tstp.0, true),
            };
            // Said when it is so: whoever reads it relies on it.
            if quiet {
                handle.quiet();
                tracing::info!(signal = name, "quiet: no more calls are claimed");
            } else {
                handle.stop();
                tracing::info!(signal = name, "stopping; once more to stop at once");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_never_goes_back_and_a_second_stop_is_at_once() {
        let handle = WorkerHandle::new(Duration::from_secs(25), Arc::default());
        let phase = || *handle.phase.borrow();
        handle.quiet();
        assert_eq!(phase(), Phase::Quiet);
        handle.stop();
        assert!(matches!(phase(), Phase::Stopping { .. }));
        handle.quiet();
        assert!(matches!(phase(), Phase::Stopping { .. }));
        handle.stop();
        assert_eq!(phase(), Phase::Now);
        handle.stop();
        assert_eq!(phase(), Phase::Now);
    }
}
