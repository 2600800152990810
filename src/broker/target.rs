//! What the address of Redis names: a server, a Cluster, or the master that Sentinels watch.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{RedisError, RedisResult};

use crate::broker::addresses::{self, Address};
use crate::broker::cluster::Cluster;
use crate::broker::error::BrokerError;
use crate::broker::node::Node;
use crate::broker::outage::Outage;
use crate::broker::sentinel::Sentinels;
use crate::config::RedisConfig;

/// How long a wait on the server lasts: long enough to cost nothing, short enough to notice a peer that has vanished.
const WAIT: Duration = Duration::from_secs(5);

/// The same where another server may take over, and how late the reply may come.
const WAIT_FOR_HEIR: Duration = Duration::from_secs(1);

/// What the address of Redis names, and the timeout of requests.
pub(crate) struct Target {
    /// The servers that the address names.
    seeds: Vec<Arc<Node>>,
    /// The address, without user and password.
    address: String,
    sentinels: Option<Sentinels>,
    /// Known once a node of it has answered.
    cluster: OnceLock<Arc<Cluster>>,
    pub(super) timeout: Duration,
    /// The failures at this address, shared by all connections.
    pub(crate) outage: Outage,
}

impl Target {
    /// Reads the settings without connecting.
    pub(crate) fn new(config: &RedisConfig) -> Result<Arc<Self>, BrokerError> {
        let (seeds, sentinels, is_cluster) = match addresses::read(config)? {
            Address::Server(node) => (vec![Arc::new(node)], None, false),
            Address::Cluster(nodes) => (nodes.into_iter().map(Arc::new).collect(), None, true),
            Address::Sentinels { sentinels, name, master } => {
                let sentinels = Sentinels::new(sentinels, name);
                (vec![Arc::new(master)], Some(sentinels), false)
            }
        };
        let address = match &sentinels {
            Some(sentinels) => sentinels.to_string(),
            None => seeds.iter().map(|seed| seed.address()).collect::<Vec<_>>().join(","),
        };
        let target = Self {
            outage: Outage::at(address.clone()),
            address,
            seeds,
            sentinels,
            cluster: OnceLock::new(),
            timeout: config.timeout,
        };
        if is_cluster {
            target.note_cluster();
        }
        Ok(Arc::new(target))
    }

    /// Notes that the server is a node of a Cluster.
    pub(super) fn note_cluster(&self) {
        self.cluster.get_or_init(|| Arc::new(Cluster::new(self.seeds.clone(), self.timeout)));
    }

    /// The Cluster, if it is one.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.get()
    }

    /// The server that accepts writes; in a Cluster, any of its nodes.
    pub(super) async fn master(&self) -> RedisResult<Arc<Node>> {
        match (&self.sentinels, self.cluster()) {
            (Some(sentinels), _) => sentinels.master(&self.seeds[0]).await,
            (None, Some(cluster)) => cluster.any().await,
            (None, None) => Ok(Arc::clone(&self.seeds[0])),
        }
    }

    /// The server with this key.
    pub(super) async fn node_of(&self, key: &str) -> RedisResult<Arc<Node>> {
        match self.cluster() {
            Some(cluster) => cluster.node(key.as_bytes()).await,
            None => self.master().await,
        }
    }

    /// Whether another server may take the place of one.
    pub(super) fn has_heirs(&self) -> bool {
        self.sentinels.is_some() || self.cluster().is_some()
    }

    /// Whether another server has taken the place of this one.
    pub(super) async fn is_replaced(&self, node: &Node) -> bool {
        match (&self.sentinels, self.cluster()) {
            (Some(sentinels), _) => {
                let master = sentinels.master(&self.seeds[0]).await;
                master.is_ok_and(|master| master.address() != node.address())
            }
            (None, Some(cluster)) => cluster.is_replaced(node).await,
            (None, None) => false,
        }
    }

    /// Whether Sentinels say where the master is.
    pub(super) fn has_sentinels(&self) -> bool {
        self.sentinels.is_some()
    }

    /// How long a wait on the server lasts, and how long its reply may take.
    pub(super) fn wait(&self) -> (Duration, Duration) {
        if self.has_heirs() { (WAIT_FOR_HEIR, WAIT_FOR_HEIR * 2) } else { (WAIT, WAIT + self.timeout) }
    }

    /// The reason why connecting to it failed.
    pub(super) fn not_connected(&self, op: &'static str, error: &RedisError) -> BrokerError {
        match &self.sentinels {
            None if self.cluster().is_none() => self.seeds[0].not_connected(op, error),
            _ => BrokerError::connecting(op, error).at(&self.address),
        }
    }

    /// The database.
    pub(super) fn db(&self) -> i64 {
        self.seeds[0].client().get_connection_info().redis_settings().db()
    }

    /// The address, without user and password.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}
