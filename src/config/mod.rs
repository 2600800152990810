//! Which settings are there, and what are their defaults? The library never reads the environment by itself.

mod limits;
mod log;
mod prefetch;
mod prefork;
mod queue;
mod server;
mod sweeper;
mod text;
mod worker;

use std::time::Duration;

use serde::Deserialize;

pub use self::log::{LogConfig, LogFormat};
pub use self::prefetch::Prefetch;
pub use self::prefork::PreforkConfig;
pub use self::queue::QueueWeight;
pub use self::server::RedisConfig;
pub use self::sweeper::{DeadConfig, SweeperConfig};
pub use self::text::{parse_size, shown_size};
pub use self::worker::{Unknown, WorkerConfig};
use crate::protocol::names::NameError;

/// The longest time that a setting may be.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// All settings, in sections that can be used alone.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// How to reach Redis.
    pub redis: RedisConfig,
    /// What a client sends.
    pub client: ClientConfig,
    /// How a worker runs.
    pub worker: WorkerConfig,
    /// The processes that a worker keeps for tasks of `isolation = "prefork"`.
    pub prefork: PreforkConfig,
    /// How a sweeper runs, also the one in each worker.
    pub sweeper: SweeperConfig,
    /// How long dead letters are kept.
    pub dead: DeadConfig,
    /// What is logged by the command line.
    pub log: LogConfig,
}

/// What a client sends.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The largest message in bytes; a larger one is refused before it is sent. Default: 16 MiB. Large data
    /// belongs into a store of its own, and its name into the arguments.
    pub max_message: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { max_message: 16 << 20 }
    }
}

impl ClientConfig {
    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_message == 0 {
            let problem = "0 would refuse every call: use 1 or more".into();
            return Err(ConfigError { field: "client.max_message", problem });
        }
        Ok(())
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The setting, such as `worker.lease`.
    pub field: &'static str,
    /// What is wrong with it, and what is allowed.
    pub problem: String,
}

impl From<NameError> for ConfigError {
    fn from(error: NameError) -> Self {
        Self { field: "queues", problem: error.to_string() }
    }
}

impl Config {
    /// Checks every section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.redis.validate()?;
        self.client.validate()?;
        self.worker.validate()?;
        self.prefork.validate()?;
        self.sweeper.validate()?;
        self.dead.validate()
    }
}
