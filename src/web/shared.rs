//! Holds what all requests share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{Mutex, OnceCell, Semaphore, watch};

use super::access::DashboardAccess;
use super::failure::Failure;
use super::jobs::Jobs;
use super::refusals::Refusals;
use crate::config::Config;
use crate::error::Error;
use crate::gateway::Gateway;
use crate::inspect::{History, HistorySpan, Inspector, QueueStatus, WorkerCounts, WorkerStatus};
use crate::protocol::names::QueueName;

/// How long what was read from Redis is shown to others: queues and workers, and histories.
const FRESH: Duration = Duration::from_secs(1);
const HISTORY_FRESH: Duration = Duration::from_secs(10);
/// How often is looked for queues that are not registered. The whole database is scanned for them.
const SCAN: Duration = Duration::from_secs(60);
/// How many queues are read at the same time.
const TOGETHER: usize = 32;
/// How many passwords are checked at a time: each takes 19 MiB.
const LOGINS: usize = 2;
/// How many passwords are checked or wait for it. Others are refused.
const LOGIN_PLACES: usize = 16;
/// How many characters of arguments are shown in a list.
pub(super) const SHORT: usize = 200;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    config: Config,
    /// Makes calls, as if they came over HTTP.
    pub(super) gateway: Gateway,
    pub(super) access: DashboardAccess,
    pub(super) allows_actions: bool,
    /// Whether only names of this machine are right.
    pub(super) is_local: bool,
    inspector: OnceCell<Inspector>,
    names: Mutex<Names>,
    queues: Cached<Vec<QueueStatus>>,
    workers: Cached<Vec<WorkerStatus>>,
    counts: Cached<WorkerCounts>,
    histories: [Cached<History>; 3],
    pub(super) jobs: Arc<Jobs>,
    pub(super) logins: Semaphore,
    /// Places for passwords that are checked, and that wait for it.
    pub(super) login_places: Semaphore,
    pub(super) refusals: Refusals,
    /// Whether the dashboard stops.
    pub(super) stops: watch::Sender<bool>,
}

/// The names of queues.
#[derive(Debug, Default)]
struct Names {
    /// When the whole database was scanned for them, and what was found.
    scanned: Option<(Instant, Vec<QueueName>)>,
    /// When they could not be read: those who wait meanwhile do not try again one after the other.
    failed: Option<(Instant, Failure)>,
}

/// What was read from Redis last. Whoever wants to know it meanwhile waits for the same read.
#[derive(Debug)]
struct Cached<T>(Mutex<Option<Read<T>>>);

/// When something was read, and what.
type Read<T> = (Instant, Result<Arc<T>, Failure>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Cached<T> {
    async fn get(
        &self,
        fresh: Duration,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        let mut last = self.0.lock().await;
        if let Some((since, value)) = &*last
            && since.elapsed() < fresh
        {
            return value.clone();
        }
        let value = read.await.map(Arc::new);
        *last = Some((Instant::now(), value.clone()));
        value
    }

    /// Forgets it, because something has changed.
    async fn clear(&self) {
        *self.0.lock().await = None;
    }
}

impl Names {
    async fn read(&mut self, inspector: &Inspector) -> Result<Vec<QueueName>, Error> {
        if let Some((since, names)) = &self.scanned
            && since.elapsed() < SCAN
        {
            let mut names = names.clone();
            names.extend(inspector.registered_names().await?);
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
        let names: Vec<QueueName> = inspector.queue_names().await?.into_iter().collect();
        self.scanned = Some((Instant::now(), names.clone()));
        Ok(names)
    }
}

impl Shared {
    pub(super) fn new(
        config: Config,
        gateway: Gateway,
        access: DashboardAccess,
        allows_actions: bool,
        is_local: bool,
    ) -> Self {
        Self {
            config,
            gateway,
            access,
            allows_actions,
            is_local,
            inspector: OnceCell::new(),
            names: Mutex::default(),
            queues: Cached::default(),
            workers: Cached::default(),
            counts: Cached::default(),
            histories: Default::default(),
            jobs: Arc::default(),
            logins: Semaphore::new(LOGINS),
            login_places: Semaphore::new(LOGIN_PLACES),
            refusals: Refusals::default(),
            stops: watch::Sender::new(false),
        }
    }

    pub(super) async fn inspector(&self) -> Result<&Inspector, Failure> {
        let connect = || Inspector::with_config(&self.config);
        Ok(self.inspector.get_or_try_init(connect).await?)
    }

    /// The names of all queues, sorted.
    pub(super) async fn queue_names(&self) -> Result<Vec<QueueName>, Failure> {
        let inspector = self.inspector().await?;
        let mut known = self.names.lock().await;
        if let Some((since, failure)) = &known.failed
            && since.elapsed() < FRESH
        {
            return Err(failure.clone());
        }
        let names = known.read(inspector).await.map_err(Failure::from);
        known.failed = names.as_ref().err().map(|failure| (Instant::now(), failure.clone()));
        names
    }

    /// All queues, sorted by name.
    pub(super) async fn queues(&self) -> Result<Arc<Vec<QueueStatus>>, Failure> {
        let read = async {
            let inspector = self.inspector().await?;
            let names = self.queue_names().await?;
            let reads = stream::iter(names.into_iter().map(|name| {
                let inspector = inspector.clone();
                async move { inspector.queue(&name).await }
            }));
            Ok(reads.buffered(TOGETHER).try_collect().await?)
        };
        self.queues.get(FRESH, read).await
    }

    /// The names of the queues that can be read.
    async fn readable(&self) -> Result<Vec<QueueName>, Failure> {
        let queues = self.queues().await?;
        let names = queues.iter().filter(|queue| queue.problem.is_none());
        Ok(names.filter_map(|queue| QueueName::parse(&queue.queue).ok()).collect())
    }

    /// How many workers are alive, and how many have died and were not swept yet.
    pub(super) async fn worker_counts(&self) -> Result<Arc<WorkerCounts>, Failure> {
        let read = async {
            let names = self.readable().await?;
            Ok(self.inspector().await?.worker_counts(&names).await?)
        };
        self.counts.get(FRESH, read).await
    }

    /// All workers.
    pub(super) async fn workers(&self) -> Result<Arc<Vec<WorkerStatus>>, Failure> {
        let read = async {
            let names = self.readable().await?;
            if names.is_empty() {
                return Ok(Vec::new());
            }
            let mut workers = self.inspector().await?.workers(&names, SHORT).await?;
            // Only the text of the arguments is shown, and they may be large.
            for run in workers.iter_mut().flat_map(|worker| &mut worker.running) {
                (run.message.arguments, run.message.keywords) = (None, None);
            }
            Ok(workers)
        };
        self.workers.get(FRESH, read).await
    }

    /// How many calls of all queues have ended.
    pub(super) async fn history(&self, span: HistorySpan) -> Result<Arc<History>, Failure> {
        let read = async {
            let names = self.queue_names().await?;
            Ok(self.inspector().await?.history(&names, span).await?)
        };
        let kept = match span {
            HistorySpan::Hour => 0,
            HistorySpan::Day => 1,
            HistorySpan::Week => 2,
        };
        self.histories[kept].get(HISTORY_FRESH, read).await
    }

    /// Forgets what it has read, because somebody has changed something.
    pub(super) async fn refresh(&self) {
        self.queues.clear().await;
        self.workers.clear().await;
        self.counts.clear().await;
    }

    /// Resolves when the dashboard stops.
    pub(super) async fn stopping(&self) {
        let mut stops = self.stops.subscribe();
        let _ = stops.wait_for(|stops| *stops).await;
    }
}
