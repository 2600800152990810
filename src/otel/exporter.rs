//! Sends spans to a collector over OTLP, and stops within a bounded time.

use std::time::Duration;

use http::Uri;
use opentelemetry::{Key, global};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::switch::{disable, enable};
use super::transport::Transport;

/// How long the last spans may take.
const FLUSH: Duration = Duration::from_secs(2);

/// Where collectors take spans, behind their base address.
const PATH: &str = "v1/traces";

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The address of the collector is not one.
    #[error("the address of the collector, {address:?}, is invalid: {problem}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A variable `OTEL_…` of the environment is invalid.
    #[error("the exporter cannot be created")]
    Build(#[source] ExporterBuildError),
}

/// Exports spans until it is shut down or dropped, which takes at most two seconds and blocks the thread.
#[derive(Debug)]
#[must_use = "the exporter stops when it is dropped"]
pub struct Exporter {
    provider: SdkTracerProvider,
}

/// Exports the spans of this process to the collector at `endpoint`, such as `http://127.0.0.1:4318`, over OTLP (protobuf
/// over HTTP), in batches and on a thread of its own. Spans are dropped if the collector is away. Its tracer provider becomes the
/// global one of `opentelemetry`: a program that has one calls [`enable`] instead.
///
/// The standard variables of the environment hold: `OTEL_SERVICE_NAME` (default: the name of the program),
/// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_…`.
///
/// Start a [`Zygote`](crate::Zygote) first, because this starts a thread.
///
/// # Errors
/// The address is invalid, or a variable of the environment is.
pub fn install(endpoint: &str) -> Result<Exporter, InstallError> {
    let address = address_of(endpoint)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(address)
        .with_http_client(Transport::new())
        .build()
        .map_err(InstallError::Build)?;
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
    global::set_tracer_provider(provider.clone());
    enable();
    Ok(Exporter { provider })
}

/// Where spans go.
fn address_of(endpoint: &str) -> Result<String, InstallError> {
    let refused = |problem: &str| InstallError::Address { address: endpoint.into(), problem: problem.into() };
    let uri: Uri = endpoint.parse().map_err(|error: http::uri::InvalidUri| refused(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(refused("TLS is not supported: send to a collector on this machine")),
        _ => return Err(refused("expected `http://` and a host, such as http://127.0.0.1:4318")),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(refused("it has no host"));
    }
    let base = endpoint.trim_end_matches('/');
    Ok(if base.ends_with(PATH) { base.to_owned() } else { format!("{base}/{PATH}") })
}

/// What is said of this process.
fn resource() -> Resource {
    const NAME: Key = Key::from_static_str("service.name");
    let found = Resource::builder().build();
    let name = found.get(&NAME).map(|name| name.to_string()).unwrap_or_default();
    match name.strip_prefix("unknown_service:") {
        Some(program) => Resource::builder().with_service_name(program.to_owned()).build(),
        None => found,
    }
}

impl Exporter {
    /// Sends the spans that have ended, within two seconds, and stops.
    pub fn shutdown(self) {}
}

impl Drop for Exporter {
    fn drop(&mut self) {
        disable();
        // Spans that a collector did not take in time are dropped.
        let _ = self.provider.shutdown_with_timeout(FLUSH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_that_of_the_collector() {
        for (base, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
            ("http://host/otlp", "http://host/otlp/v1/traces"),
            ("http://host/v1/traces", "http://host/v1/traces"),
        ] {
            assert_eq!(address_of(base).unwrap(), expected);
        }
        for bad in ["", "x", "127.0.0.1:4318", "https://host", "ftp://host", "http://", "http://a b"] {
            let error = address_of(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
