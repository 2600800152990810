//! `sweeper`: brings back what dead workers owned, until a signal comes.

use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Program;
use crate::cli::args::Exposed;
#[cfg(feature = "metrics")]
use crate::cli::commands::exporter::expose;
use crate::cli::exit::Failure;
use crate::cli::health::{self, Health};
use crate::sweeper::Sweeper;
use crate::sys::startup;

pub(super) async fn run(program: Program, exposed: Exposed) -> Result<(), Failure> {
    let ended = until_signal()?;
    #[cfg(feature = "metrics")]
    expose(&program, exposed.address()).await?;
    let sweeps = async {
        let health = Health::begin(&program.settings.config, exposed.health_file)?;
        let sweeper = Sweeper::with_config(&program.settings.config).await?;
        let _health = health.ready();
        sweeper.run().await;
        Ok(())
    };
    tokio::select! {
        failed = sweeps => failed,
        name = ended => {
            health::stopping();
            tracing::info!(signal = name, "stopped");
            Ok(())
        }
    }
}

/// Resolves at the first SIGTERM, SIGINT or SIGHUP that the parent does not ignore, also one that comes before it is polled.
/// Cancel-safe.
pub(super) fn until_signal() -> Result<impl Future<Output = &'static str>, Failure> {
    let mut signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].map(|kind| (kind, None));
    for (kind, listened) in signals.iter_mut().filter(|(kind, _)| startup::hears(*kind)) {
        let heard = signal(SignalKind::from_raw(*kind as i32));
        *listened = Some(heard.map_err(|error| Failure::io("signals cannot be handled", &error))?);
    }
    startup::leave_signals();
    Ok(poll_fn(move |cx| {
        let came = signals.iter_mut().find_map(|(kind, listened)| {
            let came = listened.as_mut().is_some_and(|listened| listened.poll_recv(cx).is_ready());
            came.then_some(kind.as_str())
        });
        came.map_or(Poll::Pending, Poll::Ready)
    }))
}
