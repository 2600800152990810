//! Revive: moves dead letters back to the queue.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Moves dead letters, given as (id, message), back to the tail of the queue. Gives how many there still were.
    pub(crate) async fn revive(
        &self,
        keys: &QueueKeys,
        letters: &[(String, Vec<u8>)],
    ) -> Result<u64, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.dead];
        let bytes = letters.iter().map(|(id, message)| id.len() + message.len()).sum();
        let mut command = script::REVIVE.command(&script_keys, letters.len() * 2, bytes);
        for (id, message) in letters {
            command.arg(id).arg(message.as_slice());
        }
        let reply = script::REVIVE.run(&mut self.commands.clone(), command).await?;
        script::REVIVE.count(&reply)
    }
}
