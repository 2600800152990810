//! Handles the signals to a worker.

use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::Signal as SysSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::sys::startup;
use crate::worker::phase::WorkerHandle;

/// The signals that a worker handles. SIGTERM, SIGINT and SIGHUP stop it, and a second one stops it at once. SIGUSR1 makes
/// it quiet, and so does SIGTSTP until SIGCONT. In a terminal, Ctrl-Z suspends the process as usual.
pub(super) struct Signals([(SysSignal, Option<Signal>); 6]);

impl Signals {
    /// Starts to listen to all of them except those that the parent process ignores.
    pub(super) fn listen() -> std::io::Result<Self> {
        let kinds = [
            SysSignal::SIGTERM,
            SysSignal::SIGINT,
            SysSignal::SIGHUP,
            SysSignal::SIGUSR1,
            SysSignal::SIGCONT,
            // Last, because tests wait for it.
            SysSignal::SIGTSTP,
        ];
        let mut signals = kinds.map(|kind| (kind, None));
        for (kind, listened) in &mut signals {
            if startup::hears(*kind) {
                *listened = Some(signal(SignalKind::from_raw(*kind as i32))?);
            }
        }
        startup::unblock(&kinds);
        startup::leave_signals();
        Ok(Self(signals))
    }

    /// The next signal. Cancel-safe.
    async fn next(&mut self) -> SysSignal {
        poll_fn(|cx| {
            let came = self.0.iter_mut().find_map(|(kind, listened)| {
                let came = listened.as_mut().is_some_and(|listened| listened.poll_recv(cx).is_ready());
                came.then_some(*kind)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Handles signals forever.
    pub(super) async fn obey(mut self, handle: WorkerHandle) {
        // Whether SIGCONT should end the quiet phase that SIGTSTP began.
        let mut is_paused = false;
        loop {
            let signal = self.next().await;
            // Logged only after it took effect, because readers of the log rely on it.
            match signal {
                SysSignal::SIGTSTP if startup::is_in_foreground() => {
                    tracing::info!(hint = "`fg` or `bg` continues it", "suspended");
                    startup::stop_until_continued();
                    tracing::info!("continued");
                }
                SysSignal::SIGTSTP => {
                    is_paused |= handle.pause();
                    tracing::info!(%signal, "claiming paused until SIGCONT");
                }
                SysSignal::SIGCONT if std::mem::take(&mut is_paused) => {
                    handle.resume();
                    tracing::info!(%signal, "claiming resumed");
                }
                SysSignal::SIGCONT => {}
                SysSignal::SIGUSR1 => {
                    is_paused = false;
                    handle.quiet();
                    tracing::info!(%signal, "claiming ended");
                }
                _ => {
                    handle.stop();
                    tracing::info!(%signal, hint = "send the signal again to stop immediately", "stopping");
                }
            }
        }
    }
}
