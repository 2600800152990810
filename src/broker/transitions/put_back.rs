//! Put back: moves messages from their slots back to the queue, unchanged.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

/// The end of the queue to which a message is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before all waiting messages.
    Head,
    /// Behind all waiting messages.
    Tail,
}

impl Broker {
    /// Moves messages from their slots back to the queue, unchanged. Returns how many were moved.
    pub(crate) async fn put_back(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        place: Place,
        wire_ids: &[&str],
    ) -> Result<u64, BrokerError> {
        let script_keys = [&keys.queue, &keys.notifications, &keys.processing, worker_key, &keys.deaths];
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + 32;
        let mut command = script::PUT_BACK.command(&script_keys, wire_ids.len() + 2, bytes);
        command.arg(seq).arg(if place == Place::Head { "head" } else { "tail" });
        for id in wire_ids {
            command.arg(*id);
        }
        let reply = script::PUT_BACK.run(&mut self.commands.clone(), command).await?;
        script::PUT_BACK.count(&reply)
    }
}
