//! Holds what all requests share, and how much of it there may be.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::sync::{OnceCell, Semaphore, watch};

use super::problem::Problem;
use super::published::{Elsewhere, PublishedTasks};
use super::tokens::{Sender, Tokens};
use crate::client::Client;
use crate::config::Config;
use crate::inspect::Inspector;
use crate::task::Registry;

/// How many requests may wait for results or read events.
const WAITING: usize = 10_000;

/// How much a gateway holds at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of one body.
    pub(crate) body: usize,
    /// Calls in one request.
    pub(crate) batch: usize,
    /// Calls that are not yet in Redis.
    pub(crate) calls: usize,
    /// Bytes of all bodies.
    pub(crate) memory: usize,
    /// Open connections.
    pub(crate) connections: usize,
    /// How long a request may wait for a result.
    pub(crate) wait: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            batch: 1000,
            calls: 10_000,
            memory: 64 << 20,
            connections: 10_000,
            wait: Duration::from_secs(60),
        }
    }
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    config: Config,
    pub(super) client: Client,
    /// Connected at the first need.
    inspector: OnceCell<Inspector>,
    pub(super) registry: Registry,
    pub(super) accepts_unknown: bool,
    published: PublishedTasks,
    pub(super) bounds: Bounds,
    tokens: Tokens,
    /// A permit for each call that may be held.
    pub(super) calls: Arc<Semaphore>,
    /// A permit for each byte of a body.
    pub(super) memory: Arc<Semaphore>,
    /// A permit for each request that may wait or listen.
    pub(super) waiting: Arc<Semaphore>,
    /// Whether the gateway stops: who waits is answered then.
    pub(super) stops: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(
        config: Config,
        client: Client,
        registry: Registry,
        accepts_unknown: bool,
        tokens: Tokens,
        bounds: Bounds,
    ) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            config,
            client,
            inspector: OnceCell::new(),
            registry,
            accepts_unknown,
            published: PublishedTasks::default(),
            bounds,
            tokens,
            calls: permits(bounds.calls),
            memory: permits(bounds.memory.max(bounds.body)),
            waiting: permits(WAITING),
            stops: watch::Sender::new(false),
        }
    }

    pub(super) async fn inspector(&self) -> Result<&Inspector, Problem> {
        let connect = || Inspector::with_config(&self.config);
        self.inspector.get_or_try_init(connect).await.map_err(Problem::from)
    }

    /// Who has sent a request with these headers.
    pub(super) async fn sender(&self, headers: &HeaderMap) -> Result<Sender, Problem> {
        self.tokens.sender(self.inspector().await?.broker(), headers).await
    }

    /// The published tasks, read recently enough to contain these paths if a worker has them.
    pub(super) async fn published(&self, paths: &[&str]) -> Result<Elsewhere, Problem> {
        self.published.read(self.inspector().await?, paths).await
    }

    /// Resolves when the gateway stops.
    pub(super) async fn stopping(&self) {
        let mut stops = self.stops.subscribe();
        // The sender lives as long as this does.
        let _ = stops.wait_for(|stops| *stops).await;
    }
}
