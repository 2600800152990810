//! Sends requests to the server that has their keys.
//!
//! A Cluster moves keys while it is in use. A node that does not have a key replies `MOVED` with the address of the one that
//! does, or `ASK` and `TRYAGAIN` while a slot moves; then it has executed nothing, so the request is sent again. While a slot
//! moves, requests with several keys wait until it has: its keys are on two nodes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind, Value};

use crate::broker::cause::NotSent;
use crate::broker::classify::{UNCERTAIN, UNREACHABLE};
use crate::broker::cluster::Cluster;
use crate::broker::link::Link;
use crate::broker::node::Node;
use crate::broker::numbered::{Calls, Numbered, Transaction, key_of};
use crate::broker::target::Target;
use crate::protocol::slot::{SLOTS, slot};

/// How often a request follows `MOVED` before the nodes are asked who is right.
const MOVES: u32 = 3;

/// The first and the longest pause before a request is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Connections to the servers of a target, one for each, which all clones share.
///
/// A request, including connecting, takes no longer than the timeout of the target.
#[derive(Clone)]
pub(super) struct Commands {
    /// To the master; in a Cluster, to any node.
    one: Link,
    /// In a Cluster, to each node, by its address.
    each: Arc<Mutex<HashMap<String, Link>>>,
    /// Whether all requests go to one server.
    is_fixed: bool,
}

/// What to do about a request that a node of a Cluster has not executed.
enum Detour {
    /// Another node has the slot.
    Moved(u16, String),
    /// The slot moves, or nobody serves it now.
    Wait,
    /// Its node cannot be reached.
    Lost,
}

impl Commands {
    /// Creates the connections to a target without connecting.
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { one: Link::new(target, None), each: Arc::default(), is_fixed: false }
    }

    /// The same connections for requests with this deadline; with `None`, each has the timeout of the target.
    pub(super) fn by(&self, deadline: Option<Instant>) -> Self {
        Self { one: self.one.by(deadline), each: Arc::clone(&self.each), is_fixed: self.is_fixed }
    }

    /// The same connections, for calls and transactions that so many replicas have to confirm.
    pub(super) fn confirmed(self, replicas: u32) -> Self {
        Self { one: self.one.confirmed(replicas), ..self }
    }

    /// Separate connections for the same requests, which are made when they are needed.
    pub(super) fn apart(&self) -> Self {
        Self { one: self.one.apart(), each: Arc::default(), is_fixed: false }
    }

    /// The same for requests that all go to one server.
    pub(super) fn to(&self, node: &Arc<Node>) -> Self {
        Self { one: self.link(node), is_fixed: true, ..self.clone() }
    }

    /// The same for requests that all go to the server with this key.
    pub(super) async fn beside(&self, key: &str) -> RedisResult<Self> {
        match self.cluster() {
            Some(cluster) => cluster.node(key.as_bytes()).await.map(|node| self.to(&node)),
            None => Ok(self.clone()),
        }
    }

    /// The same for each master of a Cluster, by address; otherwise these.
    pub(super) async fn to_each(&self) -> RedisResult<Vec<Self>> {
        match self.cluster() {
            Some(cluster) => Ok(cluster.masters().await?.iter().map(|node| self.to(node)).collect()),
            None => Ok(vec![self.clone()]),
        }
    }

    /// The address of the server, if all requests go to the same one of several.
    pub(super) fn server(&self) -> Option<&str> {
        self.one.node().map(|node| node.address())
    }

    /// In a Cluster, asks which node has which keys.
    pub(super) async fn look_again(&self) {
        if let Some(cluster) = self.one.target().cluster() {
            let _ = cluster.refresh().await;
        }
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&self) -> RedisResult<()> {
        match self.cluster() {
            Some(cluster) => cluster.masters().await.map(drop),
            None => self.one.connect().await,
        }
    }

    /// Sends a transaction and returns the replies to its commands, which may be errors. If the transaction itself fails,
    /// nothing was done, or its outcome is unknown.
    pub(super) async fn transact(&self, transaction: &Transaction) -> RedisResult<Vec<Value>> {
        let Some(cluster) = self.cluster() else {
            let requests = transaction.requests();
            let check = |replies| transaction.check(replies);
            return self.one.many_checked(requests, 0, requests.len(), check).await;
        };
        let mut keys = transaction.keys();
        let first = keys.next().unwrap_or_default();
        if keys.any(|key| slot(key) != slot(first)) {
            return Err(across_slots());
        }
        let send = |link: Link, attempt| async move {
            let again;
            let transaction = if attempt == 0 {
                transaction
            } else {
                again = transaction.again();
                &again
            };
            let requests = transaction.requests();
            link.many_checked(requests, 0, requests.len(), |replies| transaction.check(replies)).await
        };
        Box::pin(self.routed(cluster, first, send)).await
    }

    /// Sends a request to the node of a key until one executes it, or the time is over.
    async fn routed<T, F: Future<Output = RedisResult<T>>>(
        &self,
        cluster: &Arc<Cluster>,
        key: &[u8],
        send: impl Fn(Link, u32) -> F,
    ) -> RedisResult<T> {
        let until = self.one.until();
        let (mut moves, mut pause) = (0, PAUSES.0);
        for attempt in 0.. {
            let node = cluster.node(key).await.map_err(NotSent::wrap)?;
            let result = send(self.link(&node), attempt).await;
            let Err(error) = &result else { return result };
            let Some(detour) = Detour::of(error) else { return result };
            let (slot, address) = match detour {
                Detour::Moved(slot, address) if moves < MOVES => (slot, address),
                detour => {
                    // The nodes may disagree for a while, or elect another.
                    let known = cluster.refresh().await;
                    let is_elsewhere =
                        cluster.known(key).is_some_and(|other| other.address() != node.address());
                    if matches!(detour, Detour::Lost) && (known.is_err() || !is_elsewhere) {
                        return result;
                    }
                    if Instant::now() + pause > until {
                        return result;
                    }
                    tokio::time::sleep(pause).await;
                    (moves, pause) = (0, (pause * 2).min(PAUSES.1));
                    continue;
                }
            };
            moves += 1;
            cluster.moved(slot, &address)?;
        }
        unreachable!("it is sent until there is a reply or no time")
    }

    /// Sends one command.
    async fn single(&self, command: &Cmd) -> RedisResult<Value> {
        let Some(cluster) = self.cluster() else { return self.one.one(command).await };
        let Some(key) = key_of(command) else {
            return self.anywhere(cluster, |link| async move { link.one(command).await }).await;
        };
        let send = |link: Link, _| async move { executed(link.one(command).await?) };
        self.routed(cluster, key, send).await
    }

    /// Sends commands, each to the node that has its key.
    async fn spread(
        &self,
        cluster: &Arc<Cluster>,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let mut nodes = Vec::with_capacity(pipeline.len());
        for command in pipeline.cmd_iter() {
            nodes.push(match key_of(command) {
                Some(key) => Some(cluster.node(key).await.map_err(NotSent::wrap)?),
                None => None,
            });
        }
        let Some(first) = nodes.iter().flatten().next() else {
            let send = |link: Link| async move { link.many(pipeline, offset, count).await };
            return self.anywhere(cluster, send).await;
        };
        let is_one = nodes.iter().flatten().all(|node| Arc::ptr_eq(node, first));
        // A transaction, of which only the last reply is wanted, has one slot.
        if offset > 0 {
            let key = pipeline.cmd_iter().find_map(key_of).unwrap_or_default();
            let send = |link: Link, _| async move {
                // A command that is refused is named by its own reply, not by that of `EXEC`.
                let replies = link.many(pipeline, 0, offset + count).await?;
                let mut replies = replies.into_iter().map(executed).collect::<RedisResult<Vec<_>>>()?;
                Ok(replies.split_off(offset))
            };
            return self.routed(cluster, key, send).await;
        }
        let mut replies = vec![Value::Nil; nodes.len()];
        if is_one {
            let key = pipeline.cmd_iter().find_map(key_of).unwrap_or_default();
            let send = |link: Link, _| async move { link.many(pipeline, offset, count).await };
            replies = self.routed(cluster, key, send).await?;
        } else {
            let mut parts = HashMap::<&str, (Link, Vec<usize>, Pipeline)>::new();
            for ((place, command), node) in pipeline.cmd_iter().enumerate().zip(&nodes) {
                let node = node.as_ref().unwrap_or(first);
                let part = parts
                    .entry(node.address())
                    .or_insert_with(|| (self.link(node), Vec::new(), redis::pipe()));
                part.1.push(place);
                part.2.add_command(command.clone());
            }
            let sent = parts.into_values().map(|(link, places, part)| async move {
                // What a node does not answer is no reason to lose the replies of the others.
                let replies = link.many(&part, 0, part.len()).await;
                let replies = replies.unwrap_or_else(|error| vec![silent(&error); part.len()]);
                (places, replies)
            });
            for (places, part) in join_all(sent).await {
                places.into_iter().zip(part).for_each(|(place, reply)| replies[place] = reply);
            }
        }
        if replies.iter().any(is_unreachable) {
            // Another may have taken the place of the node. If that is not known, the replies say why.
            let _ = cluster.refresh().await;
        }
        for ((command, reply), node) in pipeline.cmd_iter().zip(&mut replies).zip(&nodes) {
            let owner = key_of(command).and_then(|key| cluster.known(key));
            let is_elsewhere =
                owner.zip(node.as_ref()).is_some_and(|(owner, node)| owner.address() != node.address());
            if Detour::is_told(reply) || (is_unreachable(reply) && is_elsewhere) {
                *reply = self.single(command).await?;
            }
        }
        Ok(replies)
    }

    /// Sends a request without keys to the first node that answers. It does no harm twice.
    async fn anywhere<T, F: Future<Output = RedisResult<T>>>(
        &self,
        cluster: &Arc<Cluster>,
        send: impl Fn(Link) -> F,
    ) -> RedisResult<T> {
        let masters = cluster.masters().await.map_err(NotSent::wrap)?;
        let mut result = Err(NotSent::wrap(cluster.unreachable()));
        for node in &masters {
            result = send(self.link(node)).await;
            let is_silent = |error: &RedisError| error.is_io_error() || NotSent::inside(error).is_some();
            if !result.as_ref().is_err_and(is_silent) {
                break;
            }
        }
        result
    }

    /// A key like this one on the server to which all requests go.
    pub(super) fn key_there(&self, key: &str) -> String {
        let (Some(node), Some(cluster)) = (self.one.node(), self.one.target().cluster()) else {
            return key.to_owned();
        };
        let is_there = |key: &String| {
            cluster.known(key.as_bytes()).is_some_and(|owner| owner.address() == node.address())
        };
        let mut keys = (0..SLOTS).map(|number| format!("{key}:{number}"));
        keys.find(is_there).unwrap_or_else(|| key.to_owned())
    }

    /// The connection to a node.
    fn link(&self, node: &Arc<Node>) -> Link {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        let link = match each.get(node.address()) {
            Some(link) => link,
            None => each
                .entry(node.address().to_owned())
                .or_insert_with(|| Link::new(Arc::clone(self.one.target()), Some(Arc::clone(node)))),
        };
        link.like(&self.one)
    }

    /// The Cluster in which requests are to find their way.
    fn cluster(&self) -> Option<&Arc<Cluster>> {
        if self.is_fixed { None } else { self.one.target().cluster() }
    }
}

/// The reply of a node that has executed the request.
fn executed(reply: Value) -> RedisResult<Value> {
    if Detour::is_told(&reply) { reply.extract_error() } else { Ok(reply) }
}

/// What stands for the reply of a node that gives none.
fn silent(error: &RedisError) -> Value {
    let code = if NotSent::inside(error).is_some() { UNREACHABLE } else { UNCERTAIN };
    let text = error.to_string().replace(['\r', '\n'], " ");
    let reply = redis::parse_redis_value(format!("-{code} {text}\r\n").as_bytes());
    reply.unwrap_or(Value::Nil)
}

/// Whether a reply stands for one of a node that cannot be reached.
fn is_unreachable(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == UNREACHABLE)
}

/// As Redis replies to a request with keys of several slots.
fn across_slots() -> RedisError {
    let reply = redis::parse_redis_value(b"-CROSSSLOT the keys are in several hash slots\r\n");
    reply.and_then(Value::extract_error).expect_err("it is an error")
}

impl Detour {
    /// Whether a node has not executed a request, and what to do about it.
    fn of(error: &RedisError) -> Option<Self> {
        use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
        if NotSent::inside(error).is_some() {
            return Some(Self::Lost);
        }
        match error.kind() {
            redis::ErrorKind::Server(Moved) => {
                let (address, slot) = error.redirect_node()?;
                Some(Self::Moved(slot, address.to_owned()))
            }
            redis::ErrorKind::Server(Ask | TryAgain | ClusterDown) => Some(Self::Wait),
            _ => None,
        }
    }

    /// Whether a reply says so.
    fn is_told(reply: &Value) -> bool {
        use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
        matches!(reply, Value::ServerError(error)
            if matches!(error.kind(), Some(Ask | ClusterDown | Moved | TryAgain)))
    }
}

impl Calls for Commands {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let Some(cluster) = self.cluster() else {
            return Box::pin(self.one.many_checked(call.requests(), 0, 2, |replies| call.check(replies)))
                .await;
        };
        let Some(key) = call.key() else {
            let send = |link: Link| async move {
                link.many_checked(call.requests(), 0, 2, |replies| call.check(replies)).await
            };
            return Box::pin(self.anywhere(cluster, send)).await;
        };
        let send = |link: Link, attempt| async move {
            let again;
            let call = if attempt == 0 {
                call
            } else {
                again = call.again();
                &again
            };
            executed(link.many_checked(call.requests(), 0, 2, |replies| call.check(replies)).await?)
        };
        Box::pin(self.routed(cluster, key, send)).await
    }

    fn is_of_cluster(&self) -> bool {
        self.one.target().cluster().is_some()
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.single(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            match self.cluster() {
                None => self.one.many(pipeline, offset, count).await,
                Some(cluster) => self.spread(cluster, pipeline, offset, count).await,
            }
        })
    }

    fn get_db(&self) -> i64 {
        self.one.target().db()
    }
}
