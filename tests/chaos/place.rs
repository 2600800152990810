//! Where are the queues: on one server, or on the shards of a Cluster?

use std::path::Path;

use redis::Connection;

use crate::support::cluster::TestCluster;
use crate::support::redis::{Options, TestRedis};
use crate::support::skew;

/// The masters of a Cluster, each of which has one replica.
const MASTERS: usize = 3;

/// The names of the queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queues {
    /// Those that Rust workers alone serve.
    ours: &'static [&'static str],
    /// One with a bound, which few workers serve, so that it is full at times.
    pub(crate) small: &'static str,
    /// The one that workers of all languages serve.
    pub(crate) mixed: Option<&'static str>,
}

impl Queues {
    const ON_A_SERVER: Self = Self { ours: &["ours"], small: "small", mixed: Some("mixed") };
    /// One on each master, in the order of the masters. The small one is beside the first.
    pub(crate) const IN_A_CLUSTER: Self =
        Self { ours: &["{blue}ours", "{green}ours", "{red}ours"], small: "{north}small", mixed: None };

    pub(crate) fn ours(self) -> &'static [&'static str] {
        self.ours
    }

    /// Where a call of this number goes. Those whose numbers have the same rest of 8 go to one queue, while so many are sent.
    pub(crate) fn of(self, n: u64, rivals: u64) -> &'static str {
        self.ours[((n % 8 + n / rivals) % self.ours.len() as u64) as usize]
    }

    /// All that Rust workers alone serve.
    pub(crate) fn of_rust(self) -> impl Iterator<Item = &'static str> {
        self.ours.iter().copied().chain([self.small])
    }

    pub(crate) fn all(self) -> impl Iterator<Item = &'static str> {
        self.of_rust().chain(self.mixed)
    }
}

/// The servers that have the queues.
pub(crate) enum Place {
    Server(TestRedis),
    Cluster { cluster: TestCluster, directory: tempfile::TempDir },
}

impl Place {
    /// A server that keeps what it was told.
    pub(crate) fn server() -> Self {
        Self::Server(TestRedis::with(Options {
            append_only: true,
            extra: ["--appendfsync", "always"].map(Into::into).into(),
            ..Options::default()
        }))
    }

    /// Masters, each with a replica.
    pub(crate) fn cluster() -> Self {
        let cluster = TestCluster::start(MASTERS, 1);
        for (master, queue) in Queues::IN_A_CLUSTER.ours.iter().enumerate() {
            assert_eq!(
                cluster.owner(queue),
                Some(master),
                "expected each queue to be on a master of its own"
            );
        }
        Self::Cluster { cluster, directory: crate::support::directory() }
    }

    pub(crate) fn queues(&self) -> Queues {
        if self.nodes().is_some() { Queues::IN_A_CLUSTER } else { Queues::ON_A_SERVER }
    }

    /// Where what is written is not lost when Redis is.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Server(server) => server.directory(),
            Self::Cluster { directory, .. } => directory.path(),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster { cluster, .. } => cluster.url(),
        }
    }

    /// When a call counts as enqueued.
    pub(crate) fn durability(&self) -> &'static str {
        if self.nodes().is_some() { "replicas(1)" } else { "master" }
    }

    /// A connection to the server that has this key.
    pub(crate) fn connection(&self, key: &str) -> Connection {
        match self {
            Self::Server(server) => server.connection(),
            Self::Cluster { cluster, .. } => cluster.connection(key),
        }
    }

    /// A connection to each server that is no replica.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        match self {
            Self::Server(server) => vec![server.connection()],
            Self::Cluster { cluster, .. } => {
                cluster.masters().into_iter().map(|master| cluster.node(master).connection()).collect()
            }
        }
    }

    /// The server, if it is one.
    pub(crate) fn one(&self) -> Option<&TestRedis> {
        match self {
            Self::Server(server) => Some(server),
            Self::Cluster { .. } => None,
        }
    }

    pub(crate) fn one_mut(&mut self) -> Option<&mut TestRedis> {
        match self {
            Self::Server(server) => Some(server),
            Self::Cluster { .. } => None,
        }
    }

    /// The Cluster, if it is one.
    pub(crate) fn nodes(&self) -> Option<&TestCluster> {
        match self {
            Self::Server(_) => None,
            Self::Cluster { cluster, .. } => Some(cluster),
        }
    }

    pub(crate) fn nodes_mut(&mut self) -> Option<&mut TestCluster> {
        match self {
            Self::Server(_) => None,
            Self::Cluster { cluster, .. } => Some(cluster),
        }
    }

    /// The library that turns clocks.
    pub(crate) fn skew(&self) -> std::path::PathBuf {
        skew::build(self.directory())
    }
}
