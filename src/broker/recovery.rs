//! What did the dead leave behind? Requeue it, balance notifications, take turns.

use std::time::Duration;

use redis::{RedisResult, Value};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::queue::milliseconds;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

/// How often, and at what distance, a gap between messages and tokens is looked at.
const SAMPLES: u32 = 40;
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How long after the end of its lease a worker is forgotten.
pub(super) const FORGET_WORKERS: Duration = Duration::from_secs(60);

/// How many dead letters a queue keeps, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadLimits {
    pub(crate) max_count: u64,
    pub(crate) max_age: Duration,
}

/// When a message that takes its workers down is buried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeathLimits {
    /// At how many deaths.
    pub(crate) max_deaths: u32,
    /// After how long without a death they are forgotten.
    pub(crate) forget: Duration,
    /// By the server's clock: a death that was counted from then on is the same one.
    pub(crate) since: Duration,
}

/// What one call of `requeue_lost` did.
#[derive(Debug)]
pub(crate) struct Swept {
    /// Where to go on; 0 at the end.
    pub(crate) cursor: u64,
    pub(crate) requeued: u64,
    pub(crate) buried: u64,
    /// The wire ids of their dead slots.
    pub(crate) dead: Vec<String>,
    /// How many could not be buried: the key of the dead letters holds another type.
    pub(crate) unburied: u64,
}

impl Broker {
    /// Requeues what dead slots own, about `count` of them, from `cursor` on.
    pub(crate) async fn requeue_lost(
        &self,
        keys: &QueueKeys,
        cursor: u64,
        count: u32,
        deaths: DeathLimits,
        dead: DeadLimits,
    ) -> Result<Swept, BrokerError> {
        let script_keys =
            [keys.queue.as_str(), &keys.notifications, &keys.processing, &keys.dead, &keys.deaths];
        let mut command = script::REQUEUE_LOST.command(&script_keys, 7, 80);
        command
            .arg(cursor)
            .arg(count)
            .arg(deaths.max_deaths)
            .arg(milliseconds(deaths.forget))
            .arg(dead.max_count)
            .arg(milliseconds(dead.max_age))
            .arg(milliseconds(deaths.since));
        let reply = script::REQUEUE_LOST.run(&mut self.commands.clone(), command).await?;
        redis::from_redis_value::<(u64, u64, u64, Vec<String>, u64)>(reply)
            .map(|(cursor, requeued, buried, dead, unburied)| Swept {
                cursor,
                requeued,
                buried,
                dead,
                unburied,
            })
            .map_err(|error| BrokerError::new("requeue_lost", BrokerErrorKind::Reply, error.to_string()))
    }

    /// Whether each of these queues has a key of those that a sweep changes. One that Redis tells nothing of counts as in
    /// use: its sweep says why, and the others are swept.
    pub(crate) async fn in_use(&self, queues: &[QueueKeys]) -> Result<Vec<bool>, BrokerError> {
        let mut pipe = redis::pipe();
        for keys in queues {
            pipe.cmd("EXISTS").arg(&keys.queue).arg(&keys.notifications).arg(&keys.hand);
            pipe.arg(&keys.processing).arg(&keys.deaths).arg(&keys.workers);
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

    /// How many tokens are in the hand of a queue: of workers that were just woken, or left there.
    pub(crate) async fn in_hand(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        self.read("in_hand", redis::cmd("LLEN").arg(&keys.hand)).await
    }

    /// Adds up to `gap` tokens, or takes them away when it is negative, as far as the gap is still there.
    pub(crate) async fn balance(&self, keys: &QueueKeys, gap: i64) -> Result<i64, BrokerError> {
        let mut command = script::BALANCE.command(&[&keys.queue, &keys.notifications, &keys.hand], 1, 24);
        command.arg(gap);
        match script::BALANCE.run(&mut self.commands.clone(), command).await? {
            Value::Int(changed) => Ok(changed),
            reply => Err(script::BALANCE.unexpected(&reply)),
        }
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
                Value::Nil => self.limit_turn(keys, turn).await.map(|()| false),
                _ => Ok(true),
            },
        }
    }

    /// Lets a turn end that never would, as one from a copy of the data without times.
    async fn limit_turn(&self, keys: &QueueKeys, turn: Duration) -> Result<(), BrokerError> {
        // An error where it is no turn.
        let _: Value = self.read("take_turn", redis::cmd("STRLEN").arg(&keys.sweep)).await?;
        if self.expiries(&[&keys.sweep]).await? == [-1] {
            let mut command = redis::cmd("PEXPIRE");
            let _: Value = self.read("take_turn", command.arg(&keys.sweep).arg(milliseconds(turn))).await?;
        }
        Ok(())
    }

    /// Forgets workers whose leases ended [`FORGET_WORKERS`] before `now`, by the server's clock.
    pub(crate) async fn forget_workers(&self, keys: &QueueKeys, now: Duration) -> Result<(), BrokerError> {
        let until = milliseconds(now.saturating_sub(FORGET_WORKERS));
        let mut command = redis::cmd("ZREMRANGEBYSCORE");
        self.read("forget_workers", command.arg(&keys.workers).arg("-inf").arg(until)).await
    }
}
