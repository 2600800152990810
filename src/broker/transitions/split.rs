//! Split: finishes a batch, and makes messages of the items that failed.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::DeadLimits;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// The arguments of `split`.
#[derive(Debug)]
pub(crate) struct SplitRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) seq: u64,
    pub(crate) wire_id: &'a str,
    pub(crate) limits: DeadLimits,
    /// `host/pid/worker id`.
    pub(crate) place: &'a str,
    pub(crate) items: &'a [SplitItem<'a>],
}

/// An item that failed, with the message that it becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SplitItem<'a> {
    Retry { message: &'a [u8] },
    RetryLater { message: &'a [u8], id: CallId, delay: Duration },
    Bury { message: &'a [u8], detail: &'a str, attempt: u32 },
}

/// The reply of `split`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    /// The ids of the dead letters, in the order of the items; empty for an item that went to the queue instead.
    pub(crate) letters: Vec<String>,
    /// How many older dead letters had to go.
    pub(crate) trimmed: u64,
}

impl Broker {
    /// Finishes a batch, and makes messages of the items that failed. `None` if the slot no longer owned it.
    pub(crate) async fn split(
        &self,
        keys: &QueueKeys,
        ask: &SplitRequest<'_>,
    ) -> Result<Option<Split>, BrokerError> {
        let script_keys = [
            keys.processing.as_str(),
            ask.worker_key,
            &keys.deaths,
            &keys.queue,
            &keys.notifications,
            &keys.due,
            &keys.later,
            &keys.timetable,
            &keys.dead,
        ];
        let bytes = ask.items.iter().map(SplitItem::bytes).sum::<usize>() + ask.place.len() + 128;
        let mut command = script::SPLIT.command(&script_keys, 5 + 5 * ask.items.len(), bytes);
        command
            .arg(ask.seq)
            .arg(ask.wire_id)
            .arg(ask.limits.max_count)
            .arg(milliseconds(ask.limits.max_age))
            .arg(ask.place);
        for item in ask.items {
            match *item {
                SplitItem::Retry { message } => command.arg("").arg(0).arg("").arg(0).arg(message),
                SplitItem::RetryLater { message, id, delay } => {
                    command.arg(&id.as_bytes()[..]).arg(milliseconds(delay)).arg("").arg(0).arg(message)
                }
                SplitItem::Bury { message, detail, attempt } => {
                    command.arg("").arg(0).arg(detail).arg(attempt).arg(message)
                }
            };
        }
        let reply = script::SPLIT.run(&mut self.commands.clone(), command).await?;
        let reply = script::SPLIT.array(reply)?;
        match reply.as_slice() {
            [Value::Int(0), ..] => Ok(None),
            [Value::Int(1), Value::Int(trimmed), Value::Array(letters)] => {
                let text = |letter: &Value| match letter {
                    Value::BulkString(id) => Ok(String::from_utf8_lossy(id).into_owned()),
                    other => Err(script::SPLIT.unexpected(other)),
                };
                let letters = letters.iter().map(text).collect::<Result<_, _>>()?;
                Ok(Some(Split { letters, trimmed: trimmed.unsigned_abs() }))
            }
            _ => Err(script::SPLIT.unexpected(&Value::Array(reply))),
        }
    }
}

impl SplitItem<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Retry { message } | Self::RetryLater { message, .. } => message.len() + 48,
            Self::Bury { message, detail, .. } => message.len() + detail.len() + 48,
        }
    }
}
