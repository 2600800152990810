//! The connection for commands: accepts only the reply to its request, and reconnects when it is unusable.
//!
//! Replies come in the order of the requests and have no names. If one were lost or duplicated, a request would get the reply to
//! another, and a worker would release messages that it never ran. So each script call is followed by an `ECHO` of a unique
//! number; if the number does not come back, the outcome of the call is unknown, as when the connection breaks. A transaction
//! contains that `ECHO`, and so does a read that decides about a write. Other requests only read, or do no harm.
//!
//! The number of a worker's script call (`seq`) cannot replace the `ECHO`: a script could return it, but an error reply has none,
//! so an error of another call, such as `STALE` or `OOM`, would be accepted. The `ECHO` costs one more command, but no round
//! trip.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::ConnectionLike;
use redis::{
    Cmd, Connection, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind, Value,
};
use tokio::time::timeout_at;

use crate::broker::cause::NotSent;
use crate::broker::classify;
use crate::broker::socket::{self, SharedConnection};
use crate::broker::target::Target;

/// How often it reconnects while Redis accepts no writes.
const LOOK_FOR_MASTER: Duration = Duration::from_secs(1);

/// How often a request is resent because the connection was closed before anything was written.
const ATTEMPTS: u32 = 3;

/// A connection that all clones share. It is replaced on the next request if it was closed, does not answer, is out of
/// step, or leads to a server that no longer accepts writes.
///
/// A request, including connecting, takes no longer than the timeout of the target. If it fails before a byte of it was written,
/// it is sent again on a new connection, or fails with [`NotSent`].
#[derive(Clone)]
pub(super) struct Commands {
    target: Arc<Target>,
    current: Arc<Mutex<Current>>,
    /// The deadline of all requests; `None` if each has the timeout of the target.
    deadline: Option<Instant>,
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
    Connecting(Connecting),
    Connected(SharedConnection),
}

type Connecting = Shared<BoxFuture<'static, RedisResult<SharedConnection>>>;

/// Any connection, with a check of its replies.
pub(super) struct Checked<C>(pub(super) C);

/// A script call, or a read on which a write depends, followed by the `ECHO` of a number that is unique in this process.
pub(super) struct Numbered {
    requests: Pipeline,
    number: String,
}

/// A transaction that contains the `ECHO` of such a number.
pub(super) struct Transaction {
    requests: Pipeline,
    number: String,
}

/// A connection that can call scripts.
pub(super) trait Calls: Send {
    /// Sends a call and returns its own reply.
    fn call(&mut self, call: &Numbered) -> impl Future<Output = RedisResult<Value>> + Send;
}

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

impl Commands {
    /// Creates the connection to a target without connecting.
    pub(super) fn new(target: Arc<Target>) -> Self {
        let current = Current { state: State::Absent, generation: 0, made: Instant::now() };
        Self { target, current: Arc::new(Mutex::new(current)), deadline: None }
    }

    /// The same connection for requests with this deadline; with `None`, each has the timeout of the target.
    pub(super) fn by(&self, deadline: Option<Instant>) -> Self {
        Self { target: Arc::clone(&self.target), current: Arc::clone(&self.current), deadline }
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&self) -> RedisResult<()> {
        self.live(self.until()).await.map(drop)
    }

    /// Sends a transaction and returns the replies to its commands, which may be errors. If the transaction itself fails,
    /// nothing was done, or its outcome is unknown.
    pub(super) async fn transact(&self, transaction: &Transaction) -> RedisResult<Vec<Value>> {
        let Transaction { requests, number } = transaction;
        let (replies, generation) = self.exchange(Request::Many(requests, 0, requests.len())).await;
        let result = replies.and_then(|replies| check_transaction(replies, number));
        self.mind(generation, &result, |replies| replies.iter().any(is_refused_by_replica));
        result
    }

    /// Sends a request. Returns its replies and the number of the connection.
    async fn exchange(&self, request: Request<'_>) -> (RedisResult<Vec<Value>>, u64) {
        let until = self.until();
        for _ in 0..ATTEMPTS {
            let (mut live, generation) = match self.live(until).await {
                Ok(live) => live,
                Err(error) => return (Err(NotSent::wrap(error)), 0),
            };
            let traffic = Arc::clone(&live.traffic);
            let under_way = traffic.begin();
            let replies = match timeout_at(until.into(), request.send(&mut live)).await {
                Ok(replies) => replies,
                Err(elapsed) => Err(io::Error::from(elapsed).into()),
            };
            let has_ended = replies.as_ref().is_err_and(|error| error.is_io_error() && !error.is_timeout());
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

    /// The connection, which is made if there is none.
    async fn live(&self, until: Instant) -> RedisResult<(SharedConnection, u64)> {
        let (connecting, generation) = {
            let mut current = self.current();
            match &current.state {
                State::Connected(live) if !live.traffic.is_closed() => {
                    return Ok((live.clone(), current.generation));
                }
                // Connecting makes no progress while nobody awaits it.
                State::Connecting(connecting) if current.made.elapsed() < self.target.timeout => {
                    (connecting.clone(), current.generation)
                }
                _ => {
                    let connecting = connect(Arc::clone(&self.target)).boxed().shared();
                    current.replace(State::Connecting(connecting.clone()));
                    (connecting, current.generation)
                }
            }
        };
        let connected = match timeout_at(until.into(), connecting).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(io::Error::from(elapsed).into()),
        };
        let mut current = self.current();
        let is_ours = current.generation == generation && matches!(current.state, State::Connecting(_));
        if is_ours {
            current.state = connected.as_ref().map_or(State::Absent, |live| State::Connected(live.clone()));
        }
        connected.map(|live| (live, generation))
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

    fn until(&self) -> Instant {
        self.deadline.unwrap_or_else(|| Instant::now() + self.target.timeout)
    }

    /// Switches to a new connection after an error that the old one may survive. Requests in flight on the old one
    /// continue.
    fn mind<T>(
        &self,
        generation: u64,
        result: &RedisResult<T>,
        is_refused_by_replica: impl FnOnce(&T) -> bool,
    ) {
        let (is_useless, may_be_demoted) = match result {
            Ok(replies) => (false, is_refused_by_replica(replies)),
            Err(error) => (outlives(error), error.code().is_some_and(classify::is_word_of_replica)),
        };
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

impl Current {
    fn replace(&mut self, state: State) {
        *self = Self { state, generation: self.generation + 1, made: Instant::now() };
    }
}

async fn connect(target: Arc<Target>) -> RedisResult<SharedConnection> {
    match tokio::time::timeout(target.timeout, socket::open(&target)).await {
        Ok(connected) => connected,
        Err(elapsed) => Err(io::Error::from(elapsed).into()),
    }
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

impl Calls for Commands {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let (replies, generation) = Box::pin(self.exchange(Request::Many(&call.requests, 0, 2))).await;
        let result = replies.and_then(|replies| check(replies, &call.number));
        self.mind(generation, &result, is_refused_by_replica);
        result
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (replies, generation) = self.exchange(Request::One(command)).await;
            let result = replies.map(|mut replies| replies.remove(0));
            self.mind(generation, &result, is_refused_by_replica);
            result
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (result, generation) = self.exchange(Request::Many(pipeline, offset, count)).await;
            self.mind(generation, &result, |replies| replies.iter().any(is_refused_by_replica));
            result
        })
    }

    fn get_db(&self) -> i64 {
        self.target.client().get_connection_info().redis_settings().db()
    }
}

impl<C: ConnectionLike + Send> Calls for Checked<C> {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let replies = self.0.req_packed_commands(&call.requests, 0, 2).await?;
        check(replies, &call.number)
    }
}

/// Calls a script on a blocking connection, which must not be used after an error.
pub(super) fn call_blocking(connection: &mut Connection, command: &Cmd) -> RedisResult<Value> {
    let call = Numbered::new(command.clone());
    connection.send_packed_command(&call.requests.get_packed_pipeline())?;
    let replies = vec![connection.recv_response()?, connection.recv_response()?];
    check(replies, &call.number)
}

impl Numbered {
    pub(super) fn new(command: Cmd) -> Self {
        let (number, echo) = numbered_echo();
        let mut requests = Pipeline::with_capacity(2);
        requests.add_command(command).add_command(echo);
        Self { requests, number }
    }

    /// The same call with a new number, for a retry.
    pub(super) fn again(&self) -> Self {
        Self::new(self.command().clone())
    }

    /// The call itself.
    pub(super) fn command(&self) -> &Cmd {
        self.requests.cmd_iter().next().expect("the call stands first")
    }
}

impl Transaction {
    pub(super) fn new(commands: impl IntoIterator<Item = Cmd>) -> Self {
        let commands = commands.into_iter();
        let (number, echo) = numbered_echo();
        let mut requests = Pipeline::with_capacity(commands.size_hint().0 + 3);
        requests.cmd("MULTI");
        for command in commands {
            requests.add_command(command);
        }
        requests.add_command(echo).cmd("EXEC");
        Self { requests, number }
    }
}

/// A number that is unique in this process, and the `ECHO` of it.
fn numbered_echo() -> (String, Cmd) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut echo = Cmd::with_capacity(2, 32);
    echo.arg("ECHO").arg(&number);
    (number, echo)
}

/// The first of two replies, if the second says that they belong to the call.
fn check(replies: Vec<Value>, number: &str) -> RedisResult<Value> {
    let [reply, echo] = <[Value; 2]>::try_from(replies).map_err(|replies| misplaced(&replies))?;
    match (&reply, &echo) {
        (_, Value::BulkString(bytes)) if bytes == number.as_bytes() => Ok(reply),
        // Redis executes nothing now, for lack of a password or while a script runs, so there is no echo.
        (Value::ServerError(refused), Value::ServerError(too)) if refused.code() == too.code() => Ok(reply),
        _ => Err(misplaced(&[echo])),
    }
}

/// The replies to the commands of a transaction, if they contain its number.
fn check_transaction(replies: Vec<Value>, number: &str) -> RedisResult<Vec<Value>> {
    let mut replies = replies.into_iter();
    let done = replies.next_back();
    match done {
        // One for each command between `MULTI` and `EXEC`.
        Some(Value::Array(mut results)) if results.len() + 1 == replies.len() => match results.pop() {
            Some(Value::BulkString(echo)) if echo == number.as_bytes() => Ok(results),
            other => Err(misplaced(other.as_slice())),
        },
        // Redis executes none of it if it rejects one of the commands, or all of them.
        Some(Value::ServerError(end)) => {
            let (refused, taken): (Vec<Value>, Vec<Value>) =
                replies.partition(|reply| matches!(reply, Value::ServerError(_)));
            match refused.into_iter().next() {
                Some(first) if end.code() == "EXECABORT" || taken.is_empty() => {
                    first.extract_error().map(|_| Vec::new())
                }
                // It queued the commands and rejects them now, because it has meanwhile become full or a replica.
                None if end.code() == "EXECABORT" && end.details().is_some_and(|why| why.contains(": ")) => {
                    Value::ServerError(end).extract_error().map(|_| Vec::new())
                }
                // A Redis Cluster checks only at the end whether all keys are in one slot; if not, it executes nothing.
                None if end.kind().is_some_and(is_of_cluster) => {
                    Value::ServerError(end).extract_error().map(|_| Vec::new())
                }
                first => {
                    Err(misplaced(&first.into_iter().chain([Value::ServerError(end)]).collect::<Vec<_>>()))
                }
            }
        }
        other => Err(misplaced(other.as_slice())),
    }
}

/// An error that only a node of a Redis Cluster sends: nothing was executed.
fn is_of_cluster(kind: ServerErrorKind) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, CrossSlot, Moved, TryAgain};
    matches!(kind, Ask | ClusterDown | CrossSlot | Moved | TryAgain)
}

/// An error as for a malformed reply: the connection is unusable. The reply may be a whole claim, so only its beginning is shown.
fn misplaced(came: &[Value]) -> RedisError {
    let came = format!("{came:?}");
    let detail = format!("expected its echo, got {came:.200}");
    (ErrorKind::Parse, "the reply belongs to another request", detail).into()
}

#[cfg(test)]
mod tests;
