//! Finish: releases messages whose calls are tracked or unique, and records how they ended.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;
use crate::protocol::tracking::Tracking;

/// How a call ended: see `lua/finish.lua`.
#[derive(Debug)]
pub(crate) struct FinishedCall<'a> {
    pub(crate) wire_id: &'a str,
    pub(crate) tracking: &'a Tracking,
    /// Of which flow it is a step, as in its message; empty: of none.
    pub(crate) member: &'a [u8],
    /// The state in which the call ended.
    pub(crate) state: &'static str,
    pub(crate) took: Duration,
    pub(crate) attempt: u32,
    /// One more field of the record, and its value.
    pub(crate) field: Option<(&'static str, &'a [u8])>,
}

/// Maximum number of calls that one script call finishes.
pub(crate) const MAX_FINISHED: usize = 100;
/// The number of arguments for each call.
const FIELDS: usize = 10;

impl Broker {
    /// Releases the messages of up to [`MAX_FINISHED`] slots, and records how their calls ended. Returns for each slot
    /// whether it still owned its message.
    pub(crate) async fn finish(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        calls: &[FinishedCall<'_>],
    ) -> Result<Vec<bool>, BrokerError> {
        let script_keys = [&keys.processing, worker_key, &keys.deaths, &keys.cancelled];
        let field = |call: &FinishedCall<'_>| call.field.map_or(0, |(_, value)| value.len());
        let bytes: usize =
            calls.iter().map(|call| call.wire_id.len() + call.member.len() + field(call) + 128).sum();
        let mut command =
            script::FINISH.command(&script_keys, 2 + FIELDS * calls.len(), keys.queue.len() + bytes + 16);
        command.arg(seq).arg(&keys.queue);
        for call in calls {
            let Tracking { id, keep_ms, lock } = call.tracking;
            let (name, value) = call.field.unwrap_or_default();
            command
                .arg(call.wire_id)
                .arg(&id.as_bytes()[..])
                .arg(keep_ms.map(|keep| keep.to_string()).unwrap_or_default())
                .arg(lock.as_ref().map_or(&b""[..], |lock| lock.as_bytes()))
                .arg(call.member)
                .arg(call.state)
                .arg(call.took.as_millis() as u64)
                .arg(call.attempt)
                .arg(name)
                .arg(value);
        }
        let reply = script::FINISH.run(&mut self.commands.clone(), command).await?;
        let owned = |value| match value {
            Value::Int(owned) => Ok(owned == 1),
            other => Err(script::FINISH.unexpected(&other)),
        };
        script::FINISH.array(reply)?.into_iter().map(owned).collect()
    }
}
