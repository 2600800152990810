//! Accepts calls over HTTP, and never more than it can hold: see [`Gateway`].

mod body;
mod calls;
mod enqueue;
mod events;
mod new_call;
mod openapi;
mod problem;
mod published;
mod routes;
mod schema;
mod shared;
mod tasks;
mod tokens;

use std::sync::Arc;

use axum::Router;

#[cfg(feature = "web")]
pub(crate) use self::problem::Problem;
#[cfg(feature = "cli")]
pub(crate) use self::shared::Bounds;
#[cfg(not(feature = "cli"))]
use self::shared::Bounds;
use self::shared::Shared;
#[cfg(feature = "web")]
pub(crate) use self::tasks::TaskDescription;
#[cfg(feature = "cli")]
pub(crate) use self::tokens::OpenTo;
#[cfg(not(feature = "cli"))]
use self::tokens::OpenTo;
pub use self::tokens::TokenStatus;
use self::tokens::Tokens;
use crate::client::Client;
use crate::config::{Config, RedisConfig};
#[cfg(feature = "cli")]
use crate::error::Error;
use crate::http;
#[cfg(feature = "cli")]
use crate::inspect::Inspector;
use crate::task::Registry;

/// An HTTP front for producers in any language: it checks calls, enqueues them, and tells how they end.
///
/// It accepts no more calls than it can hold: beyond that it answers with 429. A call that was answered with 202 is in Redis.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let gateway = delayed::Gateway::builder("redis://127.0.0.1:6379").registry(delayed::Registry::collect()?).build();
/// // On its own, until the future ends:
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// gateway.clone().serve(listener, std::future::pending()).await;
/// // Or as a part of an application with axum, behind its own authentication:
/// let app: axum::Router = axum::Router::new().nest("/delayed", gateway.router());
/// # drop(app);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

/// Configures a [`Gateway`].
#[derive(Debug)]
#[must_use = "a GatewayBuilder does nothing until it is built"]
pub struct GatewayBuilder {
    config: Config,
    client: Option<Client>,
    registry: Registry,
    accepts_unknown: bool,
    open: OpenTo,
    bounds: Bounds,
}

impl Gateway {
    /// Begins to configure a gateway for the Redis at `url`.
    pub fn builder(url: &str) -> GatewayBuilder {
        Self::with_config(&Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// Begins to configure a gateway with these settings.
    pub fn with_config(config: &Config) -> GatewayBuilder {
        GatewayBuilder {
            config: config.clone(),
            client: None,
            registry: Registry::new(),
            accepts_unknown: false,
            open: OpenTo::Nobody,
            bounds: Bounds::default(),
        }
    }

    /// Enqueues a call that is described as for `POST /v1/calls`. Returns its id, its queue, and whether it is a new call.
    #[cfg(feature = "web")]
    pub(crate) async fn enqueue(
        &self,
        call: serde_json::Value,
    ) -> Result<(Option<String>, String, bool), Problem> {
        enqueue::enqueue_one(&self.shared, call).await
    }

    /// All known tasks, ordered by their paths.
    #[cfg(feature = "web")]
    pub(crate) async fn tasks(&self) -> Result<Vec<TaskDescription>, Problem> {
        Ok(TaskDescription::all(&self.shared.registry, &self.shared.published(&[]).await?))
    }

    /// The routes of the gateway, below `/v1`, and `/openapi.json`: to be mounted in an application with axum. The bounds on
    /// connections are those of the application then.
    pub fn router(&self) -> Router {
        routes::router(Arc::clone(&self.shared))
    }

    /// Serves HTTP/1.1 on a listener until `stop` ends. Then it accepts nothing new, answers all requests that it has accepted, and
    /// returns.
    pub async fn serve(self, listener: tokio::net::TcpListener, stop: impl Future<Output = ()> + Send) {
        let stop = async {
            stop.await;
            self.shared.stops.send_replace(true);
        };
        http::serve(self.router(), self.shared.bounds.connections, listener, stop).await;
    }
}

impl GatewayBuilder {
    /// Enqueues with this client, and so with its layers; default: one of its own.
    pub fn client(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Accepts calls of these tasks, and checks their arguments. Default: no tasks.
    pub fn registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Whether to accept calls of tasks that are not in the registry, without checking their arguments. Default: no.
    pub fn accept_unknown(self, accepts: bool) -> Self {
        Self { accepts_unknown: accepts, ..self }
    }

    /// Whether requests need a token even if there is none yet; default: yes. Once a token was
    /// [created](crate::Inspector::create_token), they always do. Without tokens, the application around the gateway decides who may use
    /// it.
    pub fn need_token(self, needs: bool) -> Self {
        Self { open: if needs { OpenTo::Nobody } else { OpenTo::All }, ..self }
    }

    /// The largest body, in bytes; default: 1 MiB.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.bounds.body = bytes;
        self
    }

    /// The largest number of calls in one request; default: 1000.
    pub fn max_batch(mut self, calls: usize) -> Self {
        self.bounds.batch = calls;
        self
    }

    /// How many calls may be held that are not yet in Redis; default: 10,000. Beyond that, requests are answered with 429.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.bounds.calls = calls;
        self
    }

    /// How many connections may be open; default: 10,000. Others wait in the kernel.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.bounds.connections = connections;
        self
    }

    #[cfg(feature = "cli")]
    pub(crate) fn open(self, open: OpenTo) -> Self {
        Self { open, ..self }
    }

    #[cfg(feature = "cli")]
    pub(crate) fn bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// The gateway. It connects to Redis at its first request.
    #[must_use]
    pub fn build(self) -> Gateway {
        let Self { config, client, registry, accepts_unknown, open, bounds } = self;
        let client = client.unwrap_or_else(|| Client::lazy_with_config(&config));
        let shared = Shared::new(config, client, registry, accepts_unknown, Tokens::new(open), bounds);
        Gateway { shared: Arc::new(shared) }
    }
}

/// Checks that a gateway can be reached from elsewhere only with tokens.
///
/// # Errors
/// Redis cannot be used.
#[cfg(feature = "cli")]
pub(crate) async fn has_tokens(config: &Config) -> Result<bool, Error> {
    Ok(!Inspector::with_config(config).await?.tokens().await?.is_empty())
}
