//! Sets and reads the policies of limits, and runs the calls that wait for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::transitions::{MAX_UNPARKED, Waking};
use crate::protocol::keys::{QueueKeys, waiters};
use crate::protocol::limit::{LIMITS, Limit, LimitKeys, LimitName};
use crate::protocol::names::QueueName;

/// How many limits with parked messages one sweep of a queue checks.
const SWEPT: u32 = 500;
/// How many messages one script call drops.
const PURGED: u64 = 1000;
/// How many limits one request reads.
const PAGE: usize = 100;
/// How many replies there are for each of them.
const REPLIES: usize = 5;

impl Broker {
    /// Sets the policy of a limit. Waiting calls run as far as it permits.
    pub(crate) async fn set_limit(&self, name: &LimitName, limit: &Limit) -> Result<(), BrokerError> {
        let keys = LimitKeys::new(name);
        let mut pipe = redis::pipe();
        pipe.atomic().del(&keys.policy);
        if let Some(concurrency) = limit.concurrency() {
            pipe.hset(&keys.policy, "concurrency", concurrency);
        }
        if let Some((rate, period, burst)) = limit.tokens() {
            let fields =
                [("rate", u64::from(rate)), ("period", period.as_millis() as u64), ("burst", burst.into())];
            pipe.hset_multiple(&keys.policy, &fields);
        }
        self.apply("set_limit", &pipe).await?;
        let () = self.read("set_limit", redis::cmd("SADD").arg(LIMITS).arg(name.as_str())).await?;
        self.let_run(name).await
    }

    /// Removes the policy of a limit. Calls that wait for it run. Returns whether there was one.
    pub(crate) async fn remove_limit(&self, name: &LimitName) -> Result<bool, BrokerError> {
        let keys = LimitKeys::new(name);
        let removed: u64 = self.read("remove_limit", redis::cmd("DEL").arg(&keys.policy)).await?;
        self.let_run(name).await?;
        let () = self.read("remove_limit", redis::cmd("DEL").arg(&keys.all()[1..])).await?;
        let () = self.read("remove_limit", redis::cmd("SREM").arg(LIMITS).arg(name.as_str())).await?;
        Ok(removed > 0)
    }

    async fn apply(&self, op: &'static str, pipe: &redis::Pipeline) -> Result<(), BrokerError> {
        let applied = pipe.query_async::<()>(&mut self.commands.clone()).await;
        applied.map_err(|error| BrokerError::from_redis(op, &error))
    }

    /// Moves calls that may run into their queues, until no more may.
    async fn let_run(&self, name: &LimitName) -> Result<(), BrokerError> {
        let keys = LimitKeys::new(name);
        // Once, including calls that were told to run earlier and have not come.
        let mut again = true;
        loop {
            let (_, entries) = self.wake(&keys, &Waking { again, ..Waking::default() }).await?;
            if entries.is_empty() {
                return Ok(());
            }
            self.unpark_all(name, &entries).await?;
            again = false;
        }
    }

    /// Moves the messages of these line entries to the heads of their queues. Returns the entries of those that were not
    /// parked.
    pub(crate) async fn unpark_all(
        &self,
        name: &LimitName,
        entries: &[String],
    ) -> Result<Vec<String>, BrokerError> {
        let mut missing = Vec::new();
        let mut by_queue: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (digest, queue) in entries.iter().filter_map(|entry| entry.split_once(' ')) {
            by_queue.entry(queue).or_default().push(digest);
        }
        for (queue, digests) in by_queue {
            let Ok(queue) = QueueName::parse(queue) else { continue };
            let keys = QueueKeys::new(&queue);
            for part in digests.chunks(MAX_UNPARKED) {
                let (_, absent) = self.unpark(&keys, name, 0, part).await?;
                missing.extend(absent.into_iter().map(|digest| format!("{digest} {queue}")));
            }
        }
        Ok(missing)
    }

    /// The names of limits that messages of a queue wait for: up to `most`, in any order.
    pub(crate) async fn parked(&self, keys: &QueueKeys, most: u32) -> Result<Vec<LimitName>, BrokerError> {
        let mut command = redis::cmd("SRANDMEMBER");
        command.arg(&keys.parked).arg(most);
        let names: Vec<String> = self.read("parked", &command).await?;
        Ok(names.iter().filter_map(|name| LimitName::parse(name).ok()).collect())
    }

    /// Up to `count` messages of a queue that wait for a limit, oldest first, without the first `start`.
    pub(crate) async fn parked_messages(
        &self,
        keys: &QueueKeys,
        name: &LimitName,
        start: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>, BrokerError> {
        let mut command = redis::cmd("LRANGE");
        command.arg(waiters(&keys.queue, name)).arg(start).arg(start + count - 1);
        self.read("parked", &command).await
    }

    /// How many messages of a queue wait for a limit.
    pub(crate) async fn parked_count(&self, keys: &QueueKeys, name: &LimitName) -> Result<u64, BrokerError> {
        self.read("parked", redis::cmd("LLEN").arg(waiters(&keys.queue, name))).await
    }

    /// Moves parked messages of a queue that may already run, after a crash of the process that should have moved them.
    /// Returns how many were moved although their limits do not know them, or
    /// the ordered calls before them have ended without moving them.
    pub(crate) async fn sweep_parked(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        let mut strays = 0;
        for name in self.parked(keys, SWEPT).await? {
            if name.is_order() {
                strays += self.unpark(keys, &name, 1, &[]).await?.0;
                continue;
            }
            // Counted first, so that a message parked meanwhile counts as waiting.
            let parked = self.parked_count(keys, &name).await?;
            let limit = LimitKeys::new(&name);
            let (waiting, entries) = self.wake(&limit, &Waking { again: true, ..Waking::default() }).await?;
            self.unpark_all(&name, &entries).await?;
            if parked > waiting + entries.len() as u64 {
                let stray = (parked - waiting).min(1000);
                strays += self.unpark(keys, &name, stray, &[]).await?.0;
            }
        }
        Ok(strays)
    }
}

impl Broker {
    /// Drops all messages of a queue that wait for limits, and clears the lines of these limits: calls of other queues ask
    /// again when they are swept. Returns how many were dropped.
    ///
    /// The keys of a limit and those of a queue are in different hash slots, so each step is a request of its own. After a
    /// crash between them, the name is still among those that the queue's messages wait for: the next purge goes on, and a
    /// sweep moves messages that their limit no longer knows to the queue. So the name goes last, and only if nothing was
    /// parked meanwhile.
    pub(crate) async fn purge_limited(&self, keys: &QueueKeys) -> Result<u64, BrokerError> {
        let mut dropped = 0;
        loop {
            let names = self.parked(keys, SWEPT).await?;
            if names.is_empty() {
                return Ok(dropped);
            }
            for name in names {
                if !name.is_order() {
                    self.clear_line(&name).await?;
                }
                let mut count = u64::MAX;
                while count > 0 {
                    count = self.purge_parked(keys, &name, PURGED).await?;
                    dropped += count;
                }
                self.unpark(keys, &name, 0, &[]).await?;
            }
        }
    }

    /// Lets a limit forget the calls that wait for it.
    async fn clear_line(&self, name: &LimitName) -> Result<(), BrokerError> {
        let limit = LimitKeys::new(name);
        let mut pipe = redis::pipe();
        pipe.atomic().del(&limit.line).hdel(&limit.state, &["woken", "since"][..]);
        self.apply("purge", &pipe).await
    }
}

/// The current state of a limit.
#[derive(Debug)]
pub(crate) struct LimitState {
    pub(crate) name: LimitName,
    /// Concurrency, rate, period in milliseconds, and burst.
    pub(crate) policy: [Option<u64>; 4],
    pub(crate) held: u64,
    pub(crate) waiting: u64,
    /// Some of its holders.
    pub(crate) holders: Vec<String>,
    /// The first entries of its line.
    pub(crate) line: Vec<String>,
    /// Which of its keys has a wrong type; all else is empty then.
    pub(crate) problem: Option<String>,
}

impl Broker {
    /// The limits that have a policy, sorted by name, each with up to `most` holders and waiting calls.
    pub(crate) async fn limits(&self, most: u64) -> Result<Vec<LimitState>, BrokerError> {
        let mut limits = Vec::new();
        for part in self.limit_names().await?.chunks(PAGE) {
            limits.extend(self.limits_named(part, most).await?);
        }
        Ok(limits)
    }

    /// Their names. A scan may return one twice.
    async fn limit_names(&self) -> Result<Vec<LimitName>, BrokerError> {
        let (mut names, mut cursor) = (BTreeSet::new(), 0_u64);
        loop {
            let mut command = redis::cmd("SSCAN");
            command.arg(LIMITS).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, page): (u64, Vec<String>) = self.read("limits", &command).await?;
            names.extend(page.iter().filter_map(|name| LimitName::parse(name).ok()));
            cursor = next;
            if cursor == 0 {
                return Ok(names.into_iter().collect());
            }
        }
    }

    /// Reads these limits in one request.
    async fn limits_named(&self, names: &[LimitName], most: u64) -> Result<Vec<LimitState>, BrokerError> {
        let last = most.saturating_sub(1);
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for name in names {
            let keys = LimitKeys::new(name);
            pipe.cmd("HMGET").arg(&keys.policy).arg(&["concurrency", "rate", "period", "burst"]);
            pipe.zcard(&keys.holders).llen(&keys.line);
            pipe.cmd("ZRANGE").arg(&keys.holders).arg(0).arg(last);
            pipe.cmd("LRANGE").arg(&keys.line).arg(0).arg(last);
        }
        let failed = |error| BrokerError::from_redis("limits", &error);
        let replies: Vec<redis::RedisResult<redis::Value>> =
            pipe.query_async(&mut self.commands.clone()).await.map_err(failed)?;
        let state = |(name, replies): (&LimitName, &[redis::RedisResult<redis::Value>])| {
            let LimitKeys { policy, holders, line, .. } = LimitKeys::new(name);
            let asked = [&policy, &holders, &line, &holders, &line];
            let replies = replies.iter().zip(asked).map(|(reply, key)| match reply {
                Ok(reply) => Ok(reply.clone()),
                Err(error) => Err(failed(error.clone()).of_key(Some(key))),
            });
            match replies.collect::<Result<Vec<redis::Value>, BrokerError>>() {
                Ok(replies) => {
                    let read = redis::from_redis_value(redis::Value::Array(replies));
                    let (policy, held, waiting, holders, line) =
                        read.map_err(|error| failed(redis::RedisError::from(error)))?;
                    Ok(LimitState { name: name.clone(), policy, held, waiting, holders, line, problem: None })
                }
                Err(error) if error.kind() == BrokerErrorKind::WrongType => Ok(LimitState {
                    name: name.clone(),
                    policy: [None; 4],
                    held: 0,
                    waiting: 0,
                    holders: Vec::new(),
                    line: Vec::new(),
                    problem: Some(error.to_string()),
                }),
                Err(error) => Err(error),
            }
        };
        names.iter().zip(replies.chunks(REPLIES)).map(state).collect()
    }
}
