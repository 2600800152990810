//! How is a worker made?

use std::sync::Arc;
use std::time::Duration;

use crate::broker::{Broker, LeaseKeeper, Target};
use crate::config::{Config, ConfigError, Prefetch, QueueWeight, RedisConfig, Unknown};
use crate::error::Error;
use crate::isolation::{Isolation, Limits};
use crate::protocol::names::{QueueName, WorkerId};
use crate::runner::Zygote;
use crate::task::{Registry, States};
use crate::worker::Worker;
use crate::worker::heartbeat::Heartbeat;
use crate::worker::known::first_isolated;
use crate::worker::shutdown::WorkerHandle;
use crate::worker::stats::Counters;

/// Makes a [`Worker`]. Every setting has a default; see [`WorkerConfig`](crate::config::WorkerConfig).
#[derive(Debug)]
pub struct WorkerBuilder {
    config: Config,
    /// Queues that were named; none: those of the configuration.
    queues: Vec<Result<QueueWeight, ConfigError>>,
    registry: Option<Registry>,
    states: States,
    signals: bool,
    zygote: Option<Zygote>,
}

impl WorkerBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            queues: Vec::new(),
            registry: None,
            states: States::new(),
            signals: false,
            zygote: None,
        }
    }

    /// Serves a queue, such as `mail` or, with a weight, `mail=3`. May be repeated; the first time it takes the
    /// place of the configured queues. A name that is not allowed is an error of [`connect`](Self::connect).
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Self {
        self.queues.push(queue.parse());
        self
    }

    /// How many calls run at a time: 1 to 4096.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.config.worker.concurrency = concurrency;
        self
    }

    /// How many calls are claimed ahead, beyond those that run: a number, or [`Prefetch::Auto`], the default.
    #[must_use]
    pub fn prefetch(mut self, prefetch: impl Into<Prefetch>) -> Self {
        self.config.worker.prefetch = prefetch.into();
        self
    }

    /// How long Redis waits for a sign of life before what the worker owns is given to others: 1 s to 24 h.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.worker.lease = lease;
        self
    }

    /// How long running calls may go on after the worker was told to stop.
    #[must_use]
    pub fn shutdown(mut self, shutdown: Duration) -> Self {
        self.config.worker.shutdown = shutdown;
        self
    }

    /// What becomes of calls of tasks that this worker does not know.
    #[must_use]
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.config.worker.unknown = unknown;
        self
    }

    /// Whether the worker sweeps too, by turns with all others.
    #[must_use]
    pub fn sweep(mut self, sweep: bool) -> Self {
        self.config.worker.sweep = sweep;
        self
    }

    /// Whether the worker ends when all is settled and its queues are empty, or hold only calls that it put back.
    #[must_use]
    pub fn burst(mut self, burst: bool) -> Self {
        self.config.worker.burst = burst;
        self
    }

    /// Where tasks run that do not say. Default: inline.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.config.worker.isolation = isolation;
        self
    }

    /// How long a run may go on, of a task or a call that does not say. Default: without end.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.worker.timeout = Some(timeout);
        self
    }

    /// How long a run then has to end by itself. Default: [`Timeouts::GRACE`](crate::isolation::Timeouts::GRACE).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.worker.grace = Some(grace);
        self
    }

    /// What the process of an isolated run may use, where its task does not say. Default: all that there is.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.worker.limits = limits;
        self
    }

    /// The tasks that it can run. Default: all that are linked, [`Registry::collect`].
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Gives tasks a value for their [`State<T>`](crate::State) parameters.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Gives tasks all of these values, and none that were given before.
    #[must_use]
    pub fn states(mut self, states: States) -> Self {
        self.states = states;
        self
    }

    /// Whether the worker obeys signals: SIGTERM, SIGINT and SIGHUP stop it, SIGUSR1 and SIGTSTP make it quiet.
    /// Default: false, since signals belong to the whole process.
    #[must_use]
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// The process that forks those in which tasks run with `isolation = "fork"` or `"prefork"`; a worker with such
    /// tasks does not start without one. Give it the same registry and states.
    #[must_use]
    pub fn zygote(mut self, zygote: Zygote) -> Self {
        self.zygote = Some(zygote);
        self
    }

    /// Connects to Redis. One that is loading its data is waited for.
    ///
    /// # Errors
    /// A setting out of its range, a name that no queue may have, no tasks or two of one name, a state that is missing, a task
    /// with a process of its own and no [`zygote`](Self::zygote), a Redis that cannot be reached or used, or the thread that beats
    /// cannot be started.
    pub async fn connect(mut self) -> Result<Worker, Error> {
        if !self.queues.is_empty() {
            self.config.worker.queues = self.queues.into_iter().collect::<Result<_, _>>()?;
        }
        self.config.validate()?;
        let registry = match self.registry {
            Some(registry) => registry,
            None => Registry::collect()?,
        };
        registry.check_states(&self.states)?;
        if self.zygote.is_none()
            && let Some((task, isolation)) = first_isolated(&registry, &self.config.worker)
        {
            return Err(Error::NoZygote { task, isolation });
        }
        let target = Target::new(&self.config.redis)?;
        let heartbeat = Heartbeat::start(LeaseKeeper::new(&target)).map_err(Error::Io)?;
        let broker = Broker::connect_when_ready(&target).await?;
        let counters = Arc::new(Counters::default());
        Ok(Worker {
            id: WorkerId::random(),
            handle: WorkerHandle::new(self.config.worker.shutdown, Arc::clone(&counters)),
            broker,
            heartbeat,
            registry,
            states: Arc::new(self.states),
            signals: self.signals,
            zygote: self.zygote,
            counters,
            config: self.config,
        })
    }
}

impl Worker {
    /// Begins a worker for the Redis at `url`.
    #[must_use]
    pub fn builder(url: &str) -> WorkerBuilder {
        WorkerBuilder::new(Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// Begins a worker with these settings.
    #[must_use]
    pub fn with_config(config: Config) -> WorkerBuilder {
        WorkerBuilder::new(config)
    }

    /// The queues that it serves, in order of preference.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.config.worker.queues.iter().map(|entry| &entry.queue)
    }
}
