//! Keeps what gateways share: tokens, and the keys of requests that are to be carried out once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::names::{TOKENS, idempotency};

impl Broker {
    /// All tokens, by their names, as they were stored.
    pub(crate) async fn tokens(&self) -> Result<BTreeMap<String, String>, BrokerError> {
        self.read_own("tokens", redis::cmd("HGETALL").arg(TOKENS)).await
    }

    /// Stores a token. Returns whether its name is new; another one is not replaced.
    pub(crate) async fn add_token(&self, name: &str, token: &str) -> Result<bool, BrokerError> {
        self.read("add_token", redis::cmd("HSETNX").arg(TOKENS).arg(name).arg(token)).await
    }

    /// Removes a token. Returns whether there was one.
    pub(crate) async fn remove_token(&self, name: &str) -> Result<bool, BrokerError> {
        self.read("remove_token", redis::cmd("HDEL").arg(TOKENS).arg(name)).await
    }

    /// Connects the key of a request with what the request says, for this long. Returns what it says that has the key: this
    /// one, or an earlier one.
    pub(crate) async fn take_key(
        &self,
        key: &str,
        request: &str,
        period: Duration,
    ) -> Result<String, BrokerError> {
        let key = idempotency(key);
        let mut take = redis::cmd("SET");
        take.arg(&key).arg(request).arg("NX").arg("PX").arg(period.as_millis() as u64);
        let () = self.read("take_key", &take).await?;
        let taken: Option<String> = self.read_own("take_key", redis::cmd("GET").arg(&key)).await?;
        // Only if it has expired in between.
        Ok(taken.unwrap_or_else(|| request.to_owned()))
    }
}
