//! Facts about a server, from its `INFO`.

use std::collections::HashMap;

use crate::broker::error::{BrokerError, BrokerErrorKind};

/// The oldest server that has all the commands that the scripts use (`LPOP` with a count).
const OLDEST: (u32, u32) = (6, 2);

/// Facts about a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerFacts {
    /// The version of Redis that it is compatible with, such as `7.2.4`.
    pub(crate) redis_version: String,
    /// All fields of `INFO`.
    pub(crate) fields: HashMap<String, String>,
}

impl ServerFacts {
    /// Reads the reply to `INFO`.
    pub(super) fn parse(text: &str) -> Self {
        let fields: HashMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(field, value)| (field.to_owned(), value.trim().to_owned()))
            .collect();
        let redis_version = fields.get("redis_version").cloned().unwrap_or_default();
        Self { redis_version, fields }
    }

    /// Whether it is a node of a Redis Cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.mode() == Some("cluster")
    }

    /// How it was started. Valkey has another name for that.
    fn mode(&self) -> Option<&str> {
        self.fields.get("redis_mode").or_else(|| self.fields.get("server_mode")).map(String::as_str)
    }

    /// Fails if it is a Sentinel, which has no queues.
    pub(super) fn check_mode(&self) -> Result<(), BrokerError> {
        match self.mode() {
            Some("sentinel") => Err(BrokerError::new("connect", BrokerErrorKind::Address, "its mode is sentinel")
                .advised(
                    "this server is a Sentinel: use redis-sentinel://host:26379/NAME, where NAME is what it calls the \
                    master",
                )),
            _ => Ok(()),
        }
    }

    /// Fails if the server is too old to have all commands of the scripts.
    pub(super) fn check_version(&self) -> Result<(), BrokerError> {
        let mut numbers = self.redis_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < OLDEST {
            let detail = format!("the server reports version {}", self.redis_version);
            return Err(BrokerError::new("connect", BrokerErrorKind::Unsupported, detail));
        }
        Ok(())
    }
}
