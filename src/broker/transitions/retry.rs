//! Retry: moves a message from its slot to the tail of its queue.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Moves a message from its slot to the tail of the queue, and writes `errors` into the record of its call, if it has
    /// one. Returns false if the slot no longer owned a message.
    pub(crate) async fn retry(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        wire_id: &str,
        message: &[u8],
        errors: &[u8],
    ) -> Result<bool, BrokerError> {
        let script_keys = [&keys.queue, &keys.notifications, &keys.processing, worker_key, &keys.deaths];
        let mut command =
            script::RETRY.command(&script_keys, 4, wire_id.len() + message.len() + errors.len() + 24);
        command.arg(seq).arg(wire_id).arg(message).arg(errors);
        match script::RETRY.run(&mut self.commands.clone(), command).await? {
            Value::Int(done) => Ok(done == 1),
            reply => Err(script::RETRY.unexpected(&reply)),
        }
    }
}
