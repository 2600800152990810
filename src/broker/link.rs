//! A connection for commands, which is replaced when it is unusable.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerError, Value};
use tokio::time::timeout_at;

use crate::broker::cause::{NotSent, Unconfirmed};
use crate::broker::classify;
use crate::broker::node::Node;
use crate::broker::script::milliseconds;
use crate::broker::sentinel;
use crate::broker::socket::{self, SharedConnection};
use crate::broker::target::Target;

/// How often it reconnects while Redis accepts no writes.
const LOOK_FOR_MASTER: Duration = Duration::from_secs(1);

/// How often a request is resent because the connection was closed before anything was written.
const ATTEMPTS: u32 = 3;

/// How much earlier than a request the wait for replicas ends, so that the server can tell how many have confirmed.
/// Redis looks for waits that are over ten times a second.
const LATE: Duration = Duration::from_millis(250);

/// How long a server may be silent before it is asked elsewhere whether another has taken its place.
const SILENCE: Duration = Duration::from_millis(500);

/// A connection that all clones share. It is replaced on the next request if it was closed, does not answer, is out of
/// step, or leads to a server that no longer accepts writes.
///
/// A request, including connecting, takes no longer than the timeout of the target. If it fails before a byte of it was written,
/// it is sent again on a new connection, or fails with [`NotSent`].
#[derive(Clone)]
pub(super) struct Link {
    target: Arc<Target>,
    /// The server; `None` if it is the master, whichever that is.
    node: Option<Arc<Node>>,
    current: Arc<Mutex<Current>>,
    /// The deadline of all requests; `None` if each has the timeout of the target.
    deadline: Option<Instant>,
    /// How many replicas have to confirm a call or a transaction.
    replicas: u32,
}

struct Current {
    state: State,
    /// The number of the connection, so that it is replaced once when many requests find it unusable.
    generation: u64,
    /// When connecting began.
    made: Instant,
}

enum State {
    Absent,
    /// A node of a Cluster did not answer. Until then, nobody waits for it again.
    Silent(Instant, RedisError),
    Connecting(Connecting),
    Connected(SharedConnection),
}

type Connecting = Shared<BoxFuture<'static, RedisResult<SharedConnection>>>;

/// Commands that are written together.
#[derive(Clone, Copy)]
enum Request<'a> {
    One(&'a Cmd),
    /// Commands, and which replies to return: this many, from this index on.
    Many(&'a Pipeline, usize, usize),
}

impl Request<'_> {
    async fn send(self, live: &mut SharedConnection) -> RedisResult<Vec<Value>> {
        match self {
            Self::One(command) => live.connection.send_packed_command(command).await.map(|reply| vec![reply]),
            Self::Many(pipeline, offset, count) => {
                live.connection.send_packed_commands(pipeline, offset, count).await
            }
        }
    }
}

impl Link {
    /// Creates the connection to the master of a target, or to one server of it, without connecting.
    pub(super) fn new(target: Arc<Target>, node: Option<Arc<Node>>) -> Self {
        let current = Current { state: State::Absent, generation: 0, made: Instant::now() };
        Self { target, node, current: Arc::new(Mutex::new(current)), deadline: None, replicas: 0 }
    }

    /// The same connection for requests with this deadline; with `None`, each has the timeout of the target.
    pub(super) fn by(&self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// The same connection for calls and transactions that so many replicas have to confirm.
    pub(super) fn confirmed(self, replicas: u32) -> Self {
        Self { replicas, ..self }
    }

    /// The same connection for requests with the deadline and the confirmations of another's.
    pub(super) fn like(&self, other: &Self) -> Self {
        Self { deadline: other.deadline, replicas: other.replicas, ..self.clone() }
    }

    /// A separate connection for the same requests, made at the first one.
    pub(super) fn apart(&self) -> Self {
        Self::new(Arc::clone(&self.target), None).confirmed(self.replicas)
    }

    /// What it leads to.
    pub(super) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The server; `None` if it is the master, whichever that is.
    pub(super) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&self) -> RedisResult<()> {
        self.live(self.until()).await.map(drop)
    }

    /// Sends requests. Returns the replies to `count` of them, from `offset` on.
    pub(super) async fn many(
        &self,
        requests: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (replies, generation) = self.exchange(Request::Many(requests, offset, count), false).await;
        self.mind(generation, &replies);
        replies
    }

    /// Sends a call or a transaction, with replies that `check` accepts. If it does not, the connection is out of step.
    pub(super) async fn many_checked<T: Replies>(
        &self,
        requests: &Pipeline,
        offset: usize,
        count: usize,
        check: impl FnOnce(Vec<Value>) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let (replies, generation) = self.exchange(Request::Many(requests, offset, count), true).await;
        let result = replies.and_then(check);
        self.mind(generation, &result);
        result
    }

    /// Sends a command.
    pub(super) async fn one(&self, command: &Cmd) -> RedisResult<Value> {
        let (replies, generation) = self.exchange(Request::One(command), false).await;
        let result = replies.map(|mut replies| replies.remove(0));
        self.mind(generation, &result);
        result
    }

    /// Sends a request. Returns its replies and the number of the connection.
    async fn exchange(&self, request: Request<'_>, may_write: bool) -> (RedisResult<Vec<Value>>, u64) {
        let until = self.until();
        for _ in 0..ATTEMPTS {
            let (mut live, generation) = match self.live(until).await {
                Ok(live) => live,
                Err(error) => return (Err(NotSent::wrap(error)), 0),
            };
            let traffic = Arc::clone(&live.traffic);
            let under_way = traffic.begin();
            let replies = self.answer(request, &mut live, until).await;
            let has_ended = replies.as_ref().is_err_and(|error| error.is_io_error() && !error.is_timeout());
            if replies.is_ok() && may_write && self.replicas > 0 {
                let confirmed = Box::pin(self.confirm(&mut live, until)).await;
                return (confirmed.and(replies), generation);
            }
            if !has_ended || !under_way.is_unwritten() {
                return (replies, generation);
            }
            // It was closed before anything was written: retry on a new one.
            self.drop_connection(generation);
        }
        let closed =
            io::Error::new(io::ErrorKind::ConnectionAborted, "each connection is closed immediately");
        (Err(NotSent::wrap(closed.into())), 0)
    }

    /// The replies to a request.
    async fn answer(
        &self,
        request: Request<'_>,
        live: &mut SharedConnection,
        until: Instant,
    ) -> RedisResult<Vec<Value>> {
        if self.target.has_heirs() {
            return Box::pin(self.answer_unless_replaced(request, live, until)).await;
        }
        match timeout_at(until.into(), request.send(live)).await {
            Ok(replies) => replies,
            Err(elapsed) => Err(io::Error::from(elapsed).into()),
        }
    }

    /// The same where another server may take the place of a silent one, which is not waited for in vain.
    async fn answer_unless_replaced(
        &self,
        request: Request<'_>,
        live: &mut SharedConnection,
        until: Instant,
    ) -> RedisResult<Vec<Value>> {
        let node = Arc::clone(&live.node);
        let mut answer = pin!(request.send(live));
        loop {
            let next = until.min(Instant::now() + SILENCE);
            match timeout_at(next.into(), &mut answer).await {
                Ok(replies) => return replies,
                Err(elapsed) if next == until => return Err(io::Error::from(elapsed).into()),
                Err(_) => {}
            }
            tokio::select! {
                replies = &mut answer => return replies,
                is_replaced = self.target.is_replaced(&node) => if is_replaced {
                    let replaced = "another server has taken its place";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, replaced).into());
                }
            }
        }
    }

    /// Waits until the replicas have what was written on this connection so far.
    async fn confirm(&self, live: &mut SharedConnection, until: Instant) -> RedisResult<()> {
        let rest =
            until.saturating_duration_since(Instant::now()).saturating_sub(LATE.min(self.target.timeout / 2));
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(milliseconds(rest));
        let reply = self.answer(Request::One(&wait), live, until).await?.remove(0);
        // One that has become a replica meanwhile refuses to wait.
        let is_demoted = |error: &ServerError| error.details().is_some_and(|text| text.contains("replica"));
        let confirmed = match &reply {
            Value::ServerError(error) if is_demoted(error) => 0,
            _ => u32::from_redis_value(reply.extract_error()?)?,
        };
        match confirmed {
            confirmed if confirmed >= self.replicas => Ok(()),
            confirmed => Err(Unconfirmed { confirmed, needed: self.replicas }.wrap()),
        }
    }

    /// The connection, which is made if there is none.
    async fn live(&self, until: Instant) -> RedisResult<(SharedConnection, u64)> {
        let (connecting, generation) = {
            let mut current = self.current();
            match &current.state {
                State::Connected(live) if !live.traffic.is_closed() => {
                    return Ok((live.clone(), current.generation));
                }
                State::Silent(until, error) if Instant::now() < *until => return Err(error.clone()),
                // Connecting makes no progress while nobody awaits it.
                State::Connecting(connecting) if current.made.elapsed() < self.target.timeout => {
                    (connecting.clone(), current.generation)
                }
                _ => {
                    let connecting = connect(Arc::clone(&self.target), self.node.clone()).boxed().shared();
                    current.replace(State::Connecting(connecting.clone()));
                    (connecting, current.generation)
                }
            }
        };
        let connected = timeout_at(until.into(), connecting).await;
        let mut current = self.current();
        let is_ours = current.generation == generation && matches!(current.state, State::Connecting(_));
        if is_ours {
            current.state = match &connected {
                Ok(Ok(live)) => State::Connected(live.clone()),
                Ok(Err(error)) if error.is_timeout() && self.node.is_some() => {
                    State::Silent(Instant::now() + SILENCE, error.clone())
                }
                _ => State::Absent,
            };
        }
        match connected {
            Ok(connected) => connected.map(|live| (live, generation)),
            Err(elapsed) => Err(io::Error::from(elapsed).into()),
        }
    }

    fn drop_connection(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation {
            current.replace(State::Absent);
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a request that begins now is to be over.
    pub(super) fn until(&self) -> Instant {
        self.deadline.unwrap_or_else(|| Instant::now() + self.target.timeout)
    }

    /// Switches to a new connection after an error that the old one may survive. Requests in flight on the old one
    /// continue.
    fn mind<T: Replies>(&self, generation: u64, result: &RedisResult<T>) {
        let (is_useless, may_be_demoted) = match result {
            Ok(replies) => (false, replies.all().iter().any(is_refused_by_replica)),
            Err(error) => (outlives(error), error.code().is_some_and(classify::is_word_of_replica)),
        };
        // A certain server is no other after a new connection.
        let may_be_demoted = may_be_demoted && self.node.is_none();
        if !is_useless && !may_be_demoted {
            return;
        }
        let mut current = self.current();
        let is_known = current.generation != generation;
        if !is_known && (is_useless || current.made.elapsed() >= LOOK_FOR_MASTER) {
            current.replace(State::Absent);
        }
    }
}

/// One reply or several.
pub(super) trait Replies {
    fn all(&self) -> &[Value];
}

impl Replies for Value {
    fn all(&self) -> &[Value] {
        std::slice::from_ref(self)
    }
}

impl Replies for Vec<Value> {
    fn all(&self) -> &[Value] {
        self
    }
}

impl Current {
    fn replace(&mut self, state: State) {
        *self = Self { state, generation: self.generation + 1, made: Instant::now() };
    }
}

/// Connects to one server, or to the master.
async fn connect(target: Arc<Target>, node: Option<Arc<Node>>) -> RedisResult<SharedConnection> {
    let one = node.clone();
    let connect = async {
        let node = match node {
            Some(node) => node,
            None => target.master().await?,
        };
        let mut live = socket::open(&node).await?;
        if target.has_sentinels() {
            let reply = live.connection.send_packed_command(&redis::cmd("ROLE")).await?.extract_error()?;
            sentinel::is_master(&reply, &node)?;
        }
        RedisResult::Ok(live)
    };
    let longest = if target.has_heirs() { target.timeout.min(SILENCE * 2) } else { target.timeout };
    let failed = match tokio::time::timeout(longest, connect).await {
        Ok(Err(error)) if error.is_connection_refusal() => io::Error::from(io::ErrorKind::ConnectionRefused),
        Ok(connected) => return connected,
        Err(elapsed) => elapsed.into(),
    };
    // Of several servers, the message names the one.
    Err(match one {
        Some(node) => io::Error::new(failed.kind(), format!("{failed}; at {}", node.address())),
        None => failed,
    }
    .into())
}

/// Whether the connection stays open after this error but is unusable.
fn outlives(error: &RedisError) -> bool {
    match error.kind() {
        // A closed connection is replaced when that is noticed.
        ErrorKind::Io => error.is_timeout(),
        ErrorKind::Server(_) => false,
        _ => true,
    }
}

fn is_refused_by_replica(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if classify::is_refused_by_replica(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_master_is_looked_for_when_this_one_takes_no_writes() {
        for (word, is_looked_for) in
            [("READONLY no", true), ("MOVED 7 10.0.0.1:1", true), ("OOM full", false)]
        {
            let refused = redis::parse_redis_value(format!("-{word}\r\n").as_bytes()).expect("an error");
            assert_eq!(is_refused_by_replica(&refused), is_looked_for, "{word}");
        }
    }
}
