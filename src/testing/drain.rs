//! Runs the calls that wait, in the process of the test.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

#[cfg(feature = "cli")]
use crate::app::App;
use crate::config::Unknown;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::{NameError, QueueName};
use crate::task::States;
use crate::testing::connection::Connection;
use crate::testing::run::{Run, Runs};
use crate::testing::timetable::advance;
use crate::worker::{EndedRun, Worker};

/// Runs the calls that wait in their queues, and those that they enqueue, until none is left: `redis.drain().await`, or
/// [`blocking`](Self::blocking) from a thread that may block. Returns the [`Runs`].
///
/// ```standalone_crate
/// use delayed::State;
/// use delayed::testing::Redis;
///
/// struct Greeting(&'static str);
///
/// mod tasks {
///     #[delayed::task(queue = "mail", retry = 1)]
///     pub async fn greet(name: String, greeting: delayed::State<super::Greeting>) -> Result<(), String> {
///         Err(format!("{} {name}, but there is no network", greeting.0))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), delayed::Error> {
/// let redis = Redis::start().await;
/// redis.client().enqueue(tasks::greet::call("ann".into())).await?;
/// let runs = redis.drain().queue("mail").state(Greeting("Hello")).await;
/// assert_eq!(runs[0].error(), Some("Hello ann, but there is no network"));
/// assert!(runs[0].delay().is_some());
/// # Ok(()) }
/// ```
///
/// A worker of this process claims and settles the calls as everywhere, with all tasks that are linked into the test. Some things
/// differ, so that a test is quick and its result always the same:
///
/// - One call runs at a time, unless [`concurrency`](Self::concurrency) says otherwise.
/// - Calls that are due when it begins run. Others stay in the timetable, also retries after a back-off, until
///   [`Redis::advance`](crate::testing::Redis::advance).
/// - Tasks with `isolation = "fork"` or `"prefork"` run in this process, without their limits. A plain `fn` that is out of time
///   cannot be stopped, and one that crashes takes the test down.
/// - Calls of tasks that this program does not have, such as those of Python functions, stay in their queues.
/// - A run that asks for a [`State`](crate::State) that it was not given panics; the other tasks need none.
///
/// # Panics
/// Redis cannot be used, the program has no task, or the name of a queue is invalid. The panic of a task is an outcome.
#[derive(Debug)]
#[must_use = "nothing runs until it is awaited, or `blocking` is called"]
pub struct Drain<'a> {
    redis: &'a Connection,
    queues: Vec<Result<QueueName, NameError>>,
    states: States,
    concurrency: usize,
}

impl<'a> Drain<'a> {
    pub(super) fn new(redis: &'a Connection) -> Self {
        Self { redis, queues: Vec::new(), states: States::new(), concurrency: 1 }
    }

    /// Adds a queue. Without any, all queues are drained.
    pub fn queue(mut self, name: &str) -> Self {
        self.queues.push(QueueName::parse(name));
        self
    }

    /// Shares a value with the tasks, as [`App::state`](crate::App::state) does.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Shares all of these values with the tasks, in place of those given before.
    pub fn states(mut self, states: States) -> Self {
        self.states = states;
        self
    }

    /// Shares the values of a program with the tasks, in place of those given before.
    #[cfg(feature = "cli")]
    pub fn app(self, app: App) -> Self {
        self.states(app.into_parts().states)
    }

    /// Sets how many calls run at the same time, for calls that wait for each other. Default: 1.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Drains the queues, from a thread that may block.
    ///
    /// # Panics
    /// See [`Drain`].
    #[must_use = "a run that failed is no panic: see `Runs::expect_success`"]
    pub fn blocking(self) -> Runs {
        self.redis.wait(self.owned().run())
    }

    fn owned(&self) -> Owned {
        let names = self.queues.iter().cloned().collect::<Result<Vec<_>, _>>();
        Owned {
            inspector: self.redis.inspector(),
            url: self.redis.url().to_owned(),
            queues: names.unwrap_or_else(|error| panic!("delayed::testing::Drain: {error}")),
            states: self.states.clone(),
            concurrency: self.concurrency,
        }
    }
}

impl IntoFuture for Drain<'_> {
    type Output = Runs;
    type IntoFuture = Pin<Box<dyn Future<Output = Runs> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.owned().run())
    }
}

/// A drain without its borrow.
struct Owned {
    inspector: Inspector,
    url: String,
    queues: Vec<QueueName>,
    states: States,
    concurrency: usize,
}

impl Owned {
    async fn run(self) -> Runs {
        self.drain().await.unwrap_or_else(|error| panic!("delayed::testing::Drain: {error}"))
    }

    async fn drain(&self) -> Result<Runs, Error> {
        let queues = (!self.queues.is_empty()).then_some(&*self.queues);
        advance(&self.inspector, queues, Duration::ZERO).await?;
        let (observer, mut ended) = unbounded_channel();
        let mut runs = Vec::new();
        loop {
            let queues = self.not_empty().await?;
            let before = runs.len();
            if !queues.is_empty() {
                self.serve(&queues, observer.clone()).await?;
            }
            while let Ok(run) = ended.try_recv() {
                runs.extend(Run::of(run));
            }
            // What may still wait then is not for this program.
            if runs.len() == before {
                return Ok(Runs::new(runs));
            }
        }
    }

    /// The queues in which calls wait.
    async fn not_empty(&self) -> Result<BTreeSet<QueueName>, Error> {
        let mut queues = match self.queues.is_empty() {
            true => self.inspector.queue_names().await?,
            false => self.queues.iter().cloned().collect(),
        };
        for queue in queues.clone() {
            let [waiting, ..] = self.inspector.broker().lengths(&QueueKeys::new(&queue)).await?;
            if waiting == 0 {
                queues.remove(&queue);
            }
        }
        Ok(queues)
    }

    /// Runs a worker until these queues are empty.
    async fn serve(
        &self,
        queues: &BTreeSet<QueueName>,
        observer: UnboundedSender<EndedRun>,
    ) -> Result<(), Error> {
        let worker = Worker::builder(&self.url)
            .concurrency(self.concurrency)
            .prefetch(0)
            .unknown(Unknown::Requeue)
            .sweep(false)
            .burst(true)
            .states(self.states.clone())
            .observe(observer);
        let worker = queues.iter().fold(worker, |worker, queue| worker.queue(queue.as_str()));
        worker.connect().await?.run().await.map(drop)
    }
}
