//! Spans of calls for OpenTelemetry: from the enqueue through the wait to the run, its retries and the calls that it enqueues.
//!
//! A program with [`delayed::main`](crate::main()) needs no code: `worker --otlp http://127.0.0.1:4318` exports the spans. A
//! program with its own `main` calls [`install`], or, if it has a tracer provider of its own, [`enable`]. The spans are
//! described in `docs/telemetry.md`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let exporter = delayed::otel::install("http://127.0.0.1:4318")?;
//! let worker = delayed::Worker::builder("redis://127.0.0.1:6379").signals(true).connect().await?;
//! worker.run().await?;
//! exporter.shutdown();
//! # Ok(()) }
//! ```

#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod run;
#[cfg(feature = "otel")]
mod send;
#[cfg(feature = "otel")]
mod switch;
#[cfg(feature = "otel")]
mod transport;
#[cfg(not(feature = "otel"))]
mod without;

#[cfg(feature = "otel")]
pub use self::exporter::{Exporter, InstallError, install};
#[cfg(feature = "otel")]
pub(crate) use self::run::RunSpan;
#[cfg(feature = "otel")]
pub(crate) use self::send::SendSpan;
#[cfg(feature = "otel")]
pub(crate) use self::switch::is_on;
#[cfg(feature = "otel")]
pub use self::switch::{disable, enable};
#[cfg(not(feature = "otel"))]
pub(crate) use self::without::{RunSpan, SendSpan, disable, is_on};
