//! Parses the limit of a queue: `mail=github`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::ConfigError;
use crate::protocol::limit::LimitName;
use crate::protocol::names::QueueName;

/// A limit that holds for every call of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimit {
    /// The queue.
    pub queue: QueueName,
    /// The name of the limit: see [`Client::set_limit`](crate::Client::set_limit).
    pub limit: LimitName,
}

impl FromStr for QueueLimit {
    type Err = ConfigError;

    /// Parses `mail=github`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refused = |problem: String| ConfigError { field: "worker.queue_limits", problem };
        let Some((queue, limit)) = text.split_once('=') else {
            return Err(refused(format!("{text:?} must be a queue and a limit, such as `mail=github`")));
        };
        let queue = QueueName::parse(queue).map_err(|error| refused(error.to_string()))?;
        let limit = LimitName::parse(limit).map_err(|error| refused(error.to_string()))?;
        Ok(Self { queue, limit })
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.queue, self.limit)
    }
}

impl<'de> Deserialize<'de> for QueueLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
