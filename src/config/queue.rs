//! Parses a queue and its weight: `mail` or `mail=3`.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::ConfigError;
use crate::protocol::names::QueueName;

/// A queue and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueWeight {
    /// The queue.
    pub queue: QueueName,
    /// Its weight, 1 to 1000: while both have calls, a worker claims three times as many calls of a queue with weight 3 as of one
    /// with weight 1. `None`: the worker claims strictly in the order of its queues. Either all queues have a weight, or none has.
    pub weight: Option<u32>,
}

impl FromStr for QueueWeight {
    type Err = ConfigError;

    /// Parses `mail` or `mail=3`. `mail:3`, the syntax of other programs, is an error: `mail:3=1` is a queue with that name.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (name, weight) = match text.rsplit_once('=') {
            Some((name, weight)) => (name, Some(weight)),
            None => (text, None),
        };
        if let (None, Some((queue, weight))) = (weight, name.rsplit_once(':'))
            && weight.parse::<u32>().is_ok()
        {
            let problem = format!(
                "{text:?} has a colon: a weight is written `{queue}={weight}`, and a queue of this name `{text}=1`"
            );
            return Err(ConfigError { field: "worker.queues", problem });
        }
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
