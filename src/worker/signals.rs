//! Signals to a worker: which it obeys, and how.

use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::Signal as SysSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::sys::startup;
use crate::worker::phase::WorkerHandle;

/// The signals that a worker obeys: SIGTERM, SIGINT and SIGHUP stop, a second one at once; SIGUSR1 makes quiet, SIGTSTP does
/// until SIGCONT. At a terminal, Ctrl-Z stops the process as any other.
pub(super) struct Signals([(SysSignal, Option<Signal>); 6]);

impl Signals {
    /// Listens from now on, to those that are not ignored by the will of the parent.
    pub(super) fn listen() -> std::io::Result<Self> {
        let kinds = [
            SysSignal::SIGTERM,
            SysSignal::SIGINT,
            SysSignal::SIGHUP,
            SysSignal::SIGUSR1,
            SysSignal::SIGCONT,
            // The last: tests wait for it.
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

    /// The next one that comes. Cancel-safe.
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

    /// Obeys for ever.
    pub(super) async fn obey(mut self, handle: WorkerHandle) {
        // Whether SIGCONT is to end the quiet that SIGTSTP began.
        let mut is_paused = false;
        loop {
            let signal = self.next().await;
            // Said when it is so: whoever reads it relies on it.
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
                    tracing::info!(%signal, hint = "once more to stop at once", "stopping");
                }
            }
        }
    }
}
