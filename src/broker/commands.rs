//! Is this reply the one to our request? A connection for commands that believes no other, and is made anew when it is of
//! no more use.
//!
//! Replies come in the order of the requests and have no names. If one were lost or came twice on the way, a request would be
//! answered with the reply to another, and a worker would release what it never ran. So each call of a script has an
//! `ECHO` behind it, of a number that no other has: where the number does not come back, nothing is known of the call, as
//! when the connection breaks. A transaction has that `ECHO` in it. Other requests only read, or do no harm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, Cmd, Connection, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind,
    Value,
};

/// How often another connection is looked for while Redis takes no writes.
const LOOK_FOR_MASTER: Duration = Duration::from_secs(1);

/// The connection that all clones share. It is made anew when it breaks, when it is silent, when it is out of step, and when
/// the server at its end takes no writes any more.
#[derive(Clone)]
pub(super) struct Commands {
    client: Client,
    settings: ConnectionManagerConfig,
    current: Arc<Mutex<Current>>,
}

struct Current {
    connection: ConnectionManager,
    /// Which one it is, so that many who find it useless replace it once.
    generation: u64,
    made: Instant,
}

/// Any connection, with an eye on its replies.
pub(super) struct Checked<C>(pub(super) C);

/// A call of a script, and behind it the echo of a number that no other call of this process has.
pub(super) struct Numbered {
    requests: Pipeline,
    number: String,
}

/// Commands that Redis does in one step, and behind them the echo of such a number.
pub(super) struct Transaction {
    requests: Pipeline,
    number: String,
}

/// On what a script can be called.
pub(super) trait Calls: Send {
    /// Sends a call, and gives the reply that belongs to it.
    fn call(&mut self, call: &Numbered) -> impl Future<Output = RedisResult<Value>> + Send;
}

impl Commands {
    pub(super) async fn connect(client: Client, settings: ConnectionManagerConfig) -> RedisResult<Self> {
        let connection = ConnectionManager::new_with_config(client.clone(), settings.clone()).await?;
        let current = Arc::new(Mutex::new(Current { connection, generation: 0, made: Instant::now() }));
        Ok(Self { client, settings, current })
    }

    /// Sends a transaction, and gives the replies to its commands, which may be errors. An error of all of it: nothing was
    /// done, or nothing is known.
    pub(super) async fn transact(&mut self, transaction: &Transaction) -> RedisResult<Vec<Value>> {
        let (mut connection, generation) = self.current();
        let Transaction { requests, number } = transaction;
        let replies = connection.req_packed_commands(requests, 0, requests.len()).await;
        let result = replies.and_then(|replies| check_transaction(replies, number));
        self.mind(generation, &result, |replies| replies.iter().any(is_refused_by_replica));
        result
    }

    fn current(&self) -> (ConnectionManager, u64) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.connection.clone(), current.generation)
    }

    /// Goes on with a new connection after an error that the old one may outlive. What is under way there waits on.
    fn mind<T>(
        &self,
        generation: u64,
        result: &RedisResult<T>,
        is_refused_by_replica: impl FnOnce(&T) -> bool,
    ) {
        let (is_useless, may_be_demoted) = match result {
            Ok(replies) => (false, is_refused_by_replica(replies)),
            Err(error) => (outlives(error), error.code().is_some_and(is_word_of_replica)),
        };
        if !is_useless && !may_be_demoted {
            return;
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = current.generation != generation;
        if is_known || (!is_useless && current.made.elapsed() < LOOK_FOR_MASTER) {
            return;
        }
        let (client, settings) = (self.client.clone(), self.settings.clone());
        if let Ok(connection) = ConnectionManager::new_lazy_with_config(client, settings) {
            *current = Current { connection, generation: generation + 1, made: Instant::now() };
        }
    }
}

/// Whether a connection goes on after this error, and is of no use. One that broke replaces itself, but one that could not
/// be made since the server refused it gives that answer for ever.
fn outlives(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io => error.is_timeout(),
        // A request was refused, unless it is the library's own while it connects.
        ErrorKind::Server(_) => error.to_string().contains("refused to switch database"),
        _ => true,
    }
}

/// Whether the server was a master and is none any more: its address may lead to the new one by now. A script's error comes
/// wrapped in another one before Redis 7.
fn is_refused_by_replica(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    is_word_of_replica(error.code()) || error.details().is_some_and(|details| details.contains("READONLY"))
}

/// What a replica says to a write; that of a Redis Cluster says where the master is.
fn is_word_of_replica(code: &str) -> bool {
    matches!(code, "READONLY" | "MOVED")
}

impl Calls for Commands {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let (connection, generation) = self.current();
        let result = Checked(connection).call(call).await;
        self.mind(generation, &result, is_refused_by_replica);
        result
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (mut connection, generation) = self.current();
            let result = connection.req_packed_command(command).await;
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
            let (mut connection, generation) = self.current();
            let result = connection.req_packed_commands(pipeline, offset, count).await;
            self.mind(generation, &result, |replies| replies.iter().any(is_refused_by_replica));
            result
        })
    }

    fn get_db(&self) -> i64 {
        self.current().0.get_db()
    }
}

impl<C: ConnectionLike + Send> Calls for Checked<C> {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let replies = self.0.req_packed_commands(&call.requests, 0, 2).await?;
        check(replies, &call.number)
    }
}

/// Calls a script on a connection that blocks its thread. After an error it is not to be used again.
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

    /// The same call to be sent again, with another number.
    pub(super) fn again(&self) -> Self {
        Self::new(self.command().clone())
    }

    /// The call itself.
    pub(super) fn command(&self) -> &Cmd {
        self.requests.cmd_iter().next().expect("the call stands first")
    }
}

impl Transaction {
    pub(super) fn new<const N: usize>(commands: [Cmd; N]) -> Self {
        let (number, echo) = numbered_echo();
        let mut requests = Pipeline::with_capacity(N + 3);
        requests.cmd("MULTI");
        for command in commands {
            requests.add_command(command);
        }
        requests.add_command(echo).cmd("EXEC");
        Self { requests, number }
    }
}

/// A number that no other call of this process has, and the request that brings it back.
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
        // Redis does nothing now, for want of a password or because a script takes long; so it echoes nothing.
        (Value::ServerError(refused), Value::ServerError(too)) if refused.code() == too.code() => Ok(reply),
        _ => Err(misplaced(&[echo])),
    }
}

/// What the commands of a transaction were answered, if the number among it says that it is this one.
fn check_transaction(replies: Vec<Value>, number: &str) -> RedisResult<Vec<Value>> {
    let mut replies = replies.into_iter();
    let done = replies.next_back();
    match done {
        // One for each command between `MULTI` and `EXEC`.
        Some(Value::Array(mut results)) if results.len() + 1 == replies.len() => match results.pop() {
            Some(Value::BulkString(echo)) if echo == number.as_bytes() => Ok(results),
            other => Err(misplaced(other.as_slice())),
        },
        // Redis does nothing of it when it refuses one of the commands, or all that comes.
        Some(Value::ServerError(end)) => {
            let (refused, taken): (Vec<Value>, Vec<Value>) =
                replies.partition(|reply| matches!(reply, Value::ServerError(_)));
            match refused.into_iter().next() {
                Some(first) if end.code() == "EXECABORT" || taken.is_empty() => {
                    first.extract_error().map(|_| Vec::new())
                }
                // It took them, and refuses to do them: it became full meanwhile, or a replica.
                None if end.code() == "EXECABORT" && end.details().is_some_and(|why| why.contains(": ")) => {
                    Value::ServerError(end).extract_error().map(|_| Vec::new())
                }
                // A Redis Cluster looks only then whether all keys are in one place, and does nothing when they are not.
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

/// What only a node of a Redis Cluster says: it did nothing.
fn is_of_cluster(kind: ServerErrorKind) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, CrossSlot, Moved, TryAgain};
    matches!(kind, Ask | ClusterDown | CrossSlot | Moved | TryAgain)
}

/// As if what came could not be read: the connection is of no more use. It may be a whole claim: its begin tells enough.
fn misplaced(came: &[Value]) -> RedisError {
    let came = format!("{came:?}");
    let detail = format!("instead of its echo came {came:.200}");
    (ErrorKind::Parse, "the reply belongs to another request", detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_believed_with_its_own_echo_or_when_both_are_refused() {
        let echo = |text: &str| Value::BulkString(text.into());
        let refused = |text: &str| {
            let error = format!("-{text}\r\n");
            redis::parse_redis_value(error.as_bytes()).expect("an error of the server")
        };
        let busy = || refused("BUSY a script");
        for (reply, second, is_believed) in [
            (Value::Int(1), echo("7"), true),
            (busy(), echo("7"), true),
            (busy(), refused("BUSY still"), true),
            (Value::Int(1), echo("6"), false),
            (Value::Int(1), Value::Int(7), false),
            (Value::Int(1), busy(), false),
            (refused("NOAUTH no"), busy(), false),
        ] {
            let shown = format!("{reply:?}, {second:?}");
            assert_eq!(check(vec![reply, second], "7").is_ok(), is_believed, "{shown}");
        }
        for (word, is_looked_for) in
            [("READONLY no", true), ("MOVED 7 10.0.0.1:1", true), ("OOM full", false)]
        {
            assert_eq!(is_refused_by_replica(&refused(word)), is_looked_for, "{word}: another master");
        }
        assert!(check(vec![echo("7")], "7").is_err(), "expected two replies to be needed");
        let told = check(vec![Value::Int(1), echo(&"x".repeat(1 << 20))], "7").unwrap_err().to_string();
        assert!(told.contains("xxx") && told.len() < 500, "expected few words, not {}", told.len());
    }

    #[test]
    fn a_transaction_is_believed_with_its_own_echo_or_when_all_of_it_is_refused() {
        let replies = |text: &str| -> Vec<Value> {
            let whole = format!("*{}\r\n{}\r\n", text.split(", ").count(), text.replace(", ", "\r\n"));
            match redis::parse_redis_value(whole.replace('|', "\r\n").as_bytes()) {
                Ok(Value::Array(replies)) => replies,
                other => panic!("{text}: {other:?}"),
            }
        };
        for (text, expected) in [
            ("+OK, +QUEUED, +QUEUED, *2|:3|$1|7", Ok(1)),
            ("+OK, +QUEUED, +QUEUED, *2|-WRONGTYPE no|$1|7", Ok(1)),
            ("+OK, -OOM full, +QUEUED, -EXECABORT discarded", Err("OOM")),
            ("-NOAUTH no, -NOAUTH no, -NOAUTH no, -NOAUTH no", Err("NOAUTH")),
            ("+OK, +QUEUED, +QUEUED, -EXECABORT discarded because of: OOM full", Err("OOM")),
            ("+OK, +QUEUED, +QUEUED, -CROSSSLOT no slot in common", Err("CrossSlot")),
            ("+OK, -MOVED 7 10.0.0.1:6379, +QUEUED, -EXECABORT discarded", Err("Moved")),
            // Of another transaction, or of one of which a part is missing.
            ("+OK, +QUEUED, +QUEUED, *2|:3|$1|6", Err("another request")),
            ("+OK, +QUEUED, +QUEUED, *1|$1|7", Err("another request")),
            ("-ERR nested, +QUEUED, +QUEUED, *4|:1|$1|6|:3|$1|7", Err("another request")),
            ("+QUEUED, +QUEUED, *2|:3|$1|7, +OK", Err("another request")),
            ("+OK, +QUEUED, +QUEUED, *-1", Err("another request")),
            ("+OK, +QUEUED, +QUEUED, -EXECABORT discarded", Err("another request")),
            // A user that may not begin one: all the rest was done, each by itself.
            ("-NOPERM multi, :3, $1|7, -ERR EXEC without MULTI", Err("another request")),
        ] {
            let found = check_transaction(replies(text), "7").map(|results| results.len());
            match (&found, expected) {
                (Ok(found), Ok(expected)) if *found == expected => {}
                (Err(error), Err(word)) if error.to_string().contains(word) => {}
                _ => panic!("expected {expected:?} of {text:?}, it is {found:?}"),
            }
        }
    }
}
