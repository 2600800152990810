//! Run now: moves calls from the timetable to the queue early.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Moves up to [`MAX_SCHEDULED`](super::MAX_SCHEDULED) calls to the queue before they are due. Returns how many were
    /// moved.
    pub(crate) async fn run_now(&self, keys: &QueueKeys, ids: &[CallId]) -> Result<u64, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.due, &keys.later];
        let mut command = script::RUN_NOW.command(&script_keys, ids.len(), 16 * ids.len());
        for id in ids {
            command.arg(&id.as_bytes()[..]);
        }
        let reply = script::RUN_NOW.run(&mut self.commands.clone(), command).await?;
        script::RUN_NOW.count(&reply)
    }
}
