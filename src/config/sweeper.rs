//! Settings of a sweeper, and the retention of dead letters.

use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, text};
use crate::protocol::names::QueueName;

/// Settings of a sweeper.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SweeperConfig {
    /// The queues that it sweeps; if empty, it finds queues by itself.
    pub queues: Vec<QueueName>,
    /// The pause between two sweeps, at least 10 ms. Default: 2 s. A worker sweeps at this interval only if it is shorter than a
    /// quarter of the lease; otherwise its heartbeats tell when there is something to sweep.
    #[serde(deserialize_with = "text::time")]
    pub interval: Duration,
    /// The number of workers that must die, each while it ran a call alone, before that call is buried. Default: 3. A call runs
    /// alone once two processes have died that owned it, or another call with the same bytes; those deaths bury nothing.
    pub max_deaths: u32,
}

impl SweeperConfig {
    /// The time without another death after which the deaths of a message are forgotten.
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
            let problem = "0 is less than one death: use 1 or more".into();
            return Err(ConfigError { field: "sweeper.max_deaths", problem });
        }
        Ok(())
    }
}

/// The retention of dead letters.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadConfig {
    /// The number of dead letters that a queue keeps; the oldest are removed first. Default: 100,000.
    pub max_count: u64,
    /// How long a dead letter is kept, at least 1 s. Default: 90 days. Older ones are removed when the next one of their queue
    /// is written.
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
