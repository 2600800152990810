//! The processes that a worker keeps for tasks with `isolation = "prefork"`.

use serde::Deserialize;

use super::{ConfigError, WorkerConfig, text};

/// The processes that a worker keeps for tasks with `isolation = "prefork"`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PreforkConfig {
    /// The largest number of processes. Default: the worker's concurrency, so that a call never waits for a process.
    pub children: Option<usize>,
    /// The number of calls after which a process is replaced; `None`: never. Default: 1000. That bounds leaks of tasks; a new
    /// process costs less than a millisecond, or a microsecond per call.
    #[serde(deserialize_with = "text::count_or_never")]
    pub max_tasks: Option<u64>,
    /// The anonymous and shared memory, in bytes, above which a process is replaced after a call; `None`: never. Default:
    /// `None`.
    #[serde(deserialize_with = "text::some_size")]
    pub max_memory: Option<u64>,
}

impl Default for PreforkConfig {
    fn default() -> Self {
        Self { children: None, max_tasks: Some(1000), max_memory: None }
    }
}

impl PreforkConfig {
    /// The largest number of processes.
    #[must_use]
    pub fn children(&self, worker: &WorkerConfig) -> usize {
        self.children.unwrap_or(worker.concurrency)
    }

    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if let Some(children) = self.children
            && !(1..=WorkerConfig::MAX_CONCURRENCY).contains(&children)
        {
            let problem = format!("{children} is not from 1 to {}", WorkerConfig::MAX_CONCURRENCY);
            return refuse("prefork.children", problem);
        }
        if self.max_tasks == Some(0) {
            return refuse("prefork.max_tasks", "a process runs at least 1 call".into());
        }
        if self.max_memory == Some(0) {
            let problem = "0 would replace a process after each call: use `fork`".into();
            return refuse("prefork.max_memory", problem);
        }
        Ok(())
    }
}
