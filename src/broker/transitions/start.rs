//! Start: records that tracked or unique calls have begun to run.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;
use crate::protocol::tracking::Tracking;

/// A call that has begun.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) slot: usize,
    pub(crate) tracking: Tracking,
    pub(crate) attempt: u32,
}

/// Maximum number of calls that one script call records.
const MOST: usize = 100;

impl Broker {
    /// Records that calls have begun, each in the slot with the wire id beside it.
    pub(crate) async fn start(
        &self,
        keys: &QueueKeys,
        started: &[(&Started, &str)],
    ) -> Result<(), BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.processing];
        for part in started.chunks(MOST) {
            let bytes = part.iter().map(|(_, wire_id)| wire_id.len() + 48).sum();
            let mut command = script::START.command(&script_keys, 4 * part.len(), bytes);
            for (Started { tracking, attempt, .. }, wire_id) in part {
                let lock = tracking.lock.as_ref().map_or(&b""[..], |lock| lock.as_bytes());
                command.arg(*wire_id).arg(&tracking.id.as_bytes()[..]).arg(lock).arg(*attempt);
            }
            script::START.run(&mut self.commands.clone(), command).await?;
        }
        Ok(())
    }
}
