//! Where a call has to be before its producer is told that it is enqueued.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

/// Where a call has to be before its producer is told that it is enqueued: `master` or `replicas(1)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the server. If it fails, calls of the last moments may be lost, which have not reached its replicas or its disk.
    #[default]
    Master,
    /// Also on at least so many replicas, in memory: a call that was confirmed survives the failure of the master, if one of
    /// those replicas takes its place. Costs a round trip and the time that a replica takes. If too few confirm it in
    /// time, enqueueing fails with an error that says that the call may run nevertheless.
    Replicas(NonZeroU32),
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let replicas = || text.strip_prefix("replicas(")?.strip_suffix(')')?.trim().parse().ok();
        match text {
            "master" => Ok(Self::Master),
            _ => replicas()
                .map(Self::Replicas)
                .ok_or_else(|| format!("{text:?} is neither \"master\" nor \"replicas(1)\"")),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master => f.write_str("master"),
            Self::Replicas(replicas) => write!(f, "replicas({replicas})"),
        }
    }
}

impl<'de> Deserialize<'de> for Durability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_is_written() {
        for text in ["master", "replicas(1)", "replicas(12)"] {
            assert_eq!(text.parse::<Durability>().map(|found| found.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "replicas", "replicas(0)", "replicas(-1)", "replicas(1", "disk"] {
            assert!(text.parse::<Durability>().is_err_and(|error| error.contains("replicas(1)")), "{text}");
        }
    }
}
