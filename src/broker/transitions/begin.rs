//! Begin: records that a worker runs a suspect, alone.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Records that a worker begins to run a suspect, alone. Returns false if the slot no longer owned it.
    pub(crate) async fn begin(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        wire_id: &str,
    ) -> Result<bool, BrokerError> {
        let script_keys = [&keys.processing, worker_key, &keys.deaths];
        let mut command = script::BEGIN.command(&script_keys, 2, wire_id.len() + 24);
        command.arg(seq).arg(wire_id);
        match script::BEGIN.run(&mut self.commands.clone(), command).await? {
            Value::Int(owned) => Ok(owned == 1),
            reply => Err(script::BEGIN.unexpected(&reply)),
        }
    }
}
