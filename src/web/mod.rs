//! Shows queues, calls and workers in a browser, and acts on them: see [`Dashboard`].

mod access;
mod action;
mod assets;
mod audit;
mod calls;
mod chart;
mod dead;
mod doctor;
mod enqueue;
mod failure;
mod flows;
mod form;
mod frame;
mod job;
mod jobs;
mod limits;
mod live;
mod login;
mod overview;
mod page;
mod periodic;
mod queues;
mod refusals;
mod routes;
mod session;
mod shared;
mod tasks;
mod text;
mod unreadable;
mod users;
mod visit;
mod workers;

use std::sync::Arc;

use axum::Router;

pub use self::access::DashboardAccess;
use self::shared::Shared;
pub use self::users::{DashboardUsers, Role, UsersError};
use crate::client::Client;
use crate::config::{Config, RedisConfig};
use crate::gateway::Gateway;
use crate::http;
use crate::task::Registry;

/// How many connections may be open: each page that is looked at keeps one.
const CONNECTIONS: usize = 1000;

/// A dashboard: pages about queues, calls, workers, periodic tasks, limits, flows and dead letters, which also act on them if that is
/// allowed.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let dashboard = delayed::Dashboard::builder("redis://127.0.0.1:6379").build();
/// // On its own, until the future ends:
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8081").await?;
/// dashboard.clone().serve(listener, std::future::pending()).await;
/// // Or as a part of an application with axum, behind its own authentication:
/// let app: axum::Router = axum::Router::new().nest("/delayed", dashboard.router());
/// # drop(app);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Dashboard {
    shared: Arc<Shared>,
}

/// Configures a [`Dashboard`].
#[derive(Debug)]
#[must_use = "a DashboardBuilder does nothing until it is built"]
pub struct DashboardBuilder {
    config: Config,
    client: Option<Client>,
    registry: Registry,
    access: DashboardAccess,
    allows_actions: bool,
    is_local: bool,
}

impl Dashboard {
    /// Begins to configure a dashboard for the Redis at `url`.
    pub fn builder(url: &str) -> DashboardBuilder {
        Self::with_config(&Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// Begins to configure a dashboard with these settings.
    pub fn with_config(config: &Config) -> DashboardBuilder {
        DashboardBuilder {
            config: config.clone(),
            client: None,
            registry: Registry::new(),
            access: DashboardAccess::Open,
            allows_actions: false,
            is_local: false,
        }
    }

    /// The routes of the dashboard, to be mounted in an application with axum.
    pub fn router(&self) -> Router {
        routes::router(Arc::clone(&self.shared))
    }

    /// Serves HTTP/1.1 on a listener until `stop` ends.
    pub async fn serve(self, listener: tokio::net::TcpListener, stop: impl Future<Output = ()> + Send) {
        let stop = async {
            stop.await;
            self.shared.stops.send_replace(true);
        };
        http::serve(self.router(), CONNECTIONS, listener, stop).await;
    }
}

impl DashboardBuilder {
    /// Who may see the dashboard; default: everybody who can reach it.
    pub fn access(self, access: DashboardAccess) -> Self {
        Self { access, ..self }
    }

    /// Whether operators may act: pause queues, cancel and enqueue calls, requeue dead letters. Default: no, it only shows.
    pub fn allow_actions(self, allows: bool) -> Self {
        Self { allows_actions: allows, ..self }
    }

    /// Enqueues with this client, and so with its layers; default: one of its own.
    pub fn client(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Shows these tasks, in addition to those that workers publish.
    pub fn registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Whether it is to be reached by names of this machine alone: other names in requests are those of pages that attack it.
    #[cfg(feature = "cli")]
    pub(crate) fn local(self, is_local: bool) -> Self {
        Self { is_local, ..self }
    }

    /// The dashboard. It connects to Redis at its first request.
    #[must_use]
    pub fn build(self) -> Dashboard {
        let Self { config, client, registry, access, allows_actions, is_local } = self;
        let client = client.unwrap_or_else(|| Client::lazy_with_config(&config));
        let gateway = Gateway::with_config(&config)
            .client(client)
            .registry(registry)
            .accept_unknown(true)
            .need_token(false)
            .build();
        Dashboard { shared: Arc::new(Shared::new(config, gateway, access, allows_actions, is_local)) }
    }
}
