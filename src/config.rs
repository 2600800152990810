//! Which settings are there, and what are their defaults? The library never reads the environment by itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::protocol::names::{NameError, QueueName};

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
    /// How a sweeper runs, also the one in each worker.
    pub sweeper: SweeperConfig,
    /// How long dead letters are kept.
    pub dead: DeadConfig,
    /// What is logged by the command line.
    pub log: LogConfig,
}

/// How to reach Redis.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `redis://user:password@host:port/db`, `rediss://…` for TLS, or `unix:///path`.
    pub url: String,
    /// How long to wait for a connection or for a reply. Default: 5 s.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl RedisConfig {
    /// Redis at `url`, with default settings.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.timeout < Duration::from_millis(10) || self.timeout > LONGEST {
            let problem = format!("{:?} is not from 10ms to 365d", self.timeout);
            return Err(ConfigError { field: "redis.timeout", problem });
        }
        Ok(())
    }

    /// The address without its password, wherever that stands: `user:password@` or `?pass=password`.
    #[must_use]
    pub fn redacted_url(&self) -> String {
        let Some((scheme, rest)) = self.url.split_once("://") else { return self.url.clone() };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let mut redacted = match rest.rsplit_once('@') {
            Some((user, host)) => {
                let user = user.split_once(':').map_or(user, |(user, _)| user);
                format!("{scheme}://{user}:***@{host}")
            }
            None => format!("{scheme}://{rest}"),
        };
        for (place, field) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            redacted.push(if place == 0 { '?' } else { '&' });
            redacted.push_str(if field.starts_with("pass=") { "pass=***" } else { field });
        }
        redacted
    }
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1:6379".into(), timeout: Duration::from_secs(5) }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &self.redacted_url())
            .field("timeout", &self.timeout)
            .finish()
    }
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

/// How a worker runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// The queues that it serves, in order of preference. Default: `default`.
    pub queues: Vec<QueueWeight>,
    /// How many calls run at a time: 1 to 4096. Default: 10.
    pub concurrency: usize,
    /// How long Redis waits for a sign of life before what the worker owns is given to others: at least 1 s.
    /// Default: 6 s. A short lease brings lost work back sooner; a longer one survives longer pauses.
    #[serde(deserialize_with = "duration")]
    pub lease: Duration,
    /// How long running calls may go on after the worker was told to stop. Default: 25 s, which is less than
    /// the 30 s after which most supervisors kill.
    #[serde(deserialize_with = "duration")]
    pub shutdown: Duration,
    /// What becomes of calls of tasks that this worker does not know. Default: they are buried.
    pub unknown: Unknown,
    /// Whether the worker sweeps too, by turns with all others. Default: true.
    pub sweep: bool,
    /// Exit when the queues are empty and all is settled. Default: false.
    pub burst: bool,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            queues: vec![QueueWeight::default()],
            concurrency: 10,
            lease: Duration::from_secs(6),
            shutdown: Duration::from_secs(25),
            unknown: Unknown::Bury,
            sweep: true,
            burst: false,
        }
    }
}

impl WorkerConfig {
    /// The most slots that a worker may have.
    pub const MAX_CONCURRENCY: usize = 4096;

    /// How often the worker beats: three beats may be missed before its lease ends.
    #[must_use]
    pub fn beat_period(&self) -> Duration {
        self.lease / 4
    }
}

/// A queue and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueWeight {
    /// The queue.
    pub queue: QueueName,
    /// Its weight, at least 1: of two queues with work, one of weight 3 gets three times as many slots as one of weight 1. When no
    /// queue has a weight, they are asked strictly in their order.
    pub weight: Option<u32>,
}

impl FromStr for QueueWeight {
    type Err = ConfigError;

    /// Reads `mail` or `mail=3`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (name, weight) = match text.rsplit_once('=') {
            Some((name, weight)) => (name, Some(weight)),
            None => (text, None),
        };
        let weight = match weight {
            None => None,
            Some(digits) => match digits.parse::<u32>() {
                Ok(weight @ 1..=1000) => Some(weight),
                _ => {
                    let problem = format!("the weight in {text:?} must be a whole number from 1 to 1000");
                    return Err(ConfigError { field: "worker.queues", problem });
                }
            },
        };
        Ok(Self { queue: QueueName::parse(name)?, weight })
    }
}

impl<'de> Deserialize<'de> for QueueWeight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What becomes of calls of tasks that a worker does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// To the dead letters.
    Bury,
    /// Back to the tail of the queue, for workers that know it.
    Requeue,
    /// Released without being run, as the ancestors do.
    Ignore,
}

impl FromStr for Unknown {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "bury" => Ok(Self::Bury),
            "requeue" => Ok(Self::Requeue),
            "ignore" => Ok(Self::Ignore),
            _ => Err(ConfigError {
                field: "worker.unknown",
                problem: format!("{text:?} is not one of bury, requeue, ignore"),
            }),
        }
    }
}

/// How a sweeper runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SweeperConfig {
    /// The queues that it sweeps; none: it finds them by itself.
    pub queues: Vec<QueueName>,
    /// How long it rests between two sweeps. Default: 2 s.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// A message is buried when so many processes died while they owned it. Default: 3.
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

/// How long dead letters are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadConfig {
    /// How many a queue keeps; the oldest go first. Default: 100,000.
    pub max_count: u64,
    /// For how long. Default: 90 days.
    #[serde(deserialize_with = "duration")]
    pub max_age: Duration,
}

impl Default for DeadConfig {
    fn default() -> Self {
        Self { max_count: 100_000, max_age: Duration::from_secs(90 * 24 * 60 * 60) }
    }
}

/// What is logged by the command line.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LogConfig {
    /// A level (`info`) or a filter as `tracing-subscriber` reads it (`info,delayed=debug`). Default: `info`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Pretty }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
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
        self.worker.validate()?;
        self.sweeper.validate()?;
        self.dead.validate()
    }
}

impl WorkerConfig {
    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    ///
    /// ```
    /// let mut config = delayed::config::WorkerConfig::default();
    /// config.concurrency = 0;
    /// let error = config.validate().unwrap_err();
    /// assert_eq!(error.to_string(), "worker.concurrency: 0 is not from 1 to 4096");
    /// ```
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem: String| Err(ConfigError { field, problem });
        if self.queues.is_empty() {
            return refuse("worker.queues", "a worker needs at least one queue".into());
        }
        for (i, entry) in self.queues.iter().enumerate() {
            if self.queues[..i].iter().any(|before| before.queue == entry.queue) {
                return refuse("worker.queues", format!("the queue {:?} is named twice", entry.queue));
            }
        }
        let weighted = self.queues.iter().filter(|entry| entry.weight.is_some()).count();
        if weighted != 0 && weighted != self.queues.len() {
            return refuse("worker.queues", "give every queue a weight (a=3), or none".into());
        }
        if !(1..=Self::MAX_CONCURRENCY).contains(&self.concurrency) {
            let problem = format!("{} is not from 1 to {}", self.concurrency, Self::MAX_CONCURRENCY);
            return refuse("worker.concurrency", problem);
        }
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 60 * 60) {
            return refuse("worker.lease", format!("{:?} is not from 1s to 24h", self.lease));
        }
        if self.shutdown > LONGEST {
            return refuse("worker.shutdown", format!("{:?} is more than 365d", self.shutdown));
        }
        Ok(())
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

/// Reads `30s`, `1h 30m`, `500ms`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is not a duration such as \"30s\": {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://h:1/0", "redis://h:1/0"),
            ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
            ("rediss://user:s@cret@h", "rediss://user:***@h"),
            ("unix:///x?db=1&pass=secret", "unix:///x?db=1&pass=***"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(RedisConfig::new(url).redacted_url(), shown);
            assert!(!format!("{:?}", RedisConfig::new(url)).contains("cret"));
        }
    }
}
