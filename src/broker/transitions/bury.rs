//! Bury: moves a message from its slot to the dead letters.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::keys::QueueKeys;

/// How many dead letters a queue keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadLimits {
    pub(crate) max_count: u64,
    pub(crate) max_age: Duration,
}

/// The arguments of `bury`.
#[derive(Debug)]
pub(crate) struct BuryRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) seq: u64,
    pub(crate) wire_id: &'a str,
    pub(crate) limits: DeadLimits,
    /// One word.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) detail: &'a str,
    pub(crate) attempt: u32,
    /// `host/pid/worker id`.
    pub(crate) place: &'a str,
    /// The shortened output of its process.
    pub(crate) output: &'a str,
}

/// The reply of `bury`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Buried {
    /// The message is a dead letter with this id; `trimmed` older ones were dropped.
    Done { letter: String, trimmed: u64 },
    /// The slot no longer owned a message.
    Lost,
    /// The key of the dead letters holds another type. The slot still owns its message.
    WrongType,
}

impl Broker {
    /// Moves a message from its slot to the dead letters.
    pub(crate) async fn bury(&self, keys: &QueueKeys, ask: &BuryRequest<'_>) -> Result<Buried, BrokerError> {
        let script_keys = [&keys.processing, ask.worker_key, &keys.dead, &keys.deaths];
        let bytes = ask.detail.len() + ask.wire_id.len() + ask.place.len() + ask.output.len() + 128;
        let mut command = script::BURY.command(&script_keys, 9, bytes);
        command
            .arg(ask.seq)
            .arg(ask.wire_id)
            .arg(ask.limits.max_count)
            .arg(milliseconds(ask.limits.max_age))
            .arg(ask.reason)
            .arg(ask.detail)
            .arg(ask.attempt)
            .arg(ask.place)
            .arg(ask.output);
        match script::BURY.run(&mut self.commands.clone(), command).await? {
            Value::Array(reply) => match reply.as_slice() {
                [Value::Int(1), Value::Int(trimmed), Value::BulkString(id)] => Ok(Buried::Done {
                    letter: String::from_utf8_lossy(id).into_owned(),
                    trimmed: trimmed.unsigned_abs(),
                }),
                [Value::Int(0), ..] => Ok(Buried::Lost),
                [Value::Int(-1), ..] => Ok(Buried::WrongType),
                _ => Err(script::BURY.unexpected(&Value::Array(reply))),
            },
            reply => Err(script::BURY.unexpected(&reply)),
        }
    }
}
