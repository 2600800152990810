//! Claims calls and runs them. Start with [`Worker::builder`].

mod builder;
mod busy_poll;
mod decide;
mod description;
mod event_loop;
mod executor;
mod exits;
mod failures;
mod finished;
mod heartbeat;
mod hint;
mod history;
mod hooks;
mod last_sweep;
mod notes;
// Only tests read this.
#[cfg_attr(not(feature = "testing"), allow(dead_code))]
mod observe;
mod outbox;
#[cfg(feature = "periodic")]
mod periodic;
mod permits;
mod phase;
mod prefetch_limiter;
mod publish;
mod question;
mod queue;
mod register;
mod settlement;
mod signals;
#[cfg(feature = "testing")]
mod single;
mod stats;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join4, try_join_all};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

pub use self::builder::WorkerBuilder;
pub use self::busy_poll::runtime;
#[cfg(feature = "cli")]
pub(crate) use self::executor::task_table::first_isolated;
pub use self::hooks::RunReport;
#[cfg(feature = "cli")]
pub(crate) use self::hooks::{Hooks, When};
pub(crate) use self::observe::EndedRun;
#[cfg(feature = "testing")]
pub(crate) use self::observe::Next;
pub use self::phase::{StopReason, WorkerHandle};
#[cfg(feature = "testing")]
pub(crate) use self::single::run_single;
pub use self::stats::Stats;

use crate::broker::{Broker, Channels, DeadLimits, KillRequest};
use crate::config::Config;
use crate::error::Error;
use crate::meter::{LastBeat, Sources};
use crate::protocol::names::WorkerId;
use crate::runner::{PoolOptions, Processes, Zygote};
use crate::sweeper::{Burial, Sweeper, Timetable};
use crate::sys;
use crate::task::progress::Reporter;
use crate::task::{Cancellation, Layers, Registry, States};
use crate::worker::decide::Policy;
use crate::worker::description::Description;
use crate::worker::event_loop::{EventLoop, KillChannels, Parts, Questions, answer_all};
use crate::worker::executor::task_table::TaskTable;
use crate::worker::executor::{ExecutorParts, Shared};
use crate::worker::finished::FinishedCalls;
use crate::worker::heartbeat::{BeatParts, BeatingQueue, Heartbeat};
use crate::worker::last_sweep::LastSweep;
use crate::worker::outbox::Outbox;
use crate::worker::permits::{HeldLimits, Permits};
use crate::worker::prefetch_limiter::PrefetchLimiter;
use crate::worker::queue::pause::PauseEvent;
use crate::worker::queue::served::ServedQueue;
use crate::worker::queue::{QueueParts, SPARES, Sender};
use crate::worker::register::register;
use crate::worker::stats::Counters;

/// How long the final replies to kill requests may take.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long hooks for the burials of its last sweep may take.
const LAST_HOOKS: Duration = Duration::from_secs(10);

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
    program_version: Option<String>,
    /// `None` if the worker was told to stop before it connected.
    broker: Option<Broker>,
    heartbeat: Heartbeat,
    registry: Registry,
    states: Arc<States>,
    layers: Layers,
    hooks: hooks::Hooks,
    /// Receives signals as long as it exists.
    signals: Option<Owned<()>>,
    owns_process: bool,
    zygote: Option<Zygote>,
    /// The periodic tasks that the program declares.
    #[cfg(feature = "periodic")]
    periodic: periodic::Declared,
    /// For tests: receives each run. The timetable is then left to the test.
    observer: Option<UnboundedSender<EndedRun>>,
    /// Counts its runs, if somebody shows its metrics.
    sources: Option<Sources>,
    handle: WorkerHandle,
    counters: Arc<Counters>,
}

/// A background task of the worker. It ends with the worker's future, so that dropping the future is like killing the
/// worker.
#[derive(Debug)]
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
    /// Why it ended.
    pub reason: StopReason,
    /// What it did.
    pub stats: Stats,
    /// Blocking functions that were still running. Only the end of the process can stop them. Their messages were put back.
    pub still_running: usize,
}

impl Worker {
    /// The id of the worker in Redis.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// A handle that stops the worker from elsewhere.
    #[must_use]
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Runs until the worker is stopped. A multi-threaded tokio runtime suits it best, such as [`runtime`] builds.
    ///
    /// When Redis becomes unreachable, the worker keeps its messages, reconnects with growing pauses, and then settles
    /// them. Dropping the future is like killing the worker: its messages are requeued when its lease ends.
    ///
    /// # Errors
    /// Redis cannot be used at the start, or the zygote was killed. In the second case, a sweeper requeues the calls that
    /// had begun in processes; runs in this process have ended or were put back.
    pub async fn run(mut self) -> Result<Stopped, Error> {
        if self.observer.is_none() {
            hint::show_without_subscriber();
        }
        let Some(broker) = self.broker.take() else { return Ok(self.stopped(StopReason::Requested, 0)) };
        let (zygote, signals, handle) = (self.zygote.take(), self.signals.take(), self.handle.clone());
        let config = &self.config.worker;
        let queues: Vec<Arc<ServedQueue>> = (config.queues.iter())
            .map(|entry| {
                let limits = config.queue_limits.iter().filter(|limit| limit.queue == entry.queue);
                let limits = limits.map(|entry| entry.limit.clone()).collect();
                let queue = ServedQueue::new(entry.queue.clone(), &self.id, config.slots() + SPARES);
                Arc::new(queue.limited(limits))
            })
            .collect();
        queues.iter().try_for_each(|queue| broker.check_slot(&queue.keys))?;
        let (done, ended) = unbounded_channel();
        let processes = match zygote {
            Some(zygote) => {
                Some(Processes::start(zygote, self.pool_options(), done.clone()).map_err(Error::Io)?)
            }
            None => None,
        };
        let (kill, kills) = unbounded_channel();
        let questions = Questions::default();
        let (paused, pauses) = unbounded_channel();
        let held = Arc::new(HeldLimits::default());
        let beats = self.beat_parts(&queues, kill, paused.clone(), &questions, Arc::clone(&held));
        let (found, last_beat) = (Arc::clone(&beats.found), beats.last.clone());
        let begun = self.heartbeat.begin(beats);
        let registered = try_join_all(queues.iter().map(|queue| register(&broker, queue)));
        let published = publish::publish(&broker, &self.registry);
        let started = tokio::select! {
            biased;
            () = handle.told_to_stop() => None,
            ((registered, begun), ()) = join(join(registered, begun), published) => Some(registered.and(begun)),
        };
        match started {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.retire(&broker, &queues).await;
                return Err(error.into());
            }
            None => {
                // The worker owns nothing. If Redis does not answer, the lease expires.
                let _ = tokio::time::timeout(LAST_ANSWERS, self.retire(&broker, &queues)).await;
                return Ok(self.stopped(StopReason::Requested, 0));
            }
        }
        let config = &self.config.worker;

        let zygote_died = Arc::new(AtomicBool::new(false));
        let death = processes.as_ref().map(|processes| {
            let (died, handle, fact) = (processes.death(), self.handle.clone(), Arc::clone(&zygote_died));
            Owned::spawn(async move {
                died.await;
                // First: an idle worker has ended before this task has.
                fact.store(true, Ordering::SeqCst);
                // Inline runs did not cause this and may finish.
                handle.wind_down();
            })
        });

        let all_gone = processes.as_ref().map(Processes::end);

        let timetable = Arc::new(Timetable::new(broker.clone(), self.id.clone()));
        let channels = queues.iter().flat_map(|queue| [&queue.keys.due_channel, &queue.keys.paused_channel]);
        let channels = Channels::Named(channels.cloned().collect());
        #[cfg(feature = "periodic")]
        let declaring = self.periodic.declare(&broker).await;
        // Some calls may be due by now.
        queues.iter().for_each(|queue| timetable.note(&queue.keys, Duration::ZERO));
        let listening = Owned::spawn(Arc::clone(&timetable).listen(channels, move |notice| {
            let _ = paused.send(notice.map_or(PauseEvent::Listening, PauseEvent::Published));
        }));
        let promoting = self.observer.is_none().then(|| Owned::spawn(Arc::clone(&timetable).run()));

        let (answer, answered) = unbounded_channel();
        let answers = Owned::spawn(answer_all(broker.clone(), answered));
        let (note, said) = unbounded_channel();
        let noting = Owned::spawn(notes::write_all(broker.clone(), queues.clone(), said));
        let (finished, listing) = config
            .keep_finished
            .map(|most| {
                let (finished, listed) = FinishedCalls::new();
                let listing = finished::list_all(broker.clone(), queues.clone(), most, listed);
                (finished, Owned::spawn(listing))
            })
            .unzip();
        let (burials, burying) = self
            .hooks
            .are_for_burials()
            .then(|| {
                let (burials, buried) = unbounded_channel();
                let (broker, queues, hooks) = (broker.clone(), queues.clone(), self.hooks.clone());
                (burials, Owned::spawn(hooks::call_for_burials(broker, queues, hooks, buried)))
            })
            .unzip();
        let (permits, telling) = Permits::new(broker.clone(), config.lease, held);
        let telling = Owned::spawn(telling);
        let (outbox, delivering) =
            Outbox::new(broker.clone().durable(self.config.client.durability), queues.clone());
        let delivering = Owned::spawn(delivering);
        let running = Arc::clone(&questions.running);
        let dead = DeadLimits { max_count: self.config.dead.max_count, max_age: self.config.dead.max_age };
        let place = format!("{}/{}/{}", sys::host(), std::process::id(), self.id);
        let weights = config.queues.iter().map(|entry| entry.weight.unwrap_or(0));
        let tasks = TaskTable::new(&self.registry, config);
        let history = history::History::new(&broker, &queues, tasks.tallies(), self.program_version.as_ref());
        let source = self.sources.as_ref().map(|sources| {
            let names = queues.iter().map(|queue| queue.queue.to_string()).collect();
            sources.add(names, tasks.names(), config.concurrency, last_beat)
        });
        let parts = Parts {
            queues: QueueParts {
                served: queues.iter().cloned().zip(weights).collect(),
                slots: config.slots(),
                sender: Sender { broker: broker.clone(), lease: config.lease, dead, place: place.into() },
                timetable: Arc::clone(&timetable),
                outbox: outbox.clone(),
                pauses,
                counters: Arc::clone(&self.counters),
                is_burst: config.burst,
            },
            executor: ExecutorParts {
                queues: queues.clone(),
                lease: config.lease,
                concurrency: config.concurrency,
                limiter: PrefetchLimiter::new(config),
                tasks,
                shared: Shared {
                    states: Arc::clone(&self.states),
                    layers: self.layers.clone(),
                    reporter: Some(Reporter::new(move |said| drop(note.send(said)))),
                    unheard: Cancellation::new(),
                },
                processes,
                done,
                ended,
            },
            permits,
            kills: KillChannels { requests: kills, answers: answer },
            policy: Policy::of(config),
            counters: Arc::clone(&self.counters),
            observer: self.observer.take(),
            hooks: self.hooks.clone(),
            source: source.clone(),
            finished,
            phase: self.handle.watch(),
            questions,
            is_burst: config.burst,
            last_sweep: LastSweep::new(
                broker.clone(),
                (config.burst && config.sweep).then(|| self.sweeper(&broker, &burials)),
                outbox,
            ),
        };

        let sweeps = config.sweep.then(|| {
            // A short lease is useless unless somebody sweeps.
            let (interval, period) = (self.config.sweeper.interval, config.beat_period());
            let pace = if interval < period {
                sweep::Pace::Rests(interval)
            } else {
                sweep::Pace::Beats(found, period)
            };
            let sweeper = self.sweeper(&broker, &burials).with_timetable(Arc::clone(&timetable));
            Owned::spawn(sweep::run(broker.clone(), sweeper, queues.clone(), self.id.clone(), pace))
        });

        let exits = exits::Watch::begin(exits::Serving {
            worker: self.id.clone(),
            queues: queues.clone(),
            handle: handle.clone(),
            question: running,
            owns_process: self.owns_process,
        });
        if cfg!(panic = "abort") {
            tracing::warn!(
                hint = "compile with panic = \"unwind\", or give tasks isolation = \"fork\"",
                "a panic of an inline task ends this worker"
            );
        }
        let names = self.queues().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        tracing::info!(worker = %self.id, queues = %names, concurrency = config.concurrency, tasks = self.registry.len(), redis = broker.address(), "serving");
        handle.set_serving();
        let publishing = publish::keep_publishing(broker.clone(), self.registry.clone());
        let publishing = Owned::spawn(join(publishing, Arc::clone(&history).keep()));
        // Spawned, because a future polled by `block_on` would be woken from another thread each time.
        let ended = Owned::spawn(EventLoop::new(parts).run()).join().await;

        drop(death);
        let zygote_died = zygote_died.load(Ordering::SeqCst);
        #[cfg(feature = "periodic")]
        drop(declaring);
        drop((sweeps, burials, promoting, listening, publishing, signals));
        if let Some(all_gone) = all_gone {
            // Wait, or nobody reaps the children.
            all_gone.await;
        }
        if ended.reason == StopReason::Drained {
            self.tell_scheduled(&broker, &queues).await;
        }
        // The loop has ended, so the listing soon receives its last entry.
        let lists = join(OptionFuture::from(listing.map(Owned::join)), history.write());
        let last = join4(answers.join(), noting.join(), telling.join(), lists);
        let _ = tokio::time::timeout(LAST_ANSWERS, last).await;
        // What is not delivered by then is delivered by a sweep.
        let _ = tokio::time::timeout(LAST_ANSWERS, delivering.join()).await;
        // A hook for a burial belongs to the program: it is waited for longer.
        let burying = OptionFuture::from(burying.map(Owned::join));
        let _ = tokio::time::timeout(LAST_HOOKS, burying).await;
        // Not earlier: a draining worker still owns messages.
        self.retire(&broker, &queues).await;
        if ended.still_running > 0 {
            tracing::warn!(
                runs = ended.still_running,
                "blocking functions still run; their messages were put back"
            );
        }
        drop(exits);
        let stopped = self.stopped(ended.reason, ended.still_running);
        if zygote_died { Err(Error::ZygoteDied) } else { Ok(stopped) }
    }

    /// Logs the end of the worker.
    fn stopped(&self, reason: StopReason, still_running: usize) -> Stopped {
        let stats = self.counters.snapshot();
        tracing::info!(worker = %self.id, ?reason, succeeded = stats.succeeded, failed = stats.failed, retried = stats.retried, snoozed = stats.snoozed, cancelled = stats.cancelled, buried = stats.buried, put_back = stats.put_back, overdue = stats.overdue, lost = stats.lost, "stopped");
        Stopped { reason, stats, still_running }
    }

    fn sweeper(&self, broker: &Broker, burials: &Option<UnboundedSender<Burial>>) -> Sweeper {
        Sweeper::with_broker(broker.clone(), &self.config).with_burials(burials.clone())
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

    fn beat_parts(
        &self,
        queues: &[Arc<ServedQueue>],
        kills: UnboundedSender<(usize, KillRequest)>,
        pauses: UnboundedSender<PauseEvent>,
        questions: &Questions,
        permits: Arc<HeldLimits>,
    ) -> BeatParts {
        let config = &self.config.worker;
        let (version, question) = (self.program_version.clone(), Arc::clone(&questions.long_runs));
        #[cfg(feature = "periodic")]
        let periodic = queues.iter().map(|queue| self.periodic.names(&queue.queue)).collect();
        #[cfg(not(feature = "periodic"))]
        let periodic = Vec::new();
        BeatParts {
            queues: queues.iter().map(|queue| BeatingQueue::new(Arc::clone(queue))).collect(),
            worker: self.id.clone(),
            lease: config.lease,
            period: config.beat_period(),
            description: Description::new(config, version, self.handle.clone(), question, periodic),
            permits,
            last: LastBeat::default(),
            runtime: tokio::runtime::Handle::current(),
            found: Arc::default(),
            kills,
            pauses,
        }
    }

    /// Logs how many scheduled calls its queues hold. They are left to other workers.
    async fn tell_scheduled(&self, broker: &Broker, queues: &[Arc<ServedQueue>]) {
        for queue in queues {
            if let Ok([.., scheduled]) = broker.lengths(&queue.keys).await
                && scheduled > 0
            {
                tracing::info!(queue = %queue.queue, scheduled, hint = "a worker or sweeper must be running then", "calls are scheduled for later");
            }
        }
    }

    /// Ends the lease for good.
    async fn retire(&mut self, broker: &Broker, queues: &[Arc<ServedQueue>]) {
        self.heartbeat.stop().await;
        // If Redis does not answer, wait for one timeout, not for one per queue.
        if tokio::time::timeout(self.config.redis.timeout, self.resign(broker, queues)).await.is_err() {
            tracing::warn!(worker = %self.id, "deregistration timed out; the lease expires by itself");
        }
    }

    /// Ends the lease, so that messages which the worker still owns are requeued at once.
    async fn resign(&self, broker: &Broker, queues: &[Arc<ServedQueue>]) {
        let lease = self.config.worker.lease;
        for queue in queues {
            let ids = queue.used_ids();
            for chunk in heartbeat::chunks(&ids) {
                if let Err(error) = broker.resign(queue.lease_keys(self.id.as_str()), lease, chunk).await {
                    tracing::warn!(queue = %queue.queue, %error, "deregistration failed; the lease expires by itself");
                    if error.is_silence() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}
