//! Purge: drops waiting messages.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Drops up to `count` (at most 10,000) waiting messages, oldest first. Gives how many there were.
    pub(crate) async fn purge(&self, keys: &QueueKeys, count: u64) -> Result<u64, BrokerError> {
        let mut command = script::PURGE.command(&[&keys.queue, &keys.notifications, &keys.deaths], 1, 16);
        command.arg(count);
        let reply = script::PURGE.run(&mut self.commands.clone(), command).await?;
        script::PURGE.count(&reply)
    }
}
