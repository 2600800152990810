//! Kill: requests that a worker end the run of a slot.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::keys::{self, QueueKeys};

/// Maximum number of pending kill requests for one worker on one queue.
const MOST: usize = 100;

/// The arguments of `kill`.
#[derive(Debug)]
pub(crate) struct NewKillRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) orders_key: &'a str,
    pub(crate) wire_id: &'a str,
    /// SHA-1 of the message whose run is to end.
    pub(crate) digest: &'a str,
    pub(crate) by: &'a str,
    /// The request expires after this time.
    pub(crate) expiry: Duration,
}

/// The result of `kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillAdded {
    /// The request is pending.
    Yes,
    /// The slot owns nothing, or another message.
    Moved,
    /// The slot's worker is dead.
    Dead,
    /// Too many requests are already pending.
    TooMany,
}

impl Broker {
    /// Requests that the worker of a slot end its run, if it is still that of this message.
    pub(crate) async fn kill(
        &self,
        keys: &QueueKeys,
        ask: &NewKillRequest<'_>,
    ) -> Result<KillAdded, BrokerError> {
        let answer = keys::answer(ask.wire_id);
        let script_keys =
            [keys.processing.as_str(), ask.worker_key, ask.wire_id, ask.orders_key, answer.as_str()];
        let bytes = ask.wire_id.len() + ask.digest.len() + ask.by.len() + 32;
        let mut command = script::KILL.command(&script_keys, 5, bytes);
        command.arg(ask.wire_id).arg(ask.digest).arg(ask.by).arg(milliseconds(ask.expiry)).arg(MOST);
        match script::KILL.run(&mut self.commands.clone(), command).await? {
            Value::Int(1) => Ok(KillAdded::Yes),
            Value::Int(0) => Ok(KillAdded::Moved),
            Value::Int(-1) => Ok(KillAdded::Dead),
            Value::Int(-2) => Ok(KillAdded::TooMany),
            reply => Err(script::KILL.unexpected(&reply)),
        }
    }
}
