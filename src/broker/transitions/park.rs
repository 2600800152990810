//! Park: moves messages from their slots to the messages that wait for a limit.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::{QueueKeys, waiters};
use crate::protocol::limit::LimitName;

impl Broker {
    /// Moves messages from up to 1000 slots to those that wait for a limit, unchanged. Returns how many were moved.
    pub(crate) async fn park(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        limit: &LimitName,
        wire_ids: &[&str],
    ) -> Result<u64, BrokerError> {
        let waiters = waiters(&keys.queue, limit);
        let script_keys = [keys.processing.as_str(), worker_key, &waiters, &keys.parked];
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + keys.queue.len() + 256;
        let mut command = script::PARK.command(&script_keys, wire_ids.len() + 3, bytes);
        command.arg(seq).arg(&keys.queue).arg(limit.as_str());
        for id in wire_ids {
            command.arg(*id);
        }
        let reply = script::PARK.run(&mut self.commands.clone(), command).await?;
        script::PARK.count(&reply)
    }
}
