//! Cancel: removes calls from the timetable, or marks calls that wait.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Cancels up to [`MAX_SCHEDULED`](super::MAX_SCHEDULED) calls. Returns the state in which each was found: `scheduled`
    /// or `retrying`, the state of its record, or an empty string.
    pub(crate) async fn cancel(
        &self,
        keys: &QueueKeys,
        by: &str,
        ids: &[CallId],
    ) -> Result<Vec<String>, BrokerError> {
        let script_keys = [keys.due.as_str(), &keys.later, &keys.cancelled];
        let bytes = 16 * ids.len() + by.len() + keys.queue.len();
        let mut command = script::CANCEL.command(&script_keys, 2 + ids.len(), bytes);
        command.arg(&keys.queue).arg(by);
        for id in ids {
            command.arg(&id.as_bytes()[..]);
        }
        let reply = script::CANCEL.run(&mut self.commands.clone(), command).await?;
        let states = script::CANCEL.array(reply)?.into_iter();
        let text = |state| match state {
            Value::BulkString(state) => Ok(String::from_utf8_lossy(&state).into_owned()),
            other => Err(script::CANCEL.unexpected(&other)),
        };
        states.map(text).collect()
    }

    /// Removes the mark of a call that was not found anywhere.
    pub(crate) async fn unmark(&self, keys: &QueueKeys, id: CallId) -> Result<(), BrokerError> {
        let command = redis::cmd("ZREM").arg(&keys.cancelled).arg(&id.as_bytes()[..]).to_owned();
        self.read::<Value>("cancel", &command).await.map(drop)
    }
}
