//! The tasks of a worker, each with its own options, or the worker's where it sets none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "client")]
use crate::client::flow;
use crate::config::WorkerConfig;
use crate::isolation::{Isolation, Limits, Timeouts};
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::runner::Speed;
use crate::task::handler::Handler;
use crate::task::{Registration, Registry, States, TaskOptions};
use crate::worker::queue::tally::TaskTally;

/// A task, and the options of its runs.
#[derive(Debug)]
pub(in crate::worker) struct TaskEntry {
    pub(super) task: &'static Registration,
    pub(super) speed: Arc<Speed>,
    pub(super) isolation: Isolation,
    /// For calls without timeouts of their own.
    pub(super) timeouts: Timeouts,
    pub(super) limits: Limits,
    /// The limit of its calls.
    pub(super) limit: Option<LimitName>,
    /// Whether all states that it takes were found ready.
    has_states: AtomicBool,
    /// How its runs end.
    tally: Arc<TaskTally>,
}

/// The index of a task in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct TaskId(usize);

impl TaskId {
    /// Its place in [`TaskTable::names`].
    pub(in crate::worker) fn place(self) -> usize {
        self.0
    }
}

/// All tasks of a worker.
#[derive(Debug)]
pub(in crate::worker) struct TaskTable {
    by_name: HashMap<&'static str, TaskId>,
    entries: Vec<TaskEntry>,
}

impl TaskEntry {
    fn new(task: &'static Registration, config: &WorkerConfig) -> Self {
        Self {
            task,
            speed: Arc::new(Speed::new()),
            isolation: task.options.isolation.unwrap_or(config.isolation),
            timeouts: task.options.timeouts.or(config.timeouts()),
            limits: task.options.limits.or(config.limits),
            limit: task.options.limit.and_then(|limit| LimitName::parse(limit).ok()),
            has_states: AtomicBool::new(task.states.is_empty()),
            tally: Arc::default(),
        }
    }

    pub(in crate::worker) fn options(&self) -> &TaskOptions {
        &self.task.options
    }

    pub(in crate::worker) fn tally(&self) -> &TaskTally {
        &self.tally
    }

    /// The limits of a call, sorted, so that every worker asks them in the same order.
    pub(super) fn limits_of(&self, message: &Message<'_>, of_queue: &[LimitName]) -> Vec<LimitName> {
        let mut limits = message.limits();
        limits.extend_from_slice(of_queue);
        limits.extend(self.limit.clone());
        limits.sort_unstable();
        limits.dedup();
        limits
    }

    /// Whether its runs get their own processes.
    pub(in crate::worker) fn is_isolated(&self) -> bool {
        self.isolation != Isolation::Inline
    }

    /// Whether it is a blocking function that runs in this process and was quick recently.
    pub(super) fn is_quick_blocking(&self) -> bool {
        matches!(self.task.handler, Handler::Blocking(_)) && !self.is_isolated() && self.speed.is_quick()
    }

    /// Whether all states that its task takes are ready, so that a run does not have to wait for them.
    pub(super) fn has_states(&self, states: &States) -> bool {
        if self.has_states.load(Ordering::Relaxed) {
            return true;
        }
        let are_made = states.are_made(self.task.states);
        self.has_states.store(are_made, Ordering::Relaxed);
        are_made
    }
}

impl TaskTable {
    /// Builds the table from the registry. Warns once of limits that the worker cannot enforce.
    pub(in crate::worker) fn new(registry: &Registry, config: &WorkerConfig) -> Self {
        let tasks = registry.iter();
        // Without the client, a worker runs steps of flows, but begins no flow.
        #[cfg(feature = "client")]
        let tasks = tasks.chain([&flow::BEGIN]);
        let entries: Vec<TaskEntry> = tasks.map(|task| TaskEntry::new(task, config)).collect();
        let names = entries.iter().enumerate().map(|(place, entry)| (entry.task.name, TaskId(place)));
        let table = Self { by_name: names.collect(), entries };
        table.warn_of_limits(config.limits);
        table
    }

    /// How the runs of each task end, by its path.
    pub(in crate::worker) fn tallies(&self) -> impl Iterator<Item = (&'static str, Arc<TaskTally>)> {
        self.entries.iter().map(|entry| (entry.task.name, Arc::clone(&entry.tally)))
    }

    /// The names of all tasks, in their places.
    pub(in crate::worker) fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.task.name).collect()
    }

    pub(in crate::worker) fn find(&self, name: &str) -> Option<TaskId> {
        self.by_name.get(name).copied()
    }

    pub(in crate::worker) fn get(&self, id: TaskId) -> &TaskEntry {
        &self.entries[id.0]
    }

    fn warn_of_limits(&self, of_worker: Limits) {
        let unbounded: Vec<&str> = (self.entries.iter())
            .filter(|entry| !entry.is_isolated() && entry.task.options.limits != Limits::NONE)
            .map(|entry| entry.task.name)
            .collect();
        if !unbounded.is_empty() {
            tracing::warn!(
                tasks = unbounded.join(" "),
                hint = "set `isolation = \"fork\"` or \"prefork\", or start the worker with --isolation",
                "limits of inline tasks are not enforced"
            );
        }
        if of_worker != Limits::NONE && !self.entries.iter().any(TaskEntry::is_isolated) {
            tracing::warn!(
                hint = "no task is isolated: start the worker with --isolation",
                "limits of the worker are not enforced"
            );
        }
    }
}

/// The first task that must run in its own process, and its isolation; `None` if all run in the worker's process.
pub(crate) fn first_isolated(
    registry: &Registry,
    config: &WorkerConfig,
) -> Option<(&'static str, Isolation)> {
    registry
        .iter()
        .map(|task| (task.name, task.options.isolation.unwrap_or(config.isolation)))
        .find(|(_, isolation)| *isolation != Isolation::Inline)
}
