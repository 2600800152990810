//! Claims calls and runs them. One file for each question; the loop that asks them all is `claim_loop.rs`.

mod attention;
mod backlog;
mod backoff;
mod batch;
mod blocking;
mod builder;
mod claim;
mod claim_loop;
mod clock;
mod closing;
mod dispatch;
mod doubt;
mod heartbeat;
pub(crate) mod known;
mod lane;
mod lane_state;
mod orders;
mod prefetch;
mod request;
mod settle;
mod shutdown;
mod slots;
mod stats;
mod sweep;
mod timeouts;
mod turn;
mod unburied;
mod verdict;
mod wait;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{join, try_join_all};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

pub use self::attention::runtime;
pub use self::builder::WorkerBuilder;
pub use self::shutdown::{StopReason, WorkerHandle};
pub use self::stats::Stats;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, DeadLimits, Order};
use crate::config::Config;
use crate::error::Error;
use crate::protocol::info::WorkerInfo;
use crate::protocol::names::WorkerId;
use crate::runner::{PoolOptions, Processes, Zygote};
use crate::sweeper::Sweeper;
use crate::sys;
use crate::task::{Cancellation, Registry, States};
use crate::worker::blocking::Shared;
use crate::worker::claim_loop::{ClaimLoop, Parts};
use crate::worker::heartbeat::{Beating, Heartbeat, Pulse};
use crate::worker::lane::Lane;
use crate::worker::orders::Orders;
use crate::worker::prefetch::Outlook;
use crate::worker::request::Sender;
use crate::worker::shutdown::Signals;
use crate::worker::slots::SPARES;
use crate::worker::stats::Counters;

/// How long the worker's last answers to orders may take.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Claims calls from queues and runs them.
///
/// ```no_run
/// # async fn example() -> Result<(), delayed::Error> {
/// let worker = delayed::Worker::builder("redis://127.0.0.1:6379").queue("mail").concurrency(64).connect().await?;
/// let handle = worker.handle(); // handle.stop() ends it from elsewhere
/// let stopped = worker.run().await?;
/// println!("{} calls succeeded", stopped.stats.succeeded);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    config: Config,
    broker: Broker,
    heartbeat: Heartbeat,
    registry: Registry,
    states: Arc<States>,
    signals: bool,
    zygote: Option<Zygote>,
    handle: WorkerHandle,
    counters: Arc<Counters>,
}

/// A task of the worker's: it ends with the worker's future, so that dropping that is like killing the worker.
struct Owned<T>(JoinHandle<T>);

impl<T: Send + 'static> Owned<T> {
    fn spawn(task: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }

    async fn join(mut self) -> T {
        (&mut self.0).await.expect("a task of the worker's own does not panic")
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// What it had done.
    pub stats: Stats,
    /// Functions that block and were still running: nothing can stop those but the end of the process. Their
    /// messages were put back.
    pub still_running: usize,
}

impl Worker {
    /// Its id, as it stands in Redis.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The means to stop it from elsewhere.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Runs until it is stopped. A tokio runtime of several threads serves it best, as [`runtime`] makes one.
    ///
    /// When Redis goes away it keeps what it holds, comes back with growing pauses, and settles then. Dropping the
    /// future is like killing the worker: what it owns is requeued when its lease ends.
    ///
    /// # Errors
    /// Redis cannot be used at the start, or the zygote was killed: then a sweeper brings back what had begun in processes, and
    /// what ran in this one has ended or was put back.
    pub async fn run(mut self) -> Result<Stopped, Error> {
        let zygote = self.zygote.take();
        let config = &self.config.worker;
        // Before anything else: from now on a signal is heard.
        let signals = match self.signals {
            true => Some(Owned::spawn(Signals::listen().map_err(Error::Io)?.obey(self.handle.clone()))),
            false => None,
        };
        let lanes: Vec<Arc<Lane>> = (config.queues.iter())
            .map(|entry| Arc::new(Lane::new(entry.queue.clone(), &self.id, config.slots() + SPARES)))
            .collect();
        once_more(|| self.broker.check_slot(lanes.iter().map(|lane| &lane.keys))).await?;
        let (done, ended) = unbounded_channel();
        let processes = match zygote {
            Some(zygote) => {
                Some(Processes::start(zygote, self.pool_options(), done.clone()).map_err(Error::Io)?)
            }
            None => None,
        };
        let (order, orders) = unbounded_channel();
        let pulse = self.pulse(&lanes, order);
        let found = Arc::clone(&pulse.found);
        let begun = self.heartbeat.begin(pulse);
        let registered = try_join_all(lanes.iter().map(|lane| register(&self.broker, lane)));
        let (registered, begun) = join(registered, begun).await;
        if let Err(error) = registered.and(begun) {
            self.retire(&lanes).await;
            return Err(error.into());
        }

        let death = processes.as_ref().map(|processes| {
            let (died, handle) = (processes.death(), self.handle.clone());
            Owned::spawn(async move {
                died.await;
                // What runs inline is innocent, and may end.
                handle.wind_down();
            })
        });

        let all_gone = processes.as_ref().map(Processes::end);

        let (say, said) = unbounded_channel();
        let answers = Owned::spawn(orders::say(self.broker.clone(), said));
        let shared = Shared { states: Arc::clone(&self.states), unheard: Cancellation::new() };
        let place = format!("{}/{}/{}", sys::host(), std::process::id(), self.id);
        let dead = DeadLimits { max_count: self.config.dead.max_count, max_age: self.config.dead.max_age };
        let parts = Parts {
            lanes: lanes
                .iter()
                .cloned()
                .zip(config.queues.iter().map(|entry| entry.weight.unwrap_or(0)))
                .collect(),
            concurrency: config.concurrency,
            slots: config.slots(),
            outlook: Outlook::new(config),
            sender: Sender { broker: self.broker.clone(), lease: config.lease, dead, place: place.into() },
            orders: Orders::new(orders, say),
            known: known::all(&self.registry, config),
            shared,
            unknown: config.unknown,
            counters: Arc::clone(&self.counters),
            phase: self.handle.watch(),
            burst: config.burst,
            done,
            ended,
            processes,
        };

        let sweeps = config.sweep.then(|| {
            let sweeper = self.config.sweeper.clone();
            // A short lease is of no use when nobody looks.
            let (interval, period) = (sweeper.interval, config.beat_period());
            let pace = if interval < period {
                sweep::Pace::Rests(interval)
            } else {
                sweep::Pace::Beats(found, period)
            };
            let sweeper = Sweeper::with_broker(self.broker.clone(), sweeper, self.config.dead.clone());
            Owned::spawn(sweep::run(self.broker.clone(), sweeper, lanes.clone(), self.id.clone(), pace))
        });

        let queues = self.queues().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        tracing::info!(worker = %self.id, %queues, concurrency = config.concurrency, tasks = self.registry.len(), redis = self.broker.address(), "serving");
        // A task of its own: a future that `block_on` polls would be woken from another thread each time.
        let ended = Owned::spawn(ClaimLoop::new(parts).run()).join().await;

        let zygote_died = death.is_some_and(|death| death.0.is_finished());
        drop((sweeps, signals));
        if let Some(all_gone) = all_gone {
            // They would lose whoever sees to their end when this process ends first.
            all_gone.await;
        }
        // The loop is gone, and what it had said is soon said to the end.
        let _ = tokio::time::timeout(LAST_ANSWERS, answers.join()).await;
        // Only now: a worker that drains still owns messages.
        self.retire(&lanes).await;
        let stats = self.counters.snapshot();
        if ended.still_running > 0 {
            tracing::warn!(
                runs = ended.still_running,
                "functions that block are still running; their messages were put back"
            );
        }
        tracing::info!(worker = %self.id, reason = ?ended.reason, succeeded = stats.succeeded, failed = stats.failed, retried = stats.retried, buried = stats.buried, put_back = stats.put_back, overdue = stats.overdue, lost = stats.lost, "stopped");
        if zygote_died {
            return Err(Error::ZygoteDied);
        }
        Ok(Stopped { reason: ended.reason, stats, still_running: ended.still_running })
    }

    fn pool_options(&self) -> PoolOptions {
        let prefork = &self.config.prefork;
        PoolOptions {
            children: prefork.children(&self.config.worker),
            runs: prefork.max_tasks.unwrap_or(u64::MAX),
            memory: prefork.max_memory,
            lasting: self.config.worker.limits.lasting(),
        }
    }

    fn pulse(&self, lanes: &[Arc<Lane>], orders: UnboundedSender<(usize, Order)>) -> Pulse {
        let config = &self.config.worker;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let info = WorkerInfo {
            host: sys::host(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: crate::protocol::VERSION,
            started_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
            concurrency: config.concurrency as u64,
            prefetch: (config.slots() - config.concurrency) as u64,
            queues: self.queues().map(ToString::to_string).collect(),
            lease_ms: u64::try_from(config.lease.as_millis()).unwrap_or(u64::MAX),
        };
        Pulse {
            lanes: lanes.iter().map(|lane| Beating::new(Arc::clone(lane))).collect(),
            worker: self.id.clone(),
            lease: config.lease,
            period: config.beat_period(),
            info: info.encode(),
            runtime: tokio::runtime::Handle::current(),
            found: Arc::default(),
            orders,
        }
    }

    /// Ends the lease for good.
    async fn retire(&mut self, lanes: &[Arc<Lane>]) {
        self.heartbeat.stop().await;
        // A Redis that is silent is asked once, and not once for each queue.
        if tokio::time::timeout(self.config.redis.timeout, self.resign(lanes)).await.is_err() {
            tracing::warn!("could not resign in time; the lease will run out");
        }
    }

    /// Ends the lease, so that what it should still own is requeued at once.
    async fn resign(&self, lanes: &[Arc<Lane>]) {
        let lease = self.config.worker.lease;
        for lane in lanes {
            let ids = lane.used_ids();
            for chunk in heartbeat::chunks(&ids) {
                if let Err(error) = self.broker.resign(lane.lease_keys(self.id.as_str()), lease, chunk).await
                {
                    tracing::warn!(queue = %lane.queue, %error, "could not resign; the lease will run out");
                    break;
                }
            }
        }
    }
}

/// Notes the queue for sweepers. Where Redis is full its messages shall be drained all the same; a sweeper finds it by its
/// keys.
async fn register(broker: &Broker, lane: &Lane) -> Result<(), BrokerError> {
    let queue = lane.queue.as_str();
    match once_more(|| broker.register_queue(queue)).await {
        Err(error) if error.kind() == BrokerErrorKind::Full => {
            tracing::warn!(queue = %lane.queue, %error, "the queue could not be registered");
            Ok(())
        }
        registered => registered,
    }
}

/// Asks again where there was no answer: the connection is as old as the worker and may have been closed since; the next has
/// not.
async fn once_more<F: Future<Output = Result<(), BrokerError>>>(
    ask: impl Fn() -> F,
) -> Result<(), BrokerError> {
    match ask().await {
        Err(error) if error.is_silence() => ask().await,
        answer => answer,
    }
}
