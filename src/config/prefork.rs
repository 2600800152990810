//! Which processes does a worker keep for tasks of `isolation = "prefork"`?

use serde::Deserialize;

use super::{ConfigError, WorkerConfig, text};

/// The processes that a worker keeps for tasks of `isolation = "prefork"`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PreforkConfig {
    /// How many there are at the most. Default: as many as the worker's concurrency, so that a call never waits for
    /// one.
    pub children: Option<usize>,
    /// A process is replaced after so many calls; none: never. Default: 1000. What a task leaks is gone by then, and a
    /// new process costs less than a millisecond: a microsecond for each call.
    #[serde(deserialize_with = "text::count_or_never")]
    pub max_tasks: Option<u64>,
    /// A process is replaced when its resident memory, in bytes, is above this after a call; none: never. Default:
    /// none.
    #[serde(deserialize_with = "text::some_size")]
    pub max_memory: Option<u64>,
}

impl Default for PreforkConfig {
    fn default() -> Self {
        Self { children: None, max_tasks: Some(1000), max_memory: None }
    }
}

impl PreforkConfig {
    /// How many processes there are at the most.
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
            let problem = "nothing at all would replace a process after each call: use `fork`".into();
            return refuse("prefork.max_memory", problem);
        }
        Ok(())
    }
}
