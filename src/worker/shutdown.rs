//! When does a worker end? run → quiet → stopping → now; a phase never goes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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
    /// It was told to run until its queues are empty, and they are.
    Drained,
}

/// Tells a running worker to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    phase: Arc<watch::Sender<Phase>>,
    shutdown: Duration,
}

impl WorkerHandle {
    pub(super) fn new(shutdown: Duration) -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Running)), shutdown }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Claims nothing more; runs go on, and the worker stays until [`stop`](Self::stop).
    pub fn quiet(&self) {
        self.go(Phase::Quiet);
    }

    /// Claims nothing more, lets runs end until the shutdown deadline, puts the rest back, and ends. Called a
    /// second time, it ends at once.
    pub fn stop(&self) {
        let stopping = matches!(*self.phase.borrow(), Phase::Stopping { .. });
        if stopping {
            self.stop_now()
        } else {
            self.go(Phase::Stopping { deadline: Instant::now() + self.shutdown })
        }
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

/// Obeys signals until the process ends: SIGTERM, SIGINT and SIGHUP stop, a second one at once; SIGUSR1 and
/// SIGTSTP make quiet.
pub(super) async fn obey_signals(handle: WorkerHandle) -> std::io::Result<()> {
    let tstp = SignalKind::from_raw(nix::sys::signal::Signal::SIGTSTP as i32);
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (mut hup, mut usr1) = (signal(SignalKind::hangup())?, signal(SignalKind::user_defined1())?);
    let mut tstp = signal(tstp)?;
    loop {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
            _ = hup.recv() => "SIGHUP",
            _ = usr1.recv() => { tracing::info!(signal = "SIGUSR1", "quiet: no more calls are claimed"); handle.quiet(); continue }
            _ = tstp.recv() => { tracing::info!(signal = "SIGTSTP", "quiet: no more calls are claimed"); handle.quiet(); continue }
        };
        tracing::info!(signal = name, "stopping; once more to stop at once");
        handle.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_never_goes_back_and_a_second_stop_is_at_once() {
        let handle = WorkerHandle::new(Duration::from_secs(25));
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
