//! Where does a process show its metrics?

use std::net::SocketAddr;

/// Where a process that serves shows its metrics and its health.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct Exposed {
    /// Address on which to show metrics to Prometheus, and to answer probes: /metrics, /livez and /readyz
    #[cfg(feature = "metrics")]
    #[arg(long = "metrics", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
}

impl Exposed {
    #[cfg_attr(not(feature = "metrics"), expect(clippy::unused_self, reason = "it is empty"))]
    pub(in crate::cli) fn address(self) -> Option<SocketAddr> {
        #[cfg(feature = "metrics")]
        return self.address;
        #[cfg(not(feature = "metrics"))]
        None
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
