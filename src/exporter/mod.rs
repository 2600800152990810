//! Shows metrics and health over HTTP: see [`Exporter`].

mod metrics;
mod routes;

use std::sync::Arc;

use axum::Router;

use self::metrics::Scrape;
use self::routes::Shared;
use crate::client::Client;
use crate::config::{Config, RedisConfig};
use crate::http;
use crate::meter::Sources;
use crate::worker::WorkerBuilder;

/// How many scrapers and probes may be connected.
const CONNECTIONS: usize = 100;

/// An endpoint for Prometheus, and for the probes of an orchestrator: `/metrics`, `/livez` and `/readyz`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let exporter = delayed::Exporter::new("redis://127.0.0.1:6379");
/// let worker = delayed::Worker::builder("redis://127.0.0.1:6379").exporter(&exporter).connect().await?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9465").await?;
/// tokio::spawn(exporter.serve(listener, std::future::pending()));
/// worker.run().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Exporter {
    shared: Arc<Shared>,
}

impl Exporter {
    /// An exporter for the Redis at `url`. It connects at the first request.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self::with_config(&Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// An exporter with these settings.
    #[must_use]
    pub fn with_config(config: &Config) -> Self {
        Self { shared: Arc::new(Shared { sources: Sources::default(), scrape: Scrape::new(config.clone()) }) }
    }

    /// An exporter of these counters.
    #[cfg(feature = "cli")]
    pub(crate) fn with_sources(config: &Config, sources: Sources) -> Self {
        Self { shared: Arc::new(Shared { sources, scrape: Scrape::new(config.clone()) }) }
    }

    /// Its routes, to be mounted in an application with axum.
    pub fn router(&self) -> Router {
        routes::router(Arc::clone(&self.shared))
    }

    /// Serves HTTP/1.1 on a listener until `stop` ends.
    pub async fn serve(self, listener: tokio::net::TcpListener, stop: impl Future<Output = ()> + Send) {
        http::serve(self.router(), CONNECTIONS, listener, stop).await;
    }
}

impl Client {
    /// Shows in this exporter how many calls the client and its later clones enqueue, by queue and task. Those of
    /// [`enqueue_many`](Self::enqueue_many) are counted before they are sent.
    #[must_use]
    pub fn exporter(self, exporter: &Exporter) -> Self {
        self.counted(exporter.shared.sources.clone())
    }

    /// Counts what it enqueues.
    pub(crate) fn counted(self, sources: Sources) -> Self {
        self.layer(move |call, next| {
            let (sources, task) = (sources.clone(), call.task().to_owned());
            async move {
                let enqueued = next.enqueue(call).await?;
                if enqueued.conflict.is_none() {
                    sources.enqueued(enqueued.queue.as_str(), &task);
                }
                Ok(enqueued)
            }
        })
    }
}

impl WorkerBuilder {
    /// Shows the metrics of the worker in this exporter, and its health.
    #[must_use]
    pub fn exporter(self, exporter: &Exporter) -> Self {
        self.sources(exporter.shared.sources.clone())
    }
}
