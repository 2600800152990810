//! Retry later: moves a message from its slot to the timetable.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// The arguments of `retry_later`.
#[derive(Debug)]
pub(crate) struct RetryLaterRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) seq: u64,
    pub(crate) wire_id: &'a str,
    /// The message for the next attempt, with this id.
    pub(crate) message: &'a [u8],
    pub(crate) id: CallId,
    pub(crate) delay: Duration,
    /// The errors of failed attempts for the record of the call; empty for none.
    pub(crate) errors: &'a [u8],
}

/// The reply of `retry_later`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// The message is in the timetable.
    Done,
    /// The slot no longer owned a message.
    Lost,
    /// The timetable already has this id, or cannot be used. The slot still owns its message.
    Refused,
}

impl Broker {
    /// Moves a message from its slot to the timetable.
    pub(crate) async fn retry_later(
        &self,
        keys: &QueueKeys,
        ask: &RetryLaterRequest<'_>,
    ) -> Result<Scheduled, BrokerError> {
        let script_keys =
            [&keys.processing, ask.worker_key, &keys.deaths, &keys.due, &keys.later, &keys.timetable];
        let bytes = ask.wire_id.len() + ask.message.len() + ask.errors.len() + 64;
        let mut command = script::RETRY_LATER.command(&script_keys, 6, bytes);
        command
            .arg(ask.seq)
            .arg(ask.wire_id)
            .arg(ask.message)
            .arg(&ask.id.as_bytes()[..])
            .arg(milliseconds(ask.delay))
            .arg(ask.errors);
        match script::RETRY_LATER.run(&mut self.commands.clone(), command).await? {
            Value::Int(1) => Ok(Scheduled::Done),
            Value::Int(0) => Ok(Scheduled::Lost),
            Value::Int(-1) => Ok(Scheduled::Refused),
            reply => Err(script::RETRY_LATER.unexpected(&reply)),
        }
    }
}
