//! Finish: releases a message whose call is followed or unique, and notes how it ended.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;
use crate::protocol::tracking::Tracking;

/// What a worker asks of `finish`: see `lua/finish.lua`.
#[derive(Debug)]
pub(crate) struct FinishRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) seq: u64,
    pub(crate) wire_id: &'a str,
    pub(crate) tracking: &'a Tracking,
    /// In which the call ended.
    pub(crate) state: &'static str,
    pub(crate) took: Duration,
    pub(crate) attempt: u32,
    /// One more field of the record, and its value.
    pub(crate) field: Option<(&'static str, &'a [u8])>,
}

impl Broker {
    /// Releases the message of a slot, and notes how its call ended. False: the slot owned nothing any more.
    pub(crate) async fn finish(
        &self,
        keys: &QueueKeys,
        ask: &FinishRequest<'_>,
    ) -> Result<bool, BrokerError> {
        let Tracking { id, keep_ms, lock } = ask.tracking;
        let script_keys = [&keys.processing, ask.worker_key, &keys.deaths, &keys.cancelled];
        let more = ask.field.map_or(0, |(_, value)| value.len());
        let mut command =
            script::FINISH.command(&script_keys, 12, ask.wire_id.len() + keys.queue.len() + more + 160);
        command
            .arg(ask.seq)
            .arg(ask.wire_id)
            .arg(&keys.queue)
            .arg(&id.as_bytes()[..])
            .arg(keep_ms.map(|keep| keep.to_string()).unwrap_or_default())
            .arg(lock.as_ref().map_or(&b""[..], |lock| lock.as_bytes()))
            .arg(ask.state)
            .arg(ask.took.as_millis() as u64)
            .arg("attempt")
            .arg(ask.attempt);
        if let Some((field, value)) = ask.field {
            command.arg(field).arg(value);
        }
        match script::FINISH.run(&mut self.commands.clone(), command).await? {
            Value::Int(owned) => Ok(owned == 1),
            reply => Err(script::FINISH.unexpected(&reply)),
        }
    }
}
