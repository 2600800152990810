//! Waits for notifications of one queue, or of several at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, Value};

use crate::broker::Broker;
use crate::broker::commands::Commands;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::reader::Reader;
use crate::broker::token::{TOKEN, Token};
use crate::broker::transitions::{Claimed, PickUpRequest, pick_up};
use crate::crash;
use crate::protocol::keys::QueueKeys;
use crate::protocol::slot::slot;

/// A separate connection that waits for a token. Clones share it: Redis runs the request of one clone after the wait of
/// another has ended.
#[derive(Clone)]
pub(crate) struct Waiter {
    connection: Reader,
    /// To the same server.
    commands: Commands,
    client_id: u64,
    /// How long a wait blocks.
    block: Duration,
    /// A claim did not get its own reply, so the next wait may not, either.
    broken: Arc<AtomicBool>,
}

impl Waiter {
    /// Waits until a queue has a token, and moves it to `Q_hand`. Returns whether a token came. None did if the wait timed
    /// out, after at most `lasts`, or if [`Self::unblock`] was called.
    ///
    /// A dropped future may have moved a token; the next claim that checks `Q_hand` takes it. A full Redis rejects this
    /// command, unlike [`wait_any`](Self::wait_any).
    pub(crate) async fn wait(&mut self, keys: &QueueKeys, lasts: Duration) -> Result<bool, BrokerError> {
        let mut command = redis::cmd("BLMOVE");
        let seconds = lasts.min(self.block).as_secs_f64();
        command.arg(&keys.notifications).arg(&keys.hand).arg("LEFT").arg("RIGHT").arg(seconds);
        crash::point("wait", "before");
        self.check()?;
        let reply: Option<Value> = match command.query_async(&mut self.connection).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.failed(&error, &[&keys.notifications, &keys.hand]).await),
        };
        let Some(moved) = reply else { return Ok(false) };
        crash::point("wait", "replied");
        if !is_token(&moved) {
            // It is at the right end of `Q_hand`, where a pick-up leaves entries that are not tokens.
            let mut back = redis::cmd("LMOVE");
            back.arg(&keys.hand).arg(&keys.notifications).arg("RIGHT").arg("LEFT");
            return Err(self.foreign(&keys.notifications, &back).await);
        }
        Ok(true)
    }

    /// Waits until one of `notifications` (keys, in order of preference) has a token, and pops it. Returns its index among
    /// the keys, or `None` if the wait timed out or [`Self::unblock`] was called.
    ///
    /// Not cancel-safe: a dropped future may have popped a token, which is then lost until a sweeper
    /// balances the queue. Call `unblock` and await it instead.
    pub(crate) async fn wait_any(&mut self, notifications: &[&str]) -> Result<Option<usize>, BrokerError> {
        let mut command = redis::cmd("BLPOP");
        for key in notifications {
            command.arg(*key);
        }
        command.arg(self.block.as_secs());
        crash::point("wait_any", "before");
        self.check()?;
        let reply: Option<(String, Value)> = match command.query_async(&mut self.connection).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.failed(&error, notifications).await),
        };
        if reply.is_some() {
            crash::point("wait_any", "replied");
        }
        let Some((key, popped)) = reply else { return Ok(None) };
        let Some(place) = notifications.iter().position(|candidate| *candidate == key) else {
            return Err(BrokerError::new("wait", BrokerErrorKind::Reply, key));
        };
        match popped {
            Value::BulkString(bytes) if bytes != TOKEN => {
                let mut back = redis::cmd("LPUSH");
                back.arg(&key).arg(bytes);
                Err(self.foreign(&key, &back).await)
            }
            _ => Ok(Some(place)),
        }
    }

    /// The error for a list that holds something other than tokens. `back` returns what was popped.
    async fn foreign(&mut self, key: &str, back: &Cmd) -> BrokerError {
        match back.query_async::<Value>(&mut self.connection).await {
            Ok(_) => BrokerError::foreign("wait", key),
            Err(error) => BrokerError::from_redis("wait", &error).of_key(Some(key)),
        }
    }

    /// Claims at most one message behind a wait in flight: Redis runs the claim as soon as the wait has ended.
    pub(crate) async fn pick_up(
        &self,
        keys: &QueueKeys,
        ask: &PickUpRequest<'_>,
    ) -> Result<Claimed, BrokerError> {
        let claimed = pick_up(keys, ask, &mut self.connection.clone()).await;
        if claimed.as_ref().is_err_and(|error| error.kind() == BrokerErrorKind::Uncertain) {
            self.broken.store(true, Ordering::Relaxed);
        }
        claimed
    }

    async fn failed(&mut self, error: &RedisError, lists: &[&str]) -> BrokerError {
        // The next connection is to lead where the queue is by now.
        self.commands.look_again().await;
        of_list(BrokerError::from_redis("wait", error), lists, &mut self.connection).await
    }

    fn check(&self) -> Result<(), BrokerError> {
        if self.broken.load(Ordering::Relaxed) {
            let detail = "a claim behind a wait got no reply of its own";
            return Err(BrokerError::new("wait", BrokerErrorKind::Uncertain, detail));
        }
        Ok(())
    }

    /// Makes a wait return at once, without losing a token.
    pub(crate) async fn unblock(&self) -> Result<(), BrokerError> {
        redis::cmd("CLIENT")
            .arg("UNBLOCK")
            .arg(self.client_id)
            .query_async::<Value>(&mut self.commands.clone())
            .await
            .map(drop)
            .map_err(|error| BrokerError::from_redis("unblock", &error))
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl Broker {
    /// Queues of one group can be waited for together: in a Cluster, those of one hash slot.
    pub(crate) fn wait_group(&self, keys: &QueueKeys) -> u16 {
        if self.target.cluster().is_some() { slot(keys.queue.as_bytes()) } else { 0 }
    }

    /// Opens a separate connection for waiting, to the server of this queue.
    pub(crate) async fn waiter(&self, keys: &QueueKeys) -> Result<Waiter, BrokerError> {
        let (block, longest) = self.target.wait();
        let mut connection = Reader::open(&self.target, &keys.queue, longest).await?;
        let client_id = redis::cmd("CLIENT")
            .arg("ID")
            .query_async(&mut connection)
            .await
            .map_err(|error| BrokerError::connecting("wait", &error))?;
        let commands = match self.target.cluster() {
            Some(_) => self.commands.to(connection.node()),
            None => self.commands.clone(),
        };
        Ok(Waiter { connection, commands, client_id, block, broken: Arc::default() })
    }

    /// Returns a token that this worker cannot use, so that another worker wakes, unless the message was taken meanwhile.
    /// It is the token that was popped, or one of those in `Q_hand`.
    pub(crate) async fn give_token_back(&self, keys: &QueueKeys, token: Token) -> Result<(), BrokerError> {
        self.add_tokens(keys, 1, token == Token::Moved).await.map(drop)
    }
}

/// Whether a value is a token, and not from another program.
fn is_token(value: &Value) -> bool {
    !matches!(value, Value::BulkString(bytes) if bytes != TOKEN)
}

/// The same error with the key that holds no list, if that is the problem: Redis does not name it.
async fn of_list<C: ConnectionLike>(error: BrokerError, keys: &[&str], connection: &mut C) -> BrokerError {
    if error.kind() != BrokerErrorKind::WrongType {
        return error;
    }
    let mut pipe = redis::pipe();
    for key in keys {
        pipe.cmd("TYPE").arg(*key);
    }
    let types: Vec<String> = pipe.query_async(connection).await.unwrap_or_default();
    let wrong = types.iter().position(|kind| kind != "list" && kind != "none");
    error.of_key(wrong.map(|place| keys[place]))
}
