//! The handle to Redis: connects, checks the server and loads the scripts.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use redis::{RedisResult, Value};

use crate::broker::commands::Commands;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::outage::Outage;
use crate::broker::script;
use crate::broker::server::ServerFacts;
use crate::broker::target::Target;
use crate::config::{Durability, RedisConfig};

/// A handle to Redis. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub(crate) struct Broker {
    pub(super) commands: Commands,
    pub(super) target: Arc<Target>,
}

impl Broker {
    /// The log of failures at this Redis.
    pub(crate) fn outage(&self) -> &Outage {
        &self.target.outage
    }

    /// The address of Redis, without user and password.
    pub(crate) fn address(&self) -> String {
        self.target.address().to_owned()
    }

    /// Connects, and checks that the server is new enough, within the timeout of one request.
    pub(crate) async fn connect(config: &RedisConfig) -> Result<Self, BrokerError> {
        let target = Target::new(config)?;
        let end = Instant::now() + target.timeout;
        Self::connect_by(target, end).await
    }

    /// Connects as above, until `end`.
    pub(crate) async fn connect_by(target: Arc<Target>, end: Instant) -> Result<Self, BrokerError> {
        Self::connect_to(target, Some(end)).await
    }

    async fn connect_to(target: Arc<Target>, end: Option<Instant>) -> Result<Self, BrokerError> {
        let commands = Commands::new(Arc::clone(&target));
        let greeting = Self { commands: commands.by(end), target: Arc::clone(&target) };
        greeting.commands.connect().await.map_err(|error| target.not_connected("connect", &error))?;
        let facts = greeting.greet().await.map_err(BrokerError::without_effect)?;
        if facts.is_cluster() {
            target.note_cluster();
            // The nodes are asked at once, so that an address that leads to none of them is noticed here.
            let nodes = greeting.commands.connect().await;
            nodes.map_err(|error| target.not_connected("connect", &error))?;
        }
        Ok(Self { commands, target })
    }

    /// The same connections, for requests with this deadline.
    pub(crate) fn by(&self, deadline: Instant) -> Self {
        Self { commands: self.commands.by(Some(deadline)), target: Arc::clone(&self.target) }
    }

    /// The same handle, for calls that are certain only when their durability is.
    pub(crate) fn durable(self, durability: Durability) -> Self {
        let replicas = match durability {
            Durability::Master => 0,
            Durability::Replicas(replicas) => replicas.get(),
        };
        Self { commands: self.commands.confirmed(replicas), ..self }
    }

    /// The same handle with separate connections, which are made at their first requests.
    #[cfg(feature = "client")]
    pub(crate) fn apart(&self) -> Self {
        Self { commands: self.commands.apart(), target: Arc::clone(&self.target) }
    }

    /// The address of the server, if this handle is of one of several.
    pub(crate) fn server(&self) -> Option<&str> {
        self.commands.server()
    }

    /// A handle for each master of a Cluster, whose requests all go there; otherwise this one.
    pub(crate) async fn masters(&self) -> Result<Vec<Self>, BrokerError> {
        let to = |commands| Self { commands, target: Arc::clone(&self.target) };
        let all =
            self.commands.to_each().await.map_err(|error| BrokerError::connecting("connect", &error))?;
        Ok(all.into_iter().map(to).collect())
    }

    /// Connects if necessary. If this fails, nothing was sent.
    pub(crate) async fn connected(&self) -> Result<(), BrokerError> {
        self.commands.connect().await.map_err(|error| BrokerError::connecting("connect", &error))
    }

    /// Connects, and waits for a server that is not ready yet, such as one that is loading its data. Logs that once.
    pub(crate) async fn connect_when_ready(target: &Arc<Target>) -> Result<Self, BrokerError> {
        let mut told = false;
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(50))
            .with_max_delay(Duration::from_secs(2))
            .with_jitter()
            .without_max_times();
        (|| Self::connect_to(Arc::clone(target), None))
            .retry(pauses)
            .when(|error| error.kind() == BrokerErrorKind::NotReady)
            .notify(|error, _| {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "redis is not ready; waiting");
                }
            })
            .await
    }

    /// Checks that the server is new enough, and loads all scripts, in one request: a starting worker waits for the reply.
    async fn greet(&self) -> Result<ServerFacts, BrokerError> {
        let mut ask = redis::pipe();
        ask.cmd("INFO").arg("server");
        script::add_loads(&mut ask);
        // Each command may be rejected: the first error is returned.
        let replies: RedisResult<Vec<RedisResult<Value>>> =
            ask.ignore_errors().query_async(&mut self.commands.clone()).await;
        let failed = |op| move |error| BrokerError::from_redis(op, &error);
        let mut replies = replies.map_err(failed("connect"))?.into_iter();
        let told = replies.next().unwrap_or(Ok(Value::Nil));
        let told: String =
            told.and_then(|told| Ok(redis::from_redis_value(told)?)).map_err(failed("info"))?;
        let facts = ServerFacts::parse(&told);
        facts.check_mode()?;
        facts.check_version()?;
        replies.try_for_each(|reply| reply.map(drop)).map_err(failed("connect"))?;
        Ok(facts)
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("address", &self.target.address()).finish_non_exhaustive()
    }
}
