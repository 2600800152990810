//! Requeues the messages of dead workers, and repairs token counts and timetables.

#[cfg(feature = "periodic")]
mod periodic;
mod timetable;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{join5, pending};
use tokio::sync::mpsc::UnboundedSender;

use crate::broker::{
    Broker, BrokerError, BrokerErrorKind, Channels, DeadLimits, DeathLimits, KeyKind, Pace, ScannedQueues,
    Target,
};
use crate::config::{Config, DeadConfig, SweeperConfig};
use crate::error::Error;
use crate::flow::Flows;
use crate::protocol::keys::{self, QUEUES, QueueKeys};
use crate::protocol::names::{QueueName, WorkerId};
use crate::repeats::Repeats;

pub(crate) use self::timetable::Timetable;

/// The name of a sweep in the log.
pub(crate) const SWEEP: &str = "sweep";

/// What it calls reading the names of queues.
const NAMES: &str = "names of queues";
/// The name of a scan for unregistered queues in the log.
const SCAN: &str = "scan for queues";
/// How many dead slots one script call empties, in a millisecond or two of Redis's time.
const SLOTS: u32 = 200;
/// How many queues are checked in one request.
const AT_ONCE: usize = 500;
/// Deaths counted within 500 ms belong to the same crash: another sweeper has counted them. A worker that dies of a message
/// that was requeued meanwhile keeps its live key for longer than that, since no lease is shorter than a second.
const SAME_EVENT: Duration = Duration::from_millis(500);
/// How many intervals lie between two scans for unregistered queues; how many sweeps, if sweeps are called one by one.
const SCAN_EVERY: u32 = 15;

/// Requeues the messages of dead workers. Several sweepers may run: each script call is one step, so they do not disturb
/// each other.
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
    /// The registered queues, as of the last read.
    registered: BTreeSet<QueueName>,
    /// The queues that the last scan found.
    found: BTreeSet<QueueName>,
    /// Keys that look like those of a queue and belong to another program. They were logged.
    foreign: BTreeSet<String>,
    sweeps: u32,
    /// Why the names of the queues cannot be read: their key has another type. It was logged.
    nameless: Option<BrokerError>,
    timetable: Arc<Timetable>,
    flows: Flows,
    /// The queues for which it was logged that dead letters cannot be written.
    unburied: Mutex<Repeats<String>>,
    /// Is told of each burial.
    burials: Option<UnboundedSender<Burial>>,
}

/// A call that a sweep has buried.
#[derive(Debug)]
#[cfg_attr(not(feature = "worker"), expect(dead_code))]
pub(crate) struct Burial {
    /// The name of the queue.
    pub(crate) queue: String,
    /// The id of the dead letter.
    pub(crate) letter: String,
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
    /// Outcomes of steps of flows, and what follows from them, that others had left.
    pub delivered: u64,
}

impl SweepReport {
    fn add(&mut self, other: Self) {
        self.requeued += other.requeued;
        self.buried += other.buried;
        self.balanced += other.balanced;
        self.promoted += other.promoted;
        self.delivered += other.delivered;
    }
}

/// Scans for unregistered queues.
async fn scan(broker: &Broker) -> Result<ScannedQueues, BrokerError> {
    broker.scan_queues(&[KeyKind::Processing, KeyKind::Notifications], Pace::Gentle).await
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

    /// Connects with these settings. Waits while Redis is loading its data.
    ///
    /// # Errors
    /// A setting is out of range, or Redis cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        config.sweeper.validate()?;
        config.dead.validate()?;
        let broker = Broker::connect_when_ready(&Target::new(&config.redis)?).await?;
        Ok(Self::with_broker(broker, config))
    }

    pub(crate) fn with_broker(broker: Broker, config: &Config) -> Self {
        let timetable = Arc::new(Timetable::new(broker.clone(), WorkerId::random()));
        // Steps that it enqueues are as certain as those of clients.
        let flows = Flows::new(broker.clone().durable(config.client.durability));
        let (registered, found, foreign) = Default::default();
        let unburied = Mutex::new(Repeats::new(1));
        Self {
            broker,
            config: config.sweeper.clone(),
            dead: config.dead.clone(),
            registered,
            found,
            foreign,
            sweeps: 0,
            nameless: None,
            unburied,
            burials: None,
            timetable,
            flows,
        }
    }

    /// Tells this timetable when calls are due, instead of one of its own.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn with_timetable(self, timetable: Arc<Timetable>) -> Self {
        Self { timetable, ..self }
    }

    /// Tells of each burial.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn with_burials(self, burials: Option<UnboundedSender<Burial>>) -> Self {
        Self { burials, ..self }
    }

    /// Sweeps until it is dropped, with pauses in between. A sweep that fails is logged and does not end it.
    ///
    /// Between sweeps it scans for unregistered queues, which takes one percent of Redis's time.
    ///
    /// Cancel-safe: each step is one script call.
    pub async fn run(mut self) {
        let timetable = Arc::clone(&self.timetable);
        let channels = match &self.config.queues[..] {
            [] => Channels::Matching(keys::due_channel("*")),
            queues => Channels::Named(queues.iter().map(|queue| keys::due_channel(queue.as_str())).collect()),
        };
        let listening = Arc::clone(&self.timetable).listen(channels, |_| {});
        tokio::select! {
            () = self.sweep_forever() => {}
            // Calls become due between sweeps too.
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
                        delivered = report.delivered,
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
                    // New queues are swept at once.
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => self.broker.outage().failed(SCAN, "", &error),
                }
            }
        }
    }

    /// Sweeps every queue once: first the registered ones, then those that a scan finds. A scan reads all keys of the database,
    /// with pauses in proportion. One sweep in fifteen scans, and so does the first.
    ///
    /// # Errors
    /// The error of the last queue that failed; the others were swept. If the names of the queues cannot be read because their key
    /// has another type, the queues that can be found were swept.
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
            match async { self.sweep_queue(&keys, self.broker.server_time(&keys).await?).await }.await {
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

    /// The queues among these that have anything to sweep: unused queues stay registered.
    async fn in_use(&self, queues: &BTreeSet<QueueName>) -> Result<Vec<QueueKeys>, BrokerError> {
        let queues: Vec<QueueKeys> = queues.iter().map(QueueKeys::new).collect();
        let mut in_use = Vec::new();
        for part in queues.chunks(AT_ONCE) {
            let used = self.broker.in_use(part).await?;
            in_use.extend(part.iter().zip(used).filter(|(_, used)| *used).map(|(keys, _)| keys.clone()));
        }
        Ok(in_use)
    }

    /// Adds what a scan has found. Returns whether there is a new queue.
    fn note(&mut self, found: ScannedQueues) -> bool {
        for key in found.foreign.difference(&self.foreign) {
            tracing::warn!(
                key,
                hint = "it has the name of a key of a queue, but holds something else",
                "key of another program left unchanged"
            );
        }
        self.foreign = found.foreign;
        let known = self.known();
        self.found = found.queues;
        !self.found.is_subset(&known)
    }

    /// The names of the registered queues; none if they cannot be read, which is logged once.
    async fn names(&mut self) -> Result<Option<Vec<String>>, BrokerError> {
        match self.broker.registered_queues().await {
            Ok(names) => {
                self.broker.outage().succeeded(NAMES, "");
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
                        hint = "known queues, and queues found by their keys, are still swept; use `--queue` for \
                            others",
                        "queue names cannot be read"
                    );
                }
                self.nameless = Some(error);
                Ok(None)
            }
            // The names are on one node of a Cluster: the queues of the others are swept.
            Err(error) if error.is_of_server() && self.broker.is_of_cluster() => {
                self.broker.outage().failed(NAMES, "", &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sweeps one queue once; `began` is now, by the server's clock.
    pub(crate) async fn sweep_queue(
        &self,
        keys: &QueueKeys,
        began: Duration,
    ) -> Result<SweepReport, BrokerError> {
        // Sent together: the steps do not depend on each other, since each requeued message gets its token.
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
        // Even if no token is missing: a token that was left in `Q_hand` is dropped.
        let mut is_even = gap == 0 && hand == 0;
        while !is_even {
            let changed = self.broker.balance(keys, gap).await?;
            report.balanced += changed;
            gap -= changed;
            is_even = gap == 0 || changed == 0;
        }
        report.promoted = promoted?;
        let strays = self.broker.sweep_parked(keys).await?;
        if strays > 0 {
            tracing::warn!(
                queue = keys.queue,
                messages = strays,
                "requeued parked messages that their limits do not know"
            );
        }
        report.delivered = self.flows.sweep(keys, began.as_millis() as u64).await?;
        forgotten.map(|()| report)
    }

    /// Requeues all messages of dead workers.
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
                if let Some(burials) = &self.burials {
                    let _ = burials.send(Burial { queue: keys.queue.clone(), letter: dead_letter.clone() });
                }
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
                    outbox = keys.outbox,
                    hint = "the key is not a stream, or the outbox cannot be written: rename or delete it",
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
