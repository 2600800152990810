//! What a sweep needs besides its scripts: the queues in use, the number of missing tokens, and the sweep lock.

use std::time::Duration;

use redis::{RedisResult, Value};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::script::milliseconds;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::WorkerId;

/// How often, and at which interval, a gap between messages and tokens is checked.
const SAMPLES: u32 = 40;
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How long after the end of its lease a worker is forgotten.
pub(super) const FORGET_WORKERS: Duration = Duration::from_secs(60);
/// How many of them one sweep forgets.
const FORGOTTEN_AT_ONCE: u32 = 1000;

impl Broker {
    /// Whether each of these queues has a key of those that a sweep changes. One that Redis tells nothing of counts as in
    /// use: its sweep says why, and the others are swept.
    pub(crate) async fn in_use(&self, queues: &[QueueKeys]) -> Result<Vec<bool>, BrokerError> {
        let mut pipe = redis::pipe();
        for keys in queues {
            pipe.cmd("EXISTS").arg(&keys.queue).arg(&keys.notifications).arg(&keys.hand);
            pipe.arg(&keys.processing).arg(&keys.deaths).arg(&keys.workers).arg(&keys.due).arg(&keys.parked);
        }
        let replies: Vec<RedisResult<bool>> = pipe
            .ignore_errors()
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("in_use", &error))?;
        Ok(replies.into_iter().map(|reply| reply.unwrap_or(true)).collect())
    }

    /// Messages that wait, and tokens for them, as good as at one instant. (A transaction is refused by a full Redis.)
    async fn depth(&self, keys: &QueueKeys) -> Result<(i64, i64), BrokerError> {
        let mut pipe = redis::pipe();
        pipe.cmd("LLEN").arg(&keys.queue).cmd("LLEN").arg(&keys.notifications);
        let [waiting, tokens] = self.lengths_of("depth", &mut pipe).await?.map(u64::cast_signed);
        Ok((waiting, tokens))
    }

    /// How many tokens are missing (negative: too many). Watches for up to 400 ms, since a token is in a worker's
    /// hand for a moment, between its `BLPOP` and its claim: tokens are missing only while none is there and nobody
    /// takes a message, and there are too many only while that never changes.
    pub(crate) async fn gap(&self, keys: &QueueKeys) -> Result<i64, BrokerError> {
        let (mut before, tokens) = self.depth(keys).await?;
        let mut gap = before - tokens;
        for _ in 1..SAMPLES {
            if gap == 0 || (gap > 0 && tokens > 0) {
                return Ok(0);
            }
            tokio::time::sleep(SAMPLE_EVERY).await;
            let (waiting, tokens) = self.depth(keys).await?;
            if gap > 0 && (tokens > 0 || waiting < before) {
                return Ok(0);
            }
            before = waiting;
            let now = waiting - tokens;
            gap = if gap > 0 { now.clamp(0, gap) } else { now.clamp(gap, 0) };
        }
        Ok(gap)
    }

    /// How many messages wait.
    pub(crate) async fn waiting_count(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        self.read("waiting", redis::cmd("LLEN").arg(&keys.queue)).await
    }

    /// How many tokens are in the hand of a queue: of workers that were just woken, or left there.
    pub(crate) async fn in_hand(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        self.read("in_hand", redis::cmd("LLEN").arg(&keys.hand)).await
    }

    /// Takes the turn to sweep for `turn`, unless another process has it.
    pub(crate) async fn take_turn(
        &self,
        keys: &QueueKeys,
        who: &str,
        turn: Duration,
    ) -> Result<bool, BrokerError> {
        let mut command = redis::cmd("SET");
        command.arg(&keys.sweep).arg(who).arg("NX").arg("PX").arg(milliseconds(turn));
        match self.read::<Value>("take_turn", &command).await {
            // A full Redis has no room for turns, and needs the sweep all the more.
            Err(error) if error.kind() == BrokerErrorKind::Full => Ok(true),
            reply => match reply? {
                Value::Nil => self.limit_turn(keys, turn).await,
                _ => Ok(true),
            },
        }
    }

    /// Cuts a turn of another that lasts longer than ours would: since the server's clock was set back, or for ever, as one
    /// from a copy of the data without times. Where the key holds no turn, as another program's, it stays as it is, and
    /// nobody takes turns: this gives true.
    async fn limit_turn(&self, keys: &QueueKeys, turn: Duration) -> Result<bool, BrokerError> {
        // An error where it is no string.
        let who: Option<Vec<u8>> = self.read("take_turn", redis::cmd("GET").arg(&keys.sweep)).await?;
        let Some(who) = who else { return Ok(false) };
        if std::str::from_utf8(&who).ok().and_then(WorkerId::parse).is_none() {
            return Ok(true);
        }
        let turn = milliseconds(turn);
        let [left] = self.expiries(&[&keys.sweep]).await?[..] else { return Ok(false) };
        if left == -1 || left > turn.cast_signed() {
            let mut command = redis::cmd("PEXPIRE");
            let _: Value = self.read("take_turn", command.arg(&keys.sweep).arg(turn)).await?;
        }
        Ok(false)
    }

    /// Forgets workers whose leases ended [`FORGET_WORKERS`] before `now`, by the server's clock. What is no worker's id
    /// stays: it is another program's.
    pub(crate) async fn forget_workers(&self, keys: &QueueKeys, now: Duration) -> Result<(), BrokerError> {
        let until = milliseconds(now.saturating_sub(FORGET_WORKERS));
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&keys.workers).arg("-inf").arg(until).arg("LIMIT").arg(0).arg(FORGOTTEN_AT_ONCE);
        let old: Vec<Vec<u8>> = self.read("forget_workers", &command).await?;
        let ids = old.iter().filter_map(|id| WorkerId::parse(std::str::from_utf8(id).ok()?));
        let mut command = redis::cmd("ZREM");
        command.arg(&keys.workers);
        ids.for_each(|id| {
            command.arg(id.as_str());
        });
        if command.args_iter().count() <= 2 {
            return Ok(());
        }
        self.read("forget_workers", &command).await
    }
}
