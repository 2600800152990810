//! A Redis Cluster of one test's own: real servers on loopback ports, whose masters can be killed and whose slots can be
//! moved.

use std::time::Duration;

use redis::{Commands, Connection, FromRedisValue, Value};

use super::certificates::Certificate;
use super::network::Network;
use super::redis::{Options, TestRedis, read};
use super::wait;

/// How long the nodes may take to agree, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a node may be silent before the others elect a replica of it, in milliseconds.
const NODE_TIMEOUT: &str = "1500";

/// How many hash slots there are.
const SLOTS: u16 = 16_384;

/// A running Cluster.
pub(crate) struct TestCluster {
    /// The first masters, then their replicas in the same order.
    nodes: Vec<TestRedis>,
    masters: usize,
    is_secure: bool,
    /// Where the nodes are if each is on a host of its own.
    network: Option<Network>,
}

impl TestCluster {
    /// So many masters, each with so many replicas. Every slot is served when this returns.
    pub(crate) fn start(masters: usize, replicas: usize) -> Self {
        Self::with(masters, replicas, None)
    }

    /// The same with a host for each node, of the same number, and so many more for clients.
    pub(crate) fn apart(masters: usize, replicas: usize, clients: usize) -> Self {
        let count = masters * (1 + replicas);
        let network = Network::start(count + clients);
        let node = |host| Options {
            before: network.words(host),
            extra: [["--bind".into(), network.address(host)], ["--protected-mode".into(), "no".into()]]
                .concat(),
            ..Options::default()
        };
        let nodes = (0..count).map(node).collect();
        Self::of(nodes, masters, Some(network))
    }

    /// The same whose nodes speak TLS alone, also among themselves, if there is a certificate.
    pub(crate) fn with(masters: usize, replicas: usize, tls: Option<Certificate>) -> Self {
        let secure: &[[&str; 2]] =
            if tls.is_some() { &[["--tls-cluster", "yes"], ["--tls-replication", "yes"]] } else { &[] };
        let extra: Vec<String> = secure.iter().flatten().map(ToString::to_string).collect();
        let node = Options { tls: tls.clone(), extra, ..Options::default() };
        Self::of(vec![node; masters * (1 + replicas)], masters, None)
    }

    fn of(nodes: Vec<Options>, masters: usize, network: Option<Network>) -> Self {
        let is_secure = nodes.iter().any(|node| node.tls.is_some());
        let common = [
            ["--cluster-enabled", "yes"],
            ["--cluster-node-timeout", NODE_TIMEOUT],
            ["--cluster-require-full-coverage", "no"],
            ["--cluster-allow-replica-migration", "no"],
            ["--repl-diskless-sync-delay", "0"],
        ];
        let start = |mut node: Options| {
            node.tcp = true;
            node.extra.extend(common.iter().flatten().map(ToString::to_string));
            TestRedis::with(node)
        };
        let nodes: Vec<TestRedis> = nodes.into_iter().map(start).collect();
        let cluster = Self { nodes, masters, is_secure, network };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let count = self.nodes.len();
        for (index, node) in self.nodes.iter().enumerate() {
            let mut node = node.connection();
            let () = read(&mut node, redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(index + 1));
            let () = read(&mut node, redis::cmd("CLUSTER").arg("MEET").arg(self.host(0)).arg(self.port(0)));
            if index < self.masters {
                let slots: Vec<u16> = (0..SLOTS)
                    .filter(|slot| usize::from(*slot) * self.masters / usize::from(SLOTS) == index)
                    .collect();
                let () = read(&mut node, redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots));
            }
        }
        let knows_all = |node: &TestRedis| {
            let told: String = read(&mut node.connection(), redis::cmd("CLUSTER").arg("NODES"));
            let joined = told.lines().filter(|line| !line.contains("handshake") && !line.contains("fail"));
            joined.count() == count
        };
        wait::until("all nodes to know all", PATIENCE, || self.nodes.iter().all(knows_all));
        for (index, node) in self.nodes.iter().enumerate().skip(self.masters) {
            let id = self.id(index % self.masters);
            let mut node = node.connection();
            let () = read(&mut node, redis::cmd("CLUSTER").arg("REPLICATE").arg(id));
        }
        wait::until("the replicas to follow", PATIENCE, || {
            self.nodes.iter().skip(self.masters).all(|node| {
                let told: String = read(&mut node.connection(), redis::cmd("INFO").arg("replication"));
                told.contains("master_link_status:up")
            })
        });
        self.wait_complete();
    }

    /// Waits until [`Self::is_complete`].
    pub(crate) fn wait_complete(&self) {
        wait::until("the Cluster to be complete", PATIENCE, || self.is_complete());
    }

    /// Whether each node that runs serves, and agrees with the others about the masters.
    pub(crate) fn is_complete(&self) -> bool {
        let running = self.nodes.iter().filter(|node| node.is_running());
        let mut masters: Vec<Vec<(u16, u16, u16)>> = Vec::new();
        for node in running {
            let mut node = node.connection();
            let info: String = read(&mut node, redis::cmd("CLUSTER").arg("INFO"));
            if !info.contains("cluster_state:ok") {
                return false;
            }
            masters.push(ranges(&mut node));
        }
        masters.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The nodes that are masters now, in the order of their slots.
    pub(crate) fn masters(&self) -> Vec<usize> {
        let any = self.nodes.iter().find(|node| node.is_running()).expect("a node that runs");
        let mut masters = Vec::new();
        for (.., port) in ranges(&mut any.connection()) {
            let master = self.nodes.iter().position(|node| node.port() == port);
            masters.extend(master.filter(|master| !masters.contains(master)));
        }
        masters
    }

    /// The address with all nodes.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> =
            (0..self.nodes.len()).map(|index| format!("{}:{}", self.host(index), self.port(index))).collect();
        let scheme = if self.is_secure { "rediss" } else { "redis" };
        format!("{scheme}+cluster://{}", hosts.join(","))
    }

    /// A node: first the masters, as they were at the start.
    pub(crate) fn node(&self, index: usize) -> &TestRedis {
        &self.nodes[index]
    }

    pub(crate) fn node_mut(&mut self, index: usize) -> &mut TestRedis {
        &mut self.nodes[index]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The network between the nodes. Needs [`Self::apart`].
    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("expected a Cluster whose nodes are apart")
    }

    fn host(&self, index: usize) -> String {
        self.network.as_ref().map_or_else(|| "127.0.0.1".to_owned(), |network| network.address(index))
    }

    fn port(&self, index: usize) -> u16 {
        self.nodes[index].port()
    }

    /// The id of a node.
    pub(crate) fn id(&self, index: usize) -> String {
        read(&mut self.nodes[index].connection(), redis::cmd("CLUSTER").arg("MYID"))
    }

    /// Which node serves the slot of a key now, as one that runs says. `None` if that one does not run.
    pub(crate) fn owner(&self, key: &str) -> Option<usize> {
        self.owner_by(self.nodes.iter().find(|node| node.is_running())?, key)
    }

    /// The same as another node than this one says, which may not answer.
    pub(crate) fn owner_but(&self, key: &str, but: usize) -> Option<usize> {
        let mut others =
            self.nodes.iter().enumerate().filter(|(index, node)| *index != but && node.is_running());
        self.owner_by(others.next()?.1, key)
    }

    fn owner_by(&self, any: &TestRedis, key: &str) -> Option<usize> {
        let mut any = any.connection();
        let slot: u16 = read(&mut any, redis::cmd("CLUSTER").arg("KEYSLOT").arg(key));
        let (.., port) =
            *ranges(&mut any).iter().find(|(first, last, _)| (*first..=*last).contains(&slot))?;
        self.nodes.iter().position(|node| node.port() == port && node.is_running())
    }

    /// The hash slot of a key.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        let any = self.nodes.iter().find(|node| node.is_running()).expect("a node that runs");
        read(&mut any.connection(), redis::cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// Waits until [`Self::has_replicas`].
    pub(crate) fn wait_replicas(&self) {
        wait::until("the replicas to follow", PATIENCE, || self.has_replicas());
    }

    /// Whether each master has its replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_running()).all(|node| {
            let told: String = read(&mut node.connection(), redis::cmd("INFO").arg("replication"));
            told.contains("master_link_status:up") || told.contains("connected_slaves:1")
        })
    }

    /// A connection to the node that serves a key.
    pub(crate) fn connection(&self, key: &str) -> Connection {
        let mut owner = None;
        wait::until("a node that serves the key", PATIENCE, || {
            owner = self.owner(key);
            owner.is_some()
        });
        self.nodes[owner.unwrap()].connection()
    }

    /// Runs a command where its key is.
    pub(crate) fn read<T: FromRedisValue>(&self, key: &str, command: &redis::Cmd) -> T {
        read(&mut self.connection(key), command)
    }

    /// The name of a queue whose keys are on this node now.
    pub(crate) fn queue_on(&self, index: usize, name: &str) -> String {
        let mut names = (0..).map(|number| format!("{{{name}{number}}}"));
        names.find(|name| self.owner(name) == Some(index)).unwrap()
    }

    /// Appends messages with their tokens, as the ancestors do.
    pub(crate) fn push<M: AsRef<[u8]>>(&self, queue: &str, messages: &[M]) {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for message in messages {
            pipe.rpush(queue, message.as_ref()).ignore();
            pipe.rpush(format!("{queue}_noti"), "1").ignore();
        }
        let () = pipe.query(&mut self.connection(queue)).unwrap();
    }

    /// How many messages of a queue wait and are owned.
    pub(crate) fn left(&self, queue: &str) -> (u64, u64) {
        let mut node = self.connection(queue);
        (node.llen(queue).unwrap(), node.hlen(format!("{queue}_processing")).unwrap())
    }

    /// How long the lists on each node are that runs.
    pub(crate) fn lists(&self) -> String {
        let mut lists = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
            let mut node = node.connection();
            let keys: Vec<String> = node.keys("*").unwrap_or_default();
            for key in keys {
                if let Ok(length) = node.llen::<_, u64>(&key) {
                    lists.push(format!("{key} on node {index}: {length}"));
                }
            }
        }
        lists.join(", ")
    }

    /// Moves the slot of a key to another master, as `redis-cli --cluster reshard` does.
    pub(crate) fn move_slot(&self, key: &str, to: usize) {
        let from = self.owner(key).expect("a master has the key");
        if from == to {
            return;
        }
        let (mut source, mut target) = (self.nodes[from].connection(), self.nodes[to].connection());
        let slot: u16 = read(&mut source, redis::cmd("CLUSTER").arg("KEYSLOT").arg(key));
        let set = |node: &mut Connection, words: &[&str]| {
            let () = read(node, redis::cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(words));
        };
        set(&mut target, &["IMPORTING", &self.id(from)]);
        set(&mut source, &["MIGRATING", &self.id(to)]);
        loop {
            let keys: Vec<Vec<u8>> =
                read(&mut source, redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(10));
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg(self.host(to)).arg(self.port(to)).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
            let _: Value = read(&mut source, &migrate);
        }
        set(&mut target, &["NODE", &self.id(to)]);
        set(&mut source, &["NODE", &self.id(to)]);
        // The next move is to begin where this one has ended, also in the eyes of the other nodes.
        self.wait_complete();
    }
}

/// The ranges of slots, each with the port of its master, in order.
fn ranges(node: &mut Connection) -> Vec<(u16, u16, u16)> {
    let told: Vec<Vec<Value>> = read(node, redis::cmd("CLUSTER").arg("SLOTS"));
    let number = |value: &Value| u16::from_redis_value_ref(value).unwrap();
    let mut ranges: Vec<(u16, u16, u16)> = told
        .iter()
        .map(|range| {
            let Value::Array(master) = &range[2] else { panic!("{range:?}") };
            (number(&range[0]), number(&range[1]), number(&master[1]))
        })
        .collect();
    ranges.sort_unstable();
    ranges
}
