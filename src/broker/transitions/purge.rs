//! Purge: drops waiting messages.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::{QueueKeys, waiters};
use crate::protocol::limit::LimitName;

impl Broker {
    /// Drops up to `count` (at most 10,000) waiting messages, oldest first. Returns how many were dropped.
    pub(crate) async fn purge(&self, keys: &QueueKeys, count: u64) -> Result<u64, BrokerError> {
        self.purge_list(keys, &keys.queue, count).await
    }

    /// Does the same for messages that wait for a limit.
    pub(crate) async fn purge_parked(
        &self,
        keys: &QueueKeys,
        limit: &LimitName,
        count: u64,
    ) -> Result<u64, BrokerError> {
        self.purge_list(keys, &waiters(&keys.queue, limit), count).await
    }

    async fn purge_list(&self, keys: &QueueKeys, list: &str, count: u64) -> Result<u64, BrokerError> {
        let script_keys = [list, &keys.notifications, &keys.deaths];
        let mut command = script::PURGE.command(&script_keys, 2, keys.queue.len() + 16);
        command.arg(count).arg(&keys.queue);
        let reply = script::PURGE.run(&mut self.commands.clone(), command).await?;
        script::PURGE.count(&reply)
    }
}
