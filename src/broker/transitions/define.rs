//! Define: creates, changes, removes, pauses and resumes periodic tasks.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

/// Maximum number of periodic tasks that one script call changes.
pub(crate) const MAX_DEFINED: usize = 500;

/// What to do with periodic tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates them, or replaces those of their names.
    Put,
    /// Creates them, unless there are tasks of their names.
    New,
    Remove,
    Pause,
    Resume,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::New => "new",
            Self::Remove => "remove",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

/// What became of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    New,
    Replaced,
    Removed,
    Paused,
    Resumed,
    /// It was so already.
    Same,
    /// There is one of this name: nothing was changed.
    Exists,
    /// There is none of this name.
    Absent,
    /// Its time has passed: nothing was changed.
    Late,
}

impl Changed {
    fn parse(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"new" => Self::New,
            b"changed" => Self::Replaced,
            b"removed" => Self::Removed,
            b"paused" => Self::Paused,
            b"resumed" => Self::Resumed,
            b"same" => Self::Same,
            b"exists" => Self::Exists,
            b"absent" => Self::Absent,
            b"late" => Self::Late,
            _ => return None,
        })
    }
}

impl Broker {
    /// Changes up to [`MAX_DEFINED`] periodic tasks of one queue, given as names, texts (a definition, or who pauses them)
    /// and when they are due next, in milliseconds since 1970. With `takes_late`, also one whose time has passed.
    pub(crate) async fn define(
        &self,
        keys: &QueueKeys,
        change: Change,
        takes_late: bool,
        tasks: &[(&str, &[u8], u64)],
    ) -> Result<Vec<Changed>, BrokerError> {
        let script_keys = [keys.due.as_str(), &keys.periodic, &keys.timetable];
        let bytes: usize = tasks.iter().map(|(name, text, _)| name.len() + text.len() + 48).sum();
        let mut command =
            script::DEFINE.command(&script_keys, 4 + 3 * tasks.len(), bytes + 2 * keys.queue.len() + 16);
        command.arg(&keys.queue).arg(&keys.due_channel).arg(change.word()).arg(u8::from(takes_late));
        for (name, text, due) in tasks {
            command.arg(*name).arg(*text).arg(*due);
        }
        let reply = script::DEFINE.run(&mut self.commands.clone(), command).await?;
        let word = |value: Value| match &value {
            Value::BulkString(word) => Changed::parse(word).ok_or_else(|| script::DEFINE.unexpected(&value)),
            _ => Err(script::DEFINE.unexpected(&value)),
        };
        script::DEFINE.array(reply)?.into_iter().map(word).collect()
    }
}
