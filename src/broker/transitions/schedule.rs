//! Schedule: puts calls into the timetable.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;
use crate::protocol::meta::since_1970;
use crate::task::Due;

/// Maximum number of calls that one script call schedules, cancels or moves.
pub(crate) const MAX_SCHEDULED: usize = 500;

/// A call for the timetable.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: CallId,
    pub(crate) due: Due,
    pub(crate) message: &'a [u8],
}

impl Broker {
    /// Puts up to [`MAX_SCHEDULED`] calls into the timetable. Returns for each when it is due, in milliseconds since 1970;
    /// `None` if the timetable already had its id, and the call was not scheduled.
    pub(crate) async fn schedule(
        &self,
        keys: &QueueKeys,
        entries: &[Entry<'_>],
    ) -> Result<Vec<Option<u64>>, BrokerError> {
        let script_keys = [keys.due.as_str(), &keys.later, &keys.timetable];
        let bytes =
            entries.iter().map(|entry| entry.message.len() + 40).sum::<usize>() + keys.due_channel.len();
        let mut command = script::SCHEDULE.command(&script_keys, 1 + 3 * entries.len(), bytes);
        command.arg(&keys.due_channel);
        for Entry { id, due, message } in entries {
            command.arg(&id.as_bytes()[..]).arg(argument(*due)).arg(*message);
        }
        let reply = script::SCHEDULE.run(&mut self.commands.clone(), command).await?;
        let dues = script::SCHEDULE.array(reply)?;
        let read = |due: &Value| match due {
            Value::Int(due) => Ok(u64::try_from(*due).ok().filter(|due| *due > 0)),
            other => Err(script::SCHEDULE.unexpected(other)),
        };
        dues.iter().map(read).collect()
    }
}

/// Formats the time as `schedule` expects it.
pub(super) fn argument(due: Due) -> String {
    match due {
        Due::After(delay) => format!("+{}", delay.as_millis()),
        Due::At(moment) => since_1970(moment).to_string(),
    }
}
