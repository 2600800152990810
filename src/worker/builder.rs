//! Configures a worker and connects it to Redis.

mod around;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::broker::{Broker, LeaseKeeper, Target};
#[cfg(feature = "client")]
use crate::client::Client;
use crate::config::{Backoff, Config, ConfigError, Prefetch, QueueLimit, QueueWeight, RedisConfig, Unknown};
use crate::error::Error;
use crate::isolation::{Isolation, Limits};
use crate::meter::Sources;
use crate::protocol::names::{QueueName, WorkerId};
use crate::runner::Zygote;
use crate::task::{Layers, Registry, States};
use crate::worker::executor::task_table::first_isolated;
use crate::worker::heartbeat::Heartbeat;
use crate::worker::hooks::Hooks;
use crate::worker::observe::EndedRun;
#[cfg(feature = "periodic")]
use crate::worker::periodic::Declared;
use crate::worker::phase::WorkerHandle;
use crate::worker::signals::Signals;
use crate::worker::stats::Counters;
use crate::worker::{Owned, Worker};

/// Builds a [`Worker`]. Every setting has a default: see [`WorkerConfig`](crate::config::WorkerConfig).
#[derive(Debug)]
pub struct WorkerBuilder {
    config: Config,
    /// Queues given to the builder; if empty, those of the configuration.
    queues: Vec<Result<QueueWeight, ConfigError>>,
    queue_limits: Vec<Result<QueueLimit, ConfigError>>,
    registry: Option<Registry>,
    states: States,
    program_version: Option<String>,
    layers: Layers,
    hooks: Hooks,
    signals: bool,
    owns_process: bool,
    zygote: Option<Zygote>,
    observer: Option<UnboundedSender<EndedRun>>,
    sources: Option<Sources>,
}

impl WorkerBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            queues: Vec::new(),
            queue_limits: Vec::new(),
            registry: None,
            states: States::new(),
            program_version: None,
            layers: Layers::default(),
            hooks: Hooks::default(),
            signals: false,
            owns_process: false,
            zygote: None,
            observer: None,
            sources: None,
        }
    }

    /// Adds a queue, such as `mail`, or `mail=3` with a weight. The first call replaces the configured queues. An invalid name is
    /// an error of [`connect`](Self::connect).
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Self {
        self.queues.push(queue.parse());
        self
    }

    /// Limits all calls of a queue, which this worker serves, by this limit, beside those that the calls and their tasks name. A name can
    /// be given for several queues, and several for one queue. An invalid name is an error of [`connect`](Self::connect).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), delayed::Error> {
    /// let worker = delayed::Worker::builder("redis://127.0.0.1:6379").queue("mail").queue_limit("mail", "smtp");
    /// # drop(worker);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn queue_limit(mut self, queue: &str, limit: &str) -> Self {
        self.queue_limits.push(format!("{queue}={limit}").parse());
        self
    }

    /// Sets how many calls run at the same time: 1 to 4096. Default: 10.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.config.worker.concurrency = concurrency;
        self
    }

    /// Sets how many calls are claimed in addition to those that run: a number, or [`Prefetch::Auto`], the default.
    #[must_use]
    pub fn prefetch(mut self, prefetch: impl Into<Prefetch>) -> Self {
        self.config.worker.prefetch = prefetch.into();
        self
    }

    /// Sets how long the worker counts as alive after its last heartbeat; after that, other workers get its calls: 1 s
    /// to 24 h. Default: 6 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.worker.lease = lease;
        self
    }

    /// Sets how long running calls may continue after a stop signal. Default: 25 s.
    #[must_use]
    pub fn shutdown(mut self, shutdown: Duration) -> Self {
        self.config.worker.shutdown = shutdown;
        self
    }

    /// Sets what happens to calls of tasks that this worker does not have. Default: [`Unknown::Bury`].
    #[must_use]
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.config.worker.unknown = unknown;
        self
    }

    /// Sets whether the worker also sweeps, taking turns with other workers. Default: true.
    #[must_use]
    pub fn sweep(mut self, sweep: bool) -> Self {
        self.config.worker.sweep = sweep;
        self
    }

    /// Makes the worker stop when all calls are settled and its queues are empty, or hold only calls that it put back. Default:
    /// false.
    #[must_use]
    pub fn burst(mut self, burst: bool) -> Self {
        self.config.worker.burst = burst;
        self
    }

    /// Makes each queue list its last `count` finished calls without a record, for dashboards: 1 to 100,000, none older than 7 days.
    /// [`Inspector::calls`](crate::Inspector::calls) shows them. Default: off.
    #[must_use]
    pub fn keep_finished(mut self, count: usize) -> Self {
        self.config.worker.keep_finished = Some(count);
        self
    }

    /// Sets where tasks without an isolation of their own run. Default: inline.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.config.worker.isolation = isolation;
        self
    }

    /// Sets the timeout of runs, for tasks and calls without their own. Default: none.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.worker.timeout = Some(timeout);
        self
    }

    /// Sets how long a run may continue after its timeout, to end by itself. Default:
    /// [`Timeouts::GRACE`](crate::isolation::Timeouts::GRACE).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.worker.grace = Some(grace);
        self
    }

    /// Sets how often a failed call is retried, if neither the call nor its task says how often or for how long. A negative
    /// number: without limit. Default: never.
    #[must_use]
    pub fn retry(mut self, retry: i64) -> Self {
        self.config.worker.retry = Some(retry);
        self
    }

    /// Sets for how long after its first failed attempt such a call is retried: without [`retry`](Self::retry), as often as its
    /// back-off allows until then. Default: no limit.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.config.worker.retry_for = Some(time);
        self
    }

    /// Sets how long a failed call waits before it is retried. Default: [`Backoff::default`].
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.worker.backoff = backoff;
        self
    }

    /// Sets the limits of the processes of isolated runs, for tasks without their own. Default: none.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.worker.limits = limits;
        self
    }

    /// Sets the tasks that the worker can run. Default: all tasks linked into the program, [`Registry::collect`].
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Shares a value with all tasks that have a [`State<T>`](crate::State) parameter. See [`States::insert_with`] and
    /// [`states`](Self::states) for a value that each process creates itself.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Shares all of these values with the tasks, in place of those given before.
    #[must_use]
    pub fn states(mut self, states: States) -> Self {
        self.states = states;
        self
    }

    /// Sets the version of the program, usually `env!("CARGO_PKG_VERSION")`. The command `workers` and
    /// [`Inspector::workers`](crate::Inspector::workers) show it next to that of this library. Default: none.
    #[must_use]
    pub fn program_version(mut self, version: impl Into<String>) -> Self {
        self.program_version = Some(version.into());
        self
    }

    /// Makes the worker handle signals, from [`connect`](Self::connect) on: SIGTERM, SIGINT and SIGHUP stop it, SIGUSR1 makes it
    /// quiet, and so does SIGTSTP until SIGCONT; in a terminal, Ctrl-Z suspends the process. Signals that the parent process
    /// ignores stay ignored, except SIGTERM. Default: false, because signals concern the whole process.
    #[must_use]
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Declares that the process exists for this worker only, so that a task must not exit it.
    #[cfg(feature = "cli")]
    pub(crate) fn owns_process(mut self) -> Self {
        self.owns_process = true;
        self
    }

    /// Counts the runs of the worker among these.
    #[cfg(feature = "metrics")]
    pub(crate) fn sources(mut self, sources: Sources) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Reports each run to `observer`, for a test. Isolated tasks then run in this process, a missing state fails the runs
    /// that need it, and calls stay in the timetable.
    #[cfg(feature = "testing")]
    pub(crate) fn observe(mut self, observer: UnboundedSender<EndedRun>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the zygote, which forks the processes of tasks with `isolation = "fork"` or `"prefork"`. A worker with such tasks does
    /// not start without it. Give the zygote the same registry and states.
    #[must_use]
    pub fn zygote(mut self, zygote: Zygote) -> Self {
        self.zygote = Some(zygote);
        self
    }

    /// Connects to Redis, and waits while Redis is loading its data. If a signal stops the worker in the meantime,
    /// [`Worker::run`] returns immediately.
    ///
    /// # Errors
    /// A setting is out of range; a queue name is invalid; there are no tasks, or two with one name; a state is missing; an
    /// isolated task has no [`zygote`](Self::zygote); Redis cannot be reached or used; or the heartbeat thread cannot be started.
    pub async fn connect(mut self) -> Result<Worker, Error> {
        if !self.queues.is_empty() {
            self.config.worker.queues = self.queues.into_iter().collect::<Result<_, _>>()?;
        }
        let limits: Vec<QueueLimit> = self.queue_limits.into_iter().collect::<Result<_, _>>()?;
        self.config.worker.queue_limits.extend(limits);
        self.config.validate()?;
        let registry = match self.registry {
            Some(registry) => registry,
            None => Registry::collect()?,
        };
        #[cfg(feature = "client")]
        self.states.insert_missing(Client::lazy_with_config(&self.config));
        if self.observer.is_none() {
            registry.check_states(&self.states)?;
        }
        if self.zygote.is_none()
            && self.observer.is_none()
            && let Some((task, isolation)) = first_isolated(&registry, &self.config.worker)
        {
            return Err(Error::NoZygote { task, isolation });
        }
        #[cfg(feature = "periodic")]
        let periodic = match self.observer {
            // A test looks at what it enqueues itself.
            Some(_) => Declared::default(),
            None => Declared::new(&registry, self.config.worker.queues.iter().map(|entry| &entry.queue))?,
        };
        let counters = Arc::new(Counters::default());
        let handle = WorkerHandle::new(self.config.worker.shutdown, Arc::clone(&counters));
        // Before anything that waits, so that no signal is missed.
        let signals = match self.signals {
            true => Some(Owned::spawn(Signals::listen().map_err(Error::Io)?.obey(handle.clone()))),
            false => None,
        };
        let target = Target::new(&self.config.redis)?;
        let heartbeat = LeaseKeeper::new(&target).and_then(Heartbeat::start).map_err(Error::Io)?;
        let broker = tokio::select! {
            biased;
            () = handle.told_to_stop() => None,
            broker = Broker::connect_when_ready(&target) => Some(broker?),
        };
        Ok(Worker {
            id: WorkerId::random(),
            handle,
            program_version: self.program_version,
            broker,
            heartbeat,
            registry,
            states: Arc::new(self.states),
            layers: self.layers,
            hooks: self.hooks,
            signals,
            owns_process: self.owns_process,
            zygote: self.zygote,
            #[cfg(feature = "periodic")]
            periodic,
            observer: self.observer,
            sources: self.sources,
            counters,
            config: self.config,
        })
    }
}

impl Worker {
    /// Builds a worker for the Redis at `url`.
    #[must_use]
    pub fn builder(url: &str) -> WorkerBuilder {
        WorkerBuilder::new(Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// Builds a worker with these settings.
    #[must_use]
    pub fn with_config(config: Config) -> WorkerBuilder {
        WorkerBuilder::new(config)
    }

    /// The queues of the worker, in order of preference.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.config.worker.queues.iter().map(|entry| &entry.queue)
    }
}
