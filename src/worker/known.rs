//! What does the worker know of each task? What holds for it here: its own options, and the worker's where it does not
//! say.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::WorkerConfig;
use crate::isolation::{Isolation, Limits, Timeouts};
use crate::runner::Speed;
use crate::task::{Registration, Registry};

/// A task, and what holds for its runs.
pub(super) struct Known {
    pub(super) task: &'static Registration,
    pub(super) speed: Arc<Speed>,
    pub(super) isolation: Isolation,
    /// For a call that does not say.
    pub(super) timeouts: Timeouts,
    pub(super) limits: Limits,
}

impl Known {
    fn new(task: &'static Registration, config: &WorkerConfig) -> Self {
        Self {
            task,
            speed: Arc::new(Speed::new()),
            isolation: task.options.isolation.unwrap_or(config.isolation),
            timeouts: task.options.timeouts.or(config.timeouts()),
            limits: task.options.limits.or(config.limits),
        }
    }
}

/// A task that is to run in a process of its own, and how; none when all run in the worker's.
pub(crate) fn first_isolated(
    registry: &Registry,
    config: &WorkerConfig,
) -> Option<(&'static str, Isolation)> {
    registry
        .iter()
        .map(|task| (task.name, task.options.isolation.unwrap_or(config.isolation)))
        .find(|(_, isolation)| *isolation != Isolation::Inline)
}

/// All tasks by name. Warns, once, of limits that the worker cannot hold tasks to.
pub(super) fn all(registry: &Registry, config: &WorkerConfig) -> HashMap<&'static str, Known> {
    let known: HashMap<_, _> = registry.iter().map(|task| (task.name, Known::new(task, config))).collect();
    let unbounded: Vec<&str> = registry
        .iter()
        .filter(|task| known[task.name].isolation == Isolation::Inline && task.options.limits != Limits::NONE)
        .map(|task| task.name)
        .collect();
    if !unbounded.is_empty() {
        tracing::warn!(
            tasks = unbounded.join(" "),
            "these tasks have limits that nothing holds them to in the worker's own process: give them \
             `isolation = \"fork\"` or \"prefork\", or start the worker with --isolation"
        );
    }
    if config.limits != Limits::NONE && known.values().all(|known| known.isolation == Isolation::Inline) {
        tracing::warn!(
            "the worker's limits hold for nothing: all tasks run in its own process; start it with --isolation"
        );
    }
    known
}
