//! Flags for metrics and health.

#[cfg(feature = "metrics")]
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a process that serves shows its metrics and its health.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct Exposed {
    /// Address on which to show metrics to Prometheus, and to answer probes: /metrics, /livez and /readyz
    #[cfg(feature = "metrics")]
    #[arg(long = "metrics", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// File to write every 5 s: `ready`, or `Redis does not answer`
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) health_file: Option<PathBuf>,
}

/// Where a process sends its spans.
#[cfg(feature = "otel")]
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct Otlp {
    /// Send spans of calls to this OpenTelemetry collector, such as http://127.0.0.1:4318, over OTLP/HTTP; default:
    /// OTEL_EXPORTER_OTLP_ENDPOINT
    #[arg(long = "otlp", value_name = "URL")]
    pub(in crate::cli) endpoint: Option<String>,
}

#[cfg(feature = "metrics")]
impl Exposed {
    pub(in crate::cli) fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

/// `exporter`
#[cfg(feature = "metrics")]
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} exporter
  {program} exporter --listen 0.0.0.0:9465")]
pub(in crate::cli) struct Exporter {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465")]
    pub(in crate::cli) listen: SocketAddr,
    #[command(flatten)]
    pub(in crate::cli) log: super::JsonLog,
}
