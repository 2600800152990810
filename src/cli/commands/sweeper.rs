//! `sweeper`: brings back what dead workers owned, until a signal comes.

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Program;
use crate::cli::exit::Failure;
use crate::sweeper::Sweeper;

pub(super) async fn run(program: Program) -> Result<(), Failure> {
    let ended = until_signal()?;
    let sweeps = async {
        Sweeper::with_config(&program.settings.config).await?.run().await;
        Ok(())
    };
    tokio::select! {
        failed = sweeps => failed,
        name = ended => {
            tracing::info!(signal = name, "stopped");
            Ok(())
        }
    }
}

/// Resolves at the first SIGTERM, SIGINT or SIGHUP, also one that comes before it is polled. Cancel-safe.
pub(super) fn until_signal() -> Result<impl Future<Output = &'static str>, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::io("signals cannot be heard", &error));
    let mut term = listen(SignalKind::terminate())?;
    let mut int = listen(SignalKind::interrupt())?;
    let mut hup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
            _ = hup.recv() => "SIGHUP",
        }
    })
}
