//! Revive: moves dead letters back to the queue.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// The reply of `revive`.
#[derive(Debug, Default)]
pub(crate) struct Revived {
    pub(crate) count: u64,
    /// Calls that stay dead, each with the call that holds its lock.
    pub(crate) locked: Vec<(CallId, CallId)>,
}

impl Broker {
    /// Moves dead letters, given as (id, message), back to the tail of the queue. Returns how many were moved, and the
    /// calls that stay dead, each with the call that holds its lock.
    pub(crate) async fn revive(
        &self,
        keys: &QueueKeys,
        letters: &[(String, Vec<u8>)],
    ) -> Result<Revived, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.dead];
        let bytes = letters.iter().map(|(id, message)| id.len() + message.len()).sum();
        let mut command = script::REVIVE.command(&script_keys, letters.len() * 2, bytes);
        for (id, message) in letters {
            command.arg(id).arg(message.as_slice());
        }
        let reply = script::REVIVE.run(&mut self.commands.clone(), command).await?;
        let values = script::REVIVE.array(reply)?;
        let [Value::Int(count), Value::Array(ids)] = values.as_slice() else {
            return Err(script::REVIVE.unexpected(&Value::Array(values)));
        };
        let id = |value: &Value| match value {
            Value::BulkString(id) => id.as_slice().try_into().ok().map(CallId::from_bytes),
            _ => None,
        };
        let locked = ids.chunks(2).filter_map(|pair| Some((id(pair.first()?)?, id(pair.last()?)?)));
        Ok(Revived { count: count.unsigned_abs(), locked: locked.collect() })
    }
}
