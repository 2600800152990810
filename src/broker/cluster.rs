//! Which node of a Redis Cluster serves which hash slots.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{FromRedisValue, RedisError, RedisResult, Value};

use crate::broker::node::Node;
use crate::broker::socket;
use crate::protocol::slot::{SLOTS, slot};

/// How long a node may take to tell the slots again: others can be asked.
const SHORT: Duration = Duration::from_millis(500);

/// How long the other nodes are waited for once one has answered.
const OTHERS: Duration = Duration::from_millis(50);

/// How many nodes are asked.
const ASKED: usize = 6;

/// Slots that were told within this time are not asked for again.
const FRESH: Duration = Duration::from_millis(50);

/// What is known of a Cluster, shared by all connections to it.
pub(super) struct Cluster {
    seeds: Vec<Arc<Node>>,
    /// How long a node may take to tell the slots while none are known.
    timeout: Duration,
    slots: RwLock<Arc<Slots>>,
    /// Held by the one who asks. Another runtime that may be stuck could hold it, so nobody waits for it for long.
    turn: tokio::sync::Mutex<()>,
}

/// The slots, as the nodes tell them.
#[derive(Clone)]
struct Slots {
    /// By address.
    masters: BTreeMap<String, Arc<Node>>,
    /// Asked for the slots when no master answers.
    replicas: Vec<Arc<Node>>,
    /// The master of each slot, by its address.
    owners: Vec<Option<Arc<Node>>>,
    told: Option<Instant>,
}

/// What one node tells.
struct Told {
    epoch: u64,
    is_ok: bool,
    slots: Slots,
}

/// A part of the reply to `CLUSTER SLOTS`: a range, and its servers, the master first.
struct Range {
    first: u16,
    last: u16,
    servers: Vec<Server>,
}

/// A server of a range; without a host if it does not know its own.
struct Server {
    host: Option<String>,
    port: u16,
    id: String,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Arc<Node>>, timeout: Duration) -> Self {
        let slots = RwLock::new(Arc::new(Slots::unknown()));
        Self { seeds, timeout, slots, turn: tokio::sync::Mutex::new(()) }
    }

    /// The node that serves a key.
    pub(super) async fn node(&self, key: &[u8]) -> RedisResult<Arc<Node>> {
        let slot = slot(key);
        if let Some(node) = self.slots().owner(slot) {
            return Ok(node);
        }
        self.refresh().await?;
        self.slots().owner(slot).ok_or_else(|| {
            let problem = format!("no node of the Cluster serves slot {slot}");
            io::Error::new(io::ErrorKind::NotConnected, problem).into()
        })
    }

    /// The node that serves a key, as far as known.
    pub(super) fn known(&self, key: &[u8]) -> Option<Arc<Node>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).owner(slot(key))
    }

    /// All masters, by address.
    pub(super) async fn masters(&self) -> RedisResult<Vec<Arc<Node>>> {
        if self.slots().told.is_none() {
            self.refresh().await?;
        }
        Ok(self.slots().masters.values().cloned().collect())
    }

    /// A master that answers, if there is one.
    pub(super) async fn any(&self) -> RedisResult<Arc<Node>> {
        let mut failed = None;
        for node in self.masters().await? {
            match socket::ask(&node, redis::pipe().cmd("PING"), SHORT).await {
                Ok(_) => return Ok(node),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| self.unreachable()))
    }

    /// The error if it has no node that can be asked.
    pub(super) fn unreachable(&self) -> RedisError {
        io::Error::new(io::ErrorKind::NotConnected, "no node of the Cluster can be reached").into()
    }

    /// Whether the node serves no slots any more.
    pub(super) async fn is_replaced(&self, node: &Node) -> bool {
        self.refresh().await.is_ok() && !self.slots().masters.contains_key(node.address())
    }

    /// Notes what a node has replied to a request for another's slot.
    pub(super) fn moved(&self, slot: u16, address: &str) -> RedisResult<()> {
        let Some((host, port)) =
            address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
        else {
            return Ok(());
        };
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        // A node that does not know its own address leaves the host out.
        let host = match (host, &slots.owners[usize::from(slot)]) {
            ("" | "?", Some(owner)) => owner.host().unwrap_or_default().to_owned(),
            _ => host.trim_matches(['[', ']']).to_owned(),
        };
        let node = self.seeds[0].at(&host, port)?;
        let slots = Arc::make_mut(&mut slots);
        let node = slots.masters.entry(node.address().to_owned()).or_insert_with(|| Arc::new(node));
        slots.owners[usize::from(slot)] = Some(Arc::clone(node));
        Ok(())
    }

    /// Asks the nodes for the slots, unless that has just been done.
    pub(super) async fn refresh(&self) -> RedisResult<()> {
        let began = Instant::now();
        let _turn = tokio::time::timeout(SHORT, self.turn.lock()).await;
        if self.slots().told.is_some_and(|told| told + FRESH > began) {
            return Ok(());
        }
        let told = self.ask().await?;
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(told);
        Ok(())
    }

    /// The slots as the nodes with the newest configuration tell them: a node that is cut off does not know that another
    /// has taken its place.
    async fn ask(&self) -> RedisResult<Slots> {
        let known = self.slots();
        let within = if known.told.is_some() { SHORT } else { self.timeout };
        let nodes = known.masters.values().chain(&known.replicas).chain(&self.seeds);
        let nodes: BTreeMap<&str, &Arc<Node>> = nodes.map(|node| (node.address(), node)).collect();
        let mut nodes: Vec<&Arc<Node>> = nodes.into_values().collect();
        // Not always the same ones, of which all may be gone.
        let first = uuid::Uuid::new_v4().as_u128() as usize % nodes.len();
        nodes.rotate_left(first);
        let mut waiting = nodes.split_off(nodes.len().min(ASKED)).into_iter();
        let mut asked: FuturesUnordered<_> =
            nodes.into_iter().map(|node| self.ask_one(node, within)).collect();
        let (mut best, mut failed, mut patience) = (None::<Told>, None, within * 2);
        while let Ok(Some(answer)) = tokio::time::timeout(patience, asked.next()).await {
            match answer {
                Ok(told) => {
                    patience = OTHERS;
                    if best.as_ref().is_none_or(|best| (told.is_ok, told.epoch) > (best.is_ok, best.epoch)) {
                        best = Some(told);
                    }
                }
                Err(error) => {
                    failed = Some(error);
                    asked.extend(waiting.next().map(|node| self.ask_one(node, within)));
                }
            }
        }
        match (best, failed) {
            (Some(told), _) => Ok(told.slots),
            (None, Some(error)) => Err(error),
            (None, None) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "no node of the Cluster answers").into())
            }
        }
    }

    async fn ask_one(&self, node: &Arc<Node>, within: Duration) -> RedisResult<Told> {
        let mut ask = redis::pipe();
        ask.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("MYID").cmd("CLUSTER").arg("SLOTS");
        let replies = socket::ask(node, &ask, within).await?;
        let replies: Vec<Value> = replies.into_iter().map(Value::extract_error).collect::<Result<_, _>>()?;
        let [info, own, ranges] = <[Value; 3]>::try_from(replies)
            .map_err(|_| RedisError::from(io::Error::from(io::ErrorKind::UnexpectedEof)))?;
        let (info, own) = (String::from_redis_value(info)?, String::from_redis_value(own)?);
        let field =
            |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        Ok(Told {
            epoch: field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
            is_ok: field("cluster_state") == Some("ok"),
            slots: self.read(node, &own, Range::all(ranges)?)?,
        })
    }

    /// Reads the ranges that `teller` tells, whose id is `own`.
    fn read(&self, teller: &Arc<Node>, own: &str, ranges: Vec<Range>) -> RedisResult<Slots> {
        let mut slots = Slots { told: Some(Instant::now()), ..Slots::unknown() };
        let is_alone = self.seeds.len() == 1
            && ranges.iter().all(|range| range.servers.first().is_some_and(|master| master.id == own));
        for Range { first, last, servers } in ranges {
            for (place, Server { host, port, id }) in servers.iter().enumerate() {
                let host = host.as_deref().or_else(|| teller.host());
                // The address that was given for the only shard is kept: its own may lead nowhere from here.
                let node = match host {
                    Some(host) if id != own || !(is_alone || teller.host().is_none()) => {
                        let node = teller.at(host, *port)?;
                        Arc::clone(slots.masters.get(node.address()).unwrap_or(&Arc::new(node)))
                    }
                    _ if id == own => Arc::clone(teller),
                    _ => continue,
                };
                if place > 0 {
                    slots.replicas.push(node);
                    continue;
                }
                let owned = usize::from(first)..=usize::from(last.min(SLOTS - 1));
                slots.owners[owned].fill(Some(Arc::clone(&node)));
                slots.masters.insert(node.address().to_owned(), node);
            }
        }
        Ok(slots)
    }

    fn slots(&self) -> Arc<Slots> {
        Arc::clone(&self.slots.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Range {
    fn all(reply: Value) -> RedisResult<Vec<Self>> {
        Vec::from_redis_value(reply)?.into_iter().map(Self::read).collect()
    }

    fn read(parts: Value) -> RedisResult<Self> {
        let mut parts = Vec::<Value>::from_redis_value(parts)?.into_iter();
        let mut number = || u16::from_redis_value(parts.next().unwrap_or(Value::Nil));
        let (first, last) = (number()?, number()?);
        let servers = parts.map(Server::read).collect::<RedisResult<_>>()?;
        Ok(Self { first, last, servers })
    }
}

impl Server {
    /// Reads the address and the id. Other names may follow.
    fn read(parts: Value) -> RedisResult<Self> {
        let mut parts = Vec::<Value>::from_redis_value(parts)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let host = Option::<String>::from_redis_value(next())?.filter(|host| !matches!(&**host, "" | "?"));
        Ok(Self { host, port: u16::from_redis_value(next())?, id: String::from_redis_value(next())? })
    }
}

impl Slots {
    fn unknown() -> Self {
        let owners = vec![None; usize::from(SLOTS)];
        Self { masters: BTreeMap::new(), replicas: Vec::new(), owners, told: None }
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.owners[usize::from(slot)].clone()
    }
}
