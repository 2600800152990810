//! Which queue, and how much of a worker does it get?

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::ConfigError;
use crate::protocol::names::QueueName;

/// A queue and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueWeight {
    /// The queue.
    pub queue: QueueName,
    /// Its weight, 1 to 1000: while both have work, three times as many messages are claimed of a queue of weight 3 as of one
    /// of weight 1. None: when no queue has a weight, they are asked strictly in their order. Either all have one or none has.
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
