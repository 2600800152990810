//! What did the dead leave behind? A sweeper requeues what they owned and mends what others left uneven.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join4;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, DeadLimits, DeathLimits, Target};
use crate::config::{Config, DeadConfig, SweeperConfig};
use crate::error::Error;
use crate::protocol::keys::{QUEUES, QueueKeys};
use crate::protocol::names::QueueName;

/// How many dead slots one script call empties: a millisecond or two of Redis.
const SLOTS: u32 = 200;
/// How many queues are looked at in one request.
const AT_ONCE: usize = 500;
/// Deaths that were counted so short a time before a sweep are those that it finds, counted by another sweeper: whoever
/// dies of a message that was requeued meanwhile has a live key for longer, as no lease is shorter than a second.
const SAME_EVENT: Duration = Duration::from_millis(500);
/// How many sweeps lie between two scans for queues that nobody registered.
const SCAN_EVERY: u64 = 15;

/// Requeues what dead workers owned. Several may run; each call of Redis is one step, so they do not get into each
/// other's way.
///
/// ```no_run
/// # async fn example() -> Result<(), delayed::Error> {
/// let sweeper = delayed::Sweeper::connect("redis://127.0.0.1:6379").await?;
/// sweeper.run().await; // until the future is dropped
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Sweeper {
    broker: Broker,
    config: SweeperConfig,
    dead: DeadConfig,
    found: BTreeSet<QueueName>,
    sweeps: u64,
    /// Why the names of the queues cannot be read: the key that holds them has another type. It was told.
    nameless: Option<BrokerError>,
}

/// What sweeps did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Messages that were requeued.
    pub requeued: u64,
    /// Messages that had taken too many workers down, and were buried.
    pub buried: u64,
    /// Notifications that were added (negative: taken away).
    pub balanced: i64,
}

impl Sweeper {
    /// Connects to the Redis at `url`. Finds its queues by itself.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let config = Config { redis: crate::config::RedisConfig::new(url), ..Config::default() };
        Self::with_config(&config).await
    }

    /// Connects with these settings. A Redis that is loading its data is waited for.
    ///
    /// # Errors
    /// A setting out of its range, or a Redis that cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        config.sweeper.validate()?;
        config.dead.validate()?;
        let broker = Broker::connect_when_ready(&Target::new(&config.redis)?).await?;
        Ok(Self::with_broker(broker, config.sweeper.clone(), config.dead.clone()))
    }

    pub(crate) fn with_broker(broker: Broker, config: SweeperConfig, dead: DeadConfig) -> Self {
        Self { broker, config, dead, found: BTreeSet::new(), sweeps: 0, nameless: None }
    }

    /// Sweeps for ever, with a rest between two sweeps. A sweep that fails is logged and does not end it.
    ///
    /// Cancel-safe: what it does, it does in single steps.
    pub async fn run(mut self) {
        tracing::info!(redis = self.broker.address(), interval = ?self.config.interval, "sweeping");
        loop {
            match self.sweep_known().await {
                Ok(report) if report != SweepReport::default() => {
                    tracing::info!(
                        requeued = report.requeued,
                        buried = report.buried,
                        balanced = report.balanced,
                        "swept"
                    );
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the sweep failed; it is tried again"),
            }
            tokio::time::sleep(self.config.interval).await;
        }
    }

    /// Sweeps every queue once.
    ///
    /// # Errors
    /// The last queue's error; the other queues were swept all the same. So were those that can be found, where the names of
    /// the queues cannot be read, since their key has another type.
    pub async fn sweep(&mut self) -> Result<SweepReport, Error> {
        let swept = self.sweep_known().await?;
        self.nameless.clone().map_or(Ok(swept), |error| Err(error.into()))
    }

    async fn sweep_known(&mut self) -> Result<SweepReport, Error> {
        let mut total = SweepReport::default();
        let mut result = Ok(());
        for keys in self.in_use().await? {
            match async { self.sweep_queue(&keys, self.broker.server_time().await?).await }.await {
                Ok(report) => {
                    total.requeued += report.requeued;
                    total.buried += report.buried;
                    total.balanced += report.balanced;
                }
                Err(error) => {
                    tracing::warn!(queue = keys.queue, %error, "this queue could not be swept");
                    result = Err(error.into());
                }
            }
        }
        self.sweeps += 1;
        result.map(|()| total)
    }

    /// The queues to sweep that have anything to be swept: names stay registered when their queues are used no more.
    async fn in_use(&mut self) -> Result<Vec<QueueKeys>, BrokerError> {
        let queues: Vec<QueueKeys> = self.queues().await?.iter().map(QueueKeys::new).collect();
        let mut in_use = Vec::new();
        for part in queues.chunks(AT_ONCE) {
            let used = self.broker.in_use(part).await?;
            in_use.extend(part.iter().zip(used).filter(|(_, used)| *used).map(|(keys, _)| keys.clone()));
        }
        Ok(in_use)
    }

    /// The queues to look at: those that were named, or those that are registered or have something in hand.
    async fn queues(&mut self) -> Result<BTreeSet<QueueName>, BrokerError> {
        if !self.config.queues.is_empty() {
            return Ok(self.config.queues.iter().cloned().collect());
        }
        let names = self.names().await?;
        if self.sweeps.is_multiple_of(SCAN_EVERY) {
            let found = self.broker.queues_beside(&[("_processing", "hash"), ("_noti", "list")]).await?;
            if names.is_some() {
                self.found.clear();
            }
            self.found.extend(found);
        }
        self.found.extend(names.iter().flatten().filter_map(|name| QueueName::parse(name).ok()));
        Ok(self.found.clone())
    }

    /// The names of the queues that are registered; none where they cannot be read, which is told once.
    async fn names(&mut self) -> Result<Option<Vec<String>>, BrokerError> {
        match self.broker.registered_queues().await {
            Ok(names) => {
                if self.nameless.take().is_some() {
                    tracing::info!(key = QUEUES, "the names of the queues can be read again");
                }
                Ok(Some(names))
            }
            Err(error) if error.kind() == BrokerErrorKind::WrongType => {
                if self.nameless.is_none() {
                    tracing::error!(
                        key = QUEUES,
                        %error,
                        "the names of the queues cannot be read: those are swept that were known, and those that are found \
                         by what they own; `--queue` names others"
                    );
                }
                self.nameless = Some(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sweeps one queue once, `began` just now by the server's clock.
    pub(crate) async fn sweep_queue(
        &self,
        keys: &QueueKeys,
        began: Duration,
    ) -> Result<SweepReport, BrokerError> {
        // Asked together: what the one comes to is nothing to the others, as whatever is requeued has its token.
        let (requeued, gap, hand, forgotten) = join4(
            self.requeue_lost(keys, began),
            self.broker.gap(keys),
            self.broker.in_hand(keys),
            self.broker.forget_workers(keys, began),
        )
        .await;
        let mut report = requeued?;
        let (mut gap, hand) = (gap?, hand?);
        // Also without a gap: a token that was left in the hand is dropped.
        let mut is_even = gap == 0 && hand == 0;
        while !is_even {
            let changed = self.broker.balance(keys, gap).await?;
            report.balanced += changed;
            gap -= changed;
            is_even = gap == 0 || changed == 0;
        }
        forgotten.map(|()| report)
    }

    /// Brings back what dead workers owned, all of it.
    async fn requeue_lost(&self, keys: &QueueKeys, began: Duration) -> Result<SweepReport, BrokerError> {
        let mut report = SweepReport::default();
        let deaths = DeathLimits {
            max_deaths: self.config.max_deaths,
            forget: SweeperConfig::FORGET_DEATHS,
            since: began.saturating_sub(SAME_EVENT),
        };
        let dead = DeadLimits { max_count: self.dead.max_count, max_age: self.dead.max_age };
        let mut cursor = 0;
        loop {
            let swept = self.broker.requeue_lost(keys, cursor, SLOTS, deaths, dead).await?;
            report.requeued += swept.requeued;
            report.buried += swept.buried;
            if !swept.dead.is_empty() {
                tracing::warn!(
                    queue = keys.queue,
                    slots = swept.dead.len(),
                    first = swept.dead[0],
                    requeued = swept.requeued,
                    buried = swept.buried,
                    "found messages of dead workers"
                );
            }
            if swept.unburied > 0 {
                tracing::error!(
                    queue = keys.queue,
                    key = keys.dead,
                    messages = swept.unburied,
                    "messages that took too many workers down cannot be buried: this key holds another type than a \
                     stream; rename or delete it"
                );
            }
            cursor = swept.cursor;
            if cursor == 0 {
                break;
            }
        }
        Ok(report)
    }
}
