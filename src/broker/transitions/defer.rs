//! Defer: moves messages from their slots to the timetable, until the rate of a limit lets them run.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::retry_later::Scheduled;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// Maximum number of messages that one script call moves.
pub(crate) const MAX_DEFERRED: usize = 100;

impl Broker {
    /// Moves the messages of up to [`MAX_DEFERRED`] slots to the timetable: each by its wire id, under its id, with its
    /// delay.
    pub(crate) async fn defer(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        messages: &[(&str, CallId, Duration)],
    ) -> Result<Vec<Scheduled>, BrokerError> {
        let script_keys = [keys.processing.as_str(), worker_key, &keys.due, &keys.later, &keys.timetable];
        let bytes = messages.iter().map(|(id, ..)| id.len() + 48).sum::<usize>() + keys.queue.len();
        let mut command = script::DEFER.command(&script_keys, 2 + 3 * messages.len(), bytes + 16);
        command.arg(seq).arg(&keys.queue);
        for (wire_id, id, wait) in messages {
            command.arg(*wire_id).arg(&id.as_bytes()[..]).arg(milliseconds(*wait));
        }
        let reply = script::DEFER.run(&mut self.commands.clone(), command).await?;
        let scheduled = |value| match value {
            Value::Int(1) => Ok(Scheduled::Done),
            Value::Int(0) => Ok(Scheduled::Lost),
            Value::Int(-1) => Ok(Scheduled::Refused),
            other => Err(script::DEFER.unexpected(&other)),
        };
        script::DEFER.array(reply)?.into_iter().map(scheduled).collect()
    }
}
