//! How does a sweeper run, and how long are dead letters kept?

use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, text};
use crate::protocol::names::QueueName;

/// How a sweeper runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SweeperConfig {
    /// The queues that it sweeps; none: it finds them by itself.
    pub queues: Vec<QueueName>,
    /// How long it rests between two sweeps, at least 10 ms. Default: 2 s. A worker sweeps as often as that only where it is
    /// shorter than a quarter of the lease; else its beats tell when there is something to sweep.
    #[serde(deserialize_with = "text::time")]
    pub interval: Duration,
    /// A message is buried when so many processes died while they owned it. Default: 3, so that a message which takes its
    /// workers down is buried and no other: from the second death on it runs alone. With less, take a
    /// [`prefetch`](super::WorkerConfig::prefetch) of 0, or what was claimed ahead with it is buried too.
    pub max_deaths: u32,
}

impl SweeperConfig {
    /// After how long without a death the deaths of a message are forgotten.
    pub const FORGET_DEATHS: Duration = Duration::from_secs(60 * 60);
}

impl Default for SweeperConfig {
    fn default() -> Self {
        Self { queues: Vec::new(), interval: Duration::from_secs(2), max_deaths: 3 }
    }
}

impl SweeperConfig {
    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.interval < Duration::from_millis(10) {
            let problem = format!("{:?} is less than 10ms", self.interval);
            return Err(ConfigError { field: "sweeper.interval", problem });
        }
        if self.max_deaths == 0 {
            let problem = "0 would bury every lost message: use 1 or more".into();
            return Err(ConfigError { field: "sweeper.max_deaths", problem });
        }
        Ok(())
    }
}

/// How long dead letters are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadConfig {
    /// How many a queue keeps; the oldest go first. Default: 100,000.
    pub max_count: u64,
    /// For how long, at least 1 s. Default: 90 days. Older ones go when the next one of their queue is written.
    #[serde(deserialize_with = "text::time")]
    pub max_age: Duration,
}

impl Default for DeadConfig {
    fn default() -> Self {
        Self { max_count: 100_000, max_age: Duration::from_secs(90 * 24 * 60 * 60) }
    }
}

impl DeadConfig {
    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_count == 0 {
            let problem = "0 would drop every dead letter: use 1 or more".into();
            return Err(ConfigError { field: "dead.max_count", problem });
        }
        if i64::try_from(self.max_count).is_err() {
            let problem = format!("{} is more than Redis can count to", self.max_count);
            return Err(ConfigError { field: "dead.max_count", problem });
        }
        if self.max_age < Duration::from_secs(1) {
            let problem = format!("{:?} is less than 1s", self.max_age);
            return Err(ConfigError { field: "dead.max_age", problem });
        }
        Ok(())
    }
}
