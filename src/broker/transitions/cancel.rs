//! Cancel: takes calls out of the timetable.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Takes up to [`MAX_SCHEDULED`](super::MAX_SCHEDULED) calls out of the timetable. Gives how many were there.
    pub(crate) async fn cancel(&self, keys: &QueueKeys, ids: &[CallId]) -> Result<u64, BrokerError> {
        let script_keys = [keys.due.as_str(), &keys.later];
        let mut command = script::CANCEL.command(&script_keys, ids.len(), 16 * ids.len());
        for id in ids {
            command.arg(&id.as_bytes()[..]);
        }
        let reply = script::CANCEL.run(&mut self.commands.clone(), command).await?;
        script::CANCEL.count(&reply)
    }
}
