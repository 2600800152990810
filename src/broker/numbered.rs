//! Requests with a proof that their replies are their own.
//!
//! Replies come in the order of the requests and have no names. If one were lost or duplicated, a request would get the reply to
//! another, and a worker would release messages that it never ran. So each script call is followed by an `ECHO` of a unique
//! number; if the number does not come back, the outcome of the call is unknown, as when the connection breaks. A transaction
//! contains that `ECHO`, and so does a read that decides about a write. Other requests only read, or do no harm.
//!
//! The number of a worker's script call (`seq`) cannot replace the `ECHO`: a script could return it, but an error reply has none,
//! so an error of another call, such as `STALE` or `OOM`, would be accepted. The `ECHO` costs one more command, but no round
//! trip.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

/// A script call, or a read on which a write depends, followed by the `ECHO` of a number that is unique in this process.
pub(super) struct Numbered {
    requests: Pipeline,
    number: String,
    /// The key that decides where it goes, unless the call has one of its own.
    beside: Option<Vec<u8>>,
}

/// A transaction that contains the `ECHO` of such a number.
pub(super) struct Transaction {
    requests: Pipeline,
    number: String,
}

/// A connection that can call scripts.
pub(super) trait Calls: ConnectionLike + Send {
    /// Sends a call and returns its own reply.
    fn call(&mut self, call: &Numbered) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Whether it leads to a Redis Cluster.
    fn is_of_cluster(&self) -> bool;
}

impl Numbered {
    pub(super) fn new(command: Cmd) -> Self {
        let (number, echo) = numbered_echo();
        let mut requests = Pipeline::with_capacity(2);
        requests.add_command(command).add_command(echo);
        Self { requests, number, beside: None }
    }

    /// A command without keys for the server of another call.
    pub(super) fn beside(command: Cmd, call: &Self) -> Self {
        Self { beside: call.key().map(<[u8]>::to_vec), ..Self::new(command) }
    }

    /// The same call with a new number, for a retry.
    pub(super) fn again(&self) -> Self {
        Self { beside: self.beside.clone(), ..Self::new(self.command().clone()) }
    }

    /// The requests, of which there are two.
    pub(super) fn requests(&self) -> &Pipeline {
        &self.requests
    }

    /// The reply to the call, if these two replies are its own.
    pub(super) fn check(&self, replies: Vec<Value>) -> RedisResult<Value> {
        check(replies, &self.number)
    }

    /// The key that decides where it goes.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.beside.as_deref().or_else(|| key_of(self.command()))
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

    /// The same transaction with a new number, for a retry.
    pub(super) fn again(&self) -> Self {
        Self::new(self.commands().cloned())
    }

    /// The requests, including those that begin and end it.
    pub(super) fn requests(&self) -> &Pipeline {
        &self.requests
    }

    /// The replies to its commands, if these replies are its own.
    pub(super) fn check(&self, replies: Vec<Value>) -> RedisResult<Vec<Value>> {
        check_transaction(replies, &self.number)
    }

    /// The keys of its commands.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.commands().filter_map(key_of)
    }

    fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let own = self.requests.cmd_iter().count() - 3;
        self.requests.cmd_iter().skip(1).take(own)
    }
}

/// The commands without keys.
const KEYLESS: &str = "CLIENT CLUSTER CONFIG INFO PING PUBLISH SCAN SCRIPT TIME";

/// The first key of a command; `None` if it has none.
pub(super) fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().map_while(|word| match word {
        Arg::Simple(bytes) => Some(bytes),
        _ => None,
    });
    match words.next()? {
        b"EVALSHA" => words.nth(2),
        name if KEYLESS.split(' ').any(|keyless| keyless.as_bytes() == name) => None,
        _ => words.next(),
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
