//! All settings and their defaults, in sections: see [`Config`]. The library never reads the environment by itself.

mod durability;
mod limits;
mod log;
mod prefetch;
mod prefork;
mod queue;
mod queue_limit;
mod server;
mod sweeper;
mod text;
mod worker;

use std::time::Duration;

use serde::Deserialize;

pub use self::durability::Durability;
pub use self::log::{LogConfig, LogFormat};
pub use self::prefetch::Prefetch;
pub use self::prefork::PreforkConfig;
pub use self::queue::QueueWeight;
pub use self::queue_limit::QueueLimit;
pub use self::server::RedisConfig;
pub use self::sweeper::{DeadConfig, SweeperConfig};
#[doc(hidden)]
pub use self::text::parse_size;
#[cfg(feature = "cli")]
pub(crate) use self::text::shown_size;
pub use self::worker::{Unknown, WorkerConfig};
pub use crate::protocol::backoff::{Backoff, BackoffError};
use crate::protocol::names::NameError;

/// The longest duration of a setting.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// All settings, in sections that can be used separately.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The connection to Redis.
    pub redis: RedisConfig,
    /// What a client sends.
    pub client: ClientConfig,
    /// A worker.
    pub worker: WorkerConfig,
    /// The processes that a worker keeps for tasks with `isolation = "prefork"`.
    pub prefork: PreforkConfig,
    /// A sweeper, including the one in each worker.
    pub sweeper: SweeperConfig,
    /// The retention of dead letters.
    pub dead: DeadConfig,
    /// The log of the command line.
    pub log: LogConfig,
}

/// What a client sends.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The largest message, in bytes; a larger one is rejected before it is sent. Default: 16 MiB. Keep large data in a
    /// store of its own, and pass its name.
    pub max_message: usize,
    /// How long a call waits for a Redis that cannot be reached or is not ready before it fails. Default: `None`, which is as
    /// long as [`RedisConfig::timeout`]; that limits the whole operation then.
    #[serde(deserialize_with = "text::some_time")]
    pub patience: Option<Duration>,
    /// Where a call has to be before it counts as enqueued. Default: `master`.
    pub durability: Durability,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { max_message: 16 << 20, patience: None, durability: Durability::default() }
    }
}

impl ClientConfig {
    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_message == 0 {
            let problem = "0 would reject every call: use 1 or more".into();
            return Err(ConfigError { field: "client.max_message", problem });
        }
        if let Some(patience) = self.patience
            && (patience.is_zero() || patience > LONGEST)
        {
            let problem = format!("{patience:?} is not above 0 and up to 365d");
            return Err(ConfigError { field: "client.patience", problem });
        }
        Ok(())
    }
}

/// A setting that is out of range.
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
