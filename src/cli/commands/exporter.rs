//! `exporter`, and `--metrics` of the commands that serve: shows metrics, and answers probes.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cli::Program;
use crate::cli::args;
use crate::cli::commands::sweeper::until_signal;
use crate::cli::exit::Failure;
use crate::exporter::Exporter;

/// Shows metrics until a signal comes.
pub(super) async fn run(program: Program, args: &args::Exporter) -> Result<(), Failure> {
    let ended = until_signal()?;
    let exporter = Exporter::with_config(&program.settings.config);
    let listener = listen(args.listen).await?;
    let stop = async {
        let signal = ended.await;
        tracing::info!(signal, "stopped");
    };
    exporter.serve(listener, stop).await;
    Ok(())
}

/// Shows the metrics of this process for as long as it lives, if there is an address.
pub(super) async fn expose(
    program: &Program,
    address: Option<SocketAddr>,
) -> Result<Option<Exporter>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let exporter = Exporter::with_sources(&program.settings.config, program.sources.clone());
    let listener = listen(address).await?;
    tokio::spawn(exporter.clone().serve(listener, std::future::pending()));
    Ok(Some(exporter))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = crate::http::listen(address);
    let listener = listener.map_err(|error| Failure::io(&format!("cannot listen on {address}"), &error))?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "metrics are shown");
    Ok(listener)
}
