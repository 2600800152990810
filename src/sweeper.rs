//! What did the dead leave behind? A sweeper requeues what they owned and mends what others left uneven.

mod timetable;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{join5, pending};

use crate::broker::{
    Beside, Broker, BrokerError, BrokerErrorKind, Channels, DeadLimits, DeathLimits, Found, Pace, Target,
};
use crate::config::{Config, DeadConfig, SweeperConfig};
use crate::error::Error;
use crate::protocol::keys::{self, QUEUES, QueueKeys};
use crate::protocol::names::{QueueName, WorkerId};
use crate::repeats::Repeats;

pub(crate) use self::timetable::Timetable;

/// What the log calls a sweep.
pub(crate) const SWEEP: &str = "sweep";
/// What it calls a scan for queues that nobody registered.
const SCAN: &str = "scan for queues";
/// How many dead slots one script call empties: a millisecond or two of Redis.
const SLOTS: u32 = 200;
/// How many queues are looked at in one request.
const AT_ONCE: usize = 500;
/// Deaths that were counted so short a time before a sweep are those that it finds, counted by another sweeper: whoever
/// dies of a message that was requeued meanwhile has a live key for longer, as no lease is shorter than a second.
const SAME_EVENT: Duration = Duration::from_millis(500);
/// How many intervals lie between two scans for queues that nobody registered, or sweeps where each is asked for.
const SCAN_EVERY: u32 = 15;

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
    /// The queues that are registered, as they were last read.
    registered: BTreeSet<QueueName>,
    /// Those that the last scan found.
    found: BTreeSet<QueueName>,
    /// Keys that look like those of a queue and are another program's. They were told.
    foreign: BTreeSet<String>,
    sweeps: u32,
    /// Why the names of the queues cannot be read: the key that holds them has another type. It was told.
    nameless: Option<BrokerError>,
    timetable: Arc<Timetable>,
    /// Of which queues it was told that their dead letters cannot be written.
    unburied: Mutex<Repeats<String>>,
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
    /// Calls whose time had come, which were moved into the queue.
    pub promoted: u64,
}

impl SweepReport {
    fn add(&mut self, other: Self) {
        self.requeued += other.requeued;
        self.buried += other.buried;
        self.balanced += other.balanced;
        self.promoted += other.promoted;
    }
}

/// Looks for queues that nobody registered.
async fn scan(broker: &Broker) -> Result<Found, BrokerError> {
    broker.scan_queues(&[Beside::Processing, Beside::Notifications], Pace::Gentle).await
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
        let timetable = Arc::new(Timetable::new(broker.clone(), WorkerId::random()));
        let (registered, found, foreign) = Default::default();
        let unburied = Mutex::new(Repeats::new(1));
        Self {
            broker,
            config,
            dead,
            registered,
            found,
            foreign,
            sweeps: 0,
            nameless: None,
            unburied,
            timetable,
        }
    }

    /// Tells this timetable when calls are due, instead of one of its own.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn with_timetable(self, timetable: Arc<Timetable>) -> Self {
        Self { timetable, ..self }
    }

    /// Sweeps for ever, with a rest between two sweeps. A sweep that fails is logged and does not end it.
    ///
    /// Between its sweeps it scans for queues that nobody registered, which takes one part in a hundred of Redis's time.
    ///
    /// Cancel-safe: what it does, it does in single steps.
    pub async fn run(mut self) {
        let timetable = Arc::clone(&self.timetable);
        let channels = match &self.config.queues[..] {
            [] => Channels::Matching(keys::due_channel("*")),
            queues => Channels::Named(queues.iter().map(|queue| keys::due_channel(queue.as_str())).collect()),
        };
        let listening = Arc::clone(&self.timetable).listen(channels, |_| {});
        tokio::select! {
            () = self.sweep_forever() => {}
            // Calls fall due between two sweeps, too.
            () = timetable.run() => {}
            () = listening => {}
        }
    }

    async fn sweep_forever(&mut self) {
        tracing::info!(redis = self.broker.address(), interval = ?self.config.interval, "sweeping");
        let (broker, finds) = (self.broker.clone(), self.config.queues.is_empty());
        let scan = |pause: Duration| {
            let broker = broker.clone();
            async move {
                tokio::time::sleep(pause).await;
                if finds { scan(&broker).await } else { pending().await }
            }
        };
        let mut scanning = Box::pin(scan(Duration::ZERO));
        loop {
            match self.sweep_all().await {
                Ok(report) if report != SweepReport::default() => {
                    tracing::info!(
                        requeued = report.requeued,
                        buried = report.buried,
                        balanced = report.balanced,
                        promoted = report.promoted,
                        "swept"
                    );
                }
                Ok(_) => {}
                // It was logged.
                Err(_) => {}
            }
            let rest = tokio::time::sleep(self.config.interval);
            tokio::pin!(rest);
            loop {
                let found = tokio::select! {
                    () = &mut rest => break,
                    found = &mut scanning => found,
                };
                scanning = Box::pin(scan(self.config.interval.saturating_mul(SCAN_EVERY)));
                match found
                    .map(|found| self.note(found))
                    .inspect(|_| self.broker.outage().succeeded(SCAN, ""))
                {
                    // What is new is swept at once.
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => self.broker.outage().failed(SCAN, "", &error),
                }
            }
        }
    }

    /// Sweeps every queue once: first those that are registered, then those that a scan finds, which goes over all keys of
    /// the database and rests in proportion. One sweep in fifteen scans, the first one too.
    ///
    /// # Errors
    /// The last queue's error; the other queues were swept all the same. So were those that can be found, where the names of
    /// the queues cannot be read, since their key has another type.
    pub async fn sweep(&mut self) -> Result<SweepReport, Error> {
        let mut swept = self.sweep_all().await;
        if self.config.queues.is_empty() && self.sweeps.is_multiple_of(SCAN_EVERY) {
            let known = self.known();
            let found = scan(&self.broker).await?;
            self.note(found);
            let new = self.found.difference(&known).cloned().collect();
            let more = self.sweep_each(new).await;
            swept = match (swept, more) {
                (Ok(mut swept), Ok(more)) => {
                    swept.add(more);
                    Ok(swept)
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        self.sweeps = self.sweeps.wrapping_add(1);
        let swept = swept?;
        self.nameless.clone().map_or(Ok(swept), |error| Err(error.into()))
    }

    /// Sweeps the queues that were named, or those that are known.
    async fn sweep_all(&mut self) -> Result<SweepReport, Error> {
        if !self.config.queues.is_empty() {
            return self.sweep_each(self.config.queues.iter().cloned().collect()).await;
        }
        let names = self.names().await;
        if let Some(names) = names.inspect_err(|error| self.broker.outage().failed(SWEEP, "", error))? {
            self.registered = names.iter().filter_map(|name| QueueName::parse(name).ok()).collect();
        }
        self.sweep_each(self.known()).await
    }

    /// The queues that are registered, and those that the last scan found.
    fn known(&self) -> BTreeSet<QueueName> {
        self.registered.union(&self.found).cloned().collect()
    }

    async fn sweep_each(&self, queues: BTreeSet<QueueName>) -> Result<SweepReport, Error> {
        let mut total = SweepReport::default();
        let mut result = Ok(());
        let in_use =
            self.in_use(&queues).await.inspect_err(|error| self.broker.outage().failed(SWEEP, "", error))?;
        self.broker.outage().succeeded(SWEEP, "");
        for keys in in_use {
            match async { self.sweep_queue(&keys, self.broker.server_time().await?).await }.await {
                Ok(report) => {
                    total.add(report);
                    self.broker.outage().succeeded(SWEEP, &keys.queue);
                }
                Err(error) => {
                    self.broker.outage().failed(SWEEP, &keys.queue, &error);
                    result = Err(error.into());
                }
            }
        }
        result.map(|()| total)
    }

    /// Those of these queues that have anything to be swept: names stay registered when their queues are used no more.
    async fn in_use(&self, queues: &BTreeSet<QueueName>) -> Result<Vec<QueueKeys>, BrokerError> {
        let queues: Vec<QueueKeys> = queues.iter().map(QueueKeys::new).collect();
        let mut in_use = Vec::new();
        for part in queues.chunks(AT_ONCE) {
            let used = self.broker.in_use(part).await?;
            in_use.extend(part.iter().zip(used).filter(|(_, used)| *used).map(|(keys, _)| keys.clone()));
        }
        Ok(in_use)
    }

    /// Takes in what a scan has found. Gives whether there is a queue that was not known.
    fn note(&mut self, found: Found) -> bool {
        for key in found.foreign.difference(&self.foreign) {
            tracing::warn!(
                key,
                hint = "its name is that of a key of a queue, and it holds something else",
                "foreign key left alone"
            );
        }
        self.foreign = found.foreign;
        let known = self.known();
        self.found = found.queues;
        !self.found.is_subset(&known)
    }

    /// The names of the queues that are registered; none where they cannot be read, which is told once.
    async fn names(&mut self) -> Result<Option<Vec<String>>, BrokerError> {
        match self.broker.registered_queues().await {
            Ok(names) => {
                if self.nameless.take().is_some() {
                    tracing::info!(key = QUEUES, "queue names can be read again");
                }
                Ok(Some(names))
            }
            Err(error) if error.kind() == BrokerErrorKind::WrongType => {
                if self.nameless.is_none() {
                    tracing::error!(
                        key = QUEUES,
                        %error,
                        hint = "known queues are swept, and those that are found by their keys; `--queue` names others",
                        "queue names cannot be read"
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
        let (requeued, gap, hand, forgotten, promoted) = join5(
            self.requeue_lost(keys, began),
            self.broker.gap(keys),
            self.broker.in_hand(keys),
            self.broker.forget_workers(keys, began),
            self.timetable.promote(keys),
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
        report.promoted = promoted?;
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
            for dead_letter in &swept.letters {
                tracing::error!(queue = keys.queue, reason = "lost", dead_letter, "message buried");
            }
            if swept.unburied > 0
                && let Some(repeated) = self
                    .unburied
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .note(keys.queue.clone(), Instant::now())
            {
                tracing::error!(
                    queue = keys.queue,
                    key = keys.dead,
                    messages = swept.unburied,
                    repeated,
                    hint = "the key holds another type than a stream: rename or delete it",
                    "messages cannot be buried"
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
