//! Pause: stops workers from claiming from a queue.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::script::{self, Script};
use crate::protocol::keys::QueueKeys;

/// A pause of a queue, as stored in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paused {
    /// When it began, in milliseconds since 1970 by the server's clock.
    pub(crate) since_ms: u64,
    pub(crate) by: String,
}

impl Paused {
    /// Parses `since by`; `None` if the value is another program's.
    pub(in crate::broker) fn parse(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let (since, by) = text.split_once(' ')?;
        Some(Self { since_ms: since.parse().ok()?, by: by.to_owned() })
    }

    pub(super) fn read(script: &Script, reply: &Value) -> Result<Self, BrokerError> {
        match reply {
            Value::BulkString(text) => Self::parse(text).ok_or_else(|| script.unexpected(reply)),
            _ => Err(script.unexpected(reply)),
        }
    }
}

impl Broker {
    /// Pauses a queue unless it is paused already. Returns the pause, and whether it is new.
    pub(crate) async fn pause(&self, keys: &QueueKeys, by: &str) -> Result<(Paused, bool), BrokerError> {
        let mut command = script::PAUSE.command(&[&keys.paused], 2, by.len() + keys.paused_channel.len());
        command.arg(by).arg(&keys.paused_channel);
        let reply = script::PAUSE.run(&mut self.commands.clone(), command).await?;
        match &script::PAUSE.array(reply)?[..] {
            [Value::Int(is_new), pause] => Ok((Paused::read(&script::PAUSE, pause)?, *is_new == 1)),
            reply => Err(script::PAUSE.unexpected(&Value::Array(reply.to_vec()))),
        }
    }

    /// The pause of a queue. `None` if it is not paused, or the key is another program's.
    pub(crate) async fn paused(&self, keys: &QueueKeys) -> Result<Option<Paused>, BrokerError> {
        match self.read::<Option<Vec<u8>>>("paused", redis::cmd("GET").arg(&keys.paused)).await {
            Err(error) if error.kind() == BrokerErrorKind::WrongType => Ok(None),
            text => Ok(text?.and_then(|text| Paused::parse(&text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_read_with_its_time_and_any_name() {
        let paused = |text: &str| Paused::parse(text.as_bytes()).map(|paused| (paused.since_ms, paused.by));
        assert_eq!(paused("17 ann at home"), Some((17, "ann at home".into())));
        assert_eq!(paused("17 "), Some((17, String::new())));
        for other in ["", "17", "ann", "x 17", "-1 ann"] {
            assert_eq!(paused(other), None, "{other:?}");
        }
    }
}
