//! Everything that a sweep needs besides its scripts: the queues in use, the number of missing tokens, and the sweep lock.

use std::time::Duration;

use redis::{RedisResult, Value};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::script::milliseconds;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::WorkerId;

/// How many times, and at which interval, a gap between messages and tokens is checked.
const SAMPLES: u32 = 40;
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How long after the end of its lease a worker is forgotten.
pub(super) const FORGET_WORKERS: Duration = Duration::from_secs(60);
/// How many workers one sweep forgets.
const FORGOTTEN_AT_ONCE: u32 = 1000;

impl Broker {
    /// Whether each queue has one of the keys that a sweep changes. A queue that Redis reports an error for counts as in
    /// use: its sweep logs the reason, and the others are swept.
    pub(crate) async fn in_use(&self, queues: &[QueueKeys]) -> Result<Vec<bool>, BrokerError> {
        let mut pipe = redis::pipe();
        for keys in queues {
            pipe.cmd("EXISTS").arg(&keys.queue).arg(&keys.notifications).arg(&keys.hand);
            pipe.arg(&keys.processing)
                .arg(&keys.deaths)
                .arg(&keys.workers)
                .arg(&keys.due)
                .arg(&keys.parked)
                .arg(&keys.outbox);
        }
        let replies: Vec<RedisResult<bool>> = pipe
            .ignore_errors()
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("in_use", &error))?;
        Ok(replies.into_iter().map(|reply| reply.unwrap_or(true)).collect())
    }

    /// The numbers of waiting messages and of tokens, almost at the same instant. (A full Redis refuses a transaction.)
    async fn depth(&self, keys: &QueueKeys) -> Result<(i64, i64), BrokerError> {
        let mut pipe = redis::pipe();
        pipe.cmd("LLEN").arg(&keys.queue).cmd("LLEN").arg(&keys.notifications);
        let [waiting, tokens] = self.lengths_of("depth", &mut pipe).await?.map(u64::cast_signed);
        Ok((waiting, tokens))
    }

    /// How many tokens are missing (negative: how many too many). Watches for up to 400 ms, since a worker briefly holds a
    /// token between its `BLPOP` and its claim. Tokens are missing only if none is present and nobody takes a message, and
    /// there are too many only if that never changes.
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

    /// How many tokens of a queue are in transit (in `Q_hand`): of workers that were just woken, or left over.
    pub(crate) async fn in_hand(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        self.read("in_hand", redis::cmd("LLEN").arg(&keys.hand)).await
    }

    /// Takes the sweep lock for `turn`, unless another process has it.
    pub(crate) async fn take_turn(
        &self,
        keys: &QueueKeys,
        who: &str,
        turn: Duration,
    ) -> Result<bool, BrokerError> {
        let mut command = redis::cmd("SET");
        command.arg(&keys.sweep).arg(who).arg("NX").arg("PX").arg(milliseconds(turn));
        match self.read::<Value>("take_turn", &command).await {
            // A full Redis has no room for locks, and needs the sweep all the more.
            Err(error) if error.kind() == BrokerErrorKind::Full => Ok(true),
            reply => match reply? {
                Value::Nil => self.limit_turn(keys, turn).await,
                _ => Ok(true),
            },
        }
    }

    /// Shortens a sweep lock that lasts longer than a new one would: because the server's clock was set back, or because it
    /// never expires, as in a copy of the data without expiries. If the key holds no lock, but a value of another program,
    /// it stays as it is, no locks are taken, and this returns true.
    async fn limit_turn(&self, keys: &QueueKeys, turn: Duration) -> Result<bool, BrokerError> {
        // An error if the key is not a string.
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

    /// Forgets workers whose leases ended [`FORGET_WORKERS`] before `now`, by the server's clock. Entries that are not
    /// worker ids stay: they belong to another program.
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
