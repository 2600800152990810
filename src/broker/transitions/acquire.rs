//! Acquire: asks a limit whether calls may run now.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::limit::LimitKeys;

/// Maximum number of calls for which one script call asks.
pub(crate) const MAX_ACQUIRED: usize = 100;

/// The answer of a limit to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call may run, and holds the limit.
    Granted,
    /// The call may run after that time.
    Later(Duration),
    /// The call waits in the line of the limit.
    Waits,
    /// The limit has no policy: the call may run, and holds nothing.
    Unlimited,
}

impl Broker {
    /// Asks a limit for up to [`MAX_ACQUIRED`] calls, each with its holder name and its entry in the line. Returns the
    /// answer for each, and the entries of other calls that may run now.
    pub(crate) async fn acquire(
        &self,
        keys: &LimitKeys,
        lease: Duration,
        calls: &[(&str, &str)],
    ) -> Result<(Vec<Verdict>, Vec<String>), BrokerError> {
        let bytes = calls.iter().map(|(holder, entry)| holder.len() + entry.len() + 16).sum::<usize>();
        let mut command = script::ACQUIRE.command(&keys.all(), 1 + 2 * calls.len(), bytes + 16);
        command.arg(milliseconds(lease));
        for (holder, entry) in calls {
            command.arg(*holder).arg(*entry);
        }
        let reply = script::ACQUIRE.run(&mut self.commands.clone(), command).await?;
        let mut reply = script::ACQUIRE.array(reply)?.into_iter();
        let answers = script::ACQUIRE.array(reply.next().unwrap_or(Value::Nil))?;
        let verdicts = answers.into_iter().map(|answer| match answer {
            Value::Int(-2) => Ok(Verdict::Unlimited),
            Value::Int(-1) => Ok(Verdict::Waits),
            Value::Int(0) => Ok(Verdict::Granted),
            Value::Int(wait) => Ok(Verdict::Later(Duration::from_millis(wait.unsigned_abs()))),
            other => Err(script::ACQUIRE.unexpected(&other)),
        });
        Ok((verdicts.collect::<Result<_, _>>()?, texts(&script::ACQUIRE, reply)?))
    }
}

/// Parses entries of the line, or digests.
pub(super) fn texts(
    script: &script::Script,
    values: impl Iterator<Item = Value>,
) -> Result<Vec<String>, BrokerError> {
    let text = |value| match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        other => Err(script.unexpected(&other)),
    };
    values.map(text).collect()
}
