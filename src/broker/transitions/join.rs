//! Join: records how steps of a flow ended, and notes what follows from that.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::flow_keys::FlowKeys;
use crate::broker::script;
use crate::protocol::call_id::CallId;

/// How a step ended: see `lua/join.lua`.
#[derive(Debug, Clone)]
pub(crate) struct Ended<'a> {
    /// The number of the step.
    pub(crate) number: u32,
    pub(crate) round: u32,
    /// The state in which it ended.
    pub(crate) state: &'a str,
    /// `result` or `reason`, and its value.
    pub(crate) field: Option<(&'static str, &'a [u8])>,
}

/// Something to be done for a flow: an entry of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToDo {
    pub(crate) flow: CallId,
    pub(crate) kind: ToDoKind,
    /// The number of the node.
    pub(crate) number: u32,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToDoKind {
    /// Begin the steps of a node that may run.
    Open,
    /// Cancel the steps of a node.
    Cancel,
    /// End the flow.
    Close,
}

/// Maximum number of steps that one script call records.
pub(crate) const MAX_JOINED: usize = 100;

impl ToDoKind {
    const LETTERS: [(Self, u8); 3] = [(Self::Open, b'o'), (Self::Cancel, b'x'), (Self::Close, b'e')];
}

impl ToDo {
    /// Reads the field of an outbox; `None` if it is something else.
    pub(crate) fn read(field: &[u8]) -> Option<Self> {
        let (flow, rest) = field.split_first_chunk::<16>()?;
        let (letter, number) = rest.split_first()?;
        let (kind, _) = ToDoKind::LETTERS.into_iter().find(|(_, other)| other == letter)?;
        Some(Self {
            flow: CallId::from_bytes(*flow),
            kind,
            number: u32::from_be_bytes(number.try_into().ok()?),
        })
    }

    /// As it stands in the outbox.
    pub(crate) fn field(&self) -> Vec<u8> {
        let letter =
            ToDoKind::LETTERS.iter().find(|(kind, _)| *kind == self.kind).map_or(b'o', |(_, letter)| *letter);
        [&self.flow.as_bytes()[..], &[letter], &self.number.to_be_bytes()].concat()
    }
}

impl Broker {
    /// Records how up to [`MAX_JOINED`] steps of a flow ended. Returns what is to be done next; it stands in the outbox.
    pub(crate) async fn join(&self, keys: &FlowKeys, ended: &[Ended<'_>]) -> Result<Vec<ToDo>, BrokerError> {
        let field = |step: &Ended<'_>| step.field.map_or(0, |(_, value)| value.len());
        let bytes: usize = ended.iter().map(|step| field(step) + 64).sum();
        let script_keys = [keys.flow.as_str(), &keys.home.outbox];
        let mut command = script::JOIN.command(&script_keys, 1 + 5 * ended.len(), bytes);
        command.arg(&keys.id.as_bytes()[..]);
        for step in ended {
            let (name, value) = step.field.unwrap_or_default();
            command.arg(step.number).arg(step.round).arg(step.state).arg(name).arg(value);
        }
        let reply = script::JOIN.run(&mut self.commands.clone(), command).await?;
        let to_do = |value| match &value {
            Value::BulkString(field) => ToDo::read(field).ok_or_else(|| script::JOIN.unexpected(&value)),
            other => Err(script::JOIN.unexpected(other)),
        };
        script::JOIN.array(reply)?.into_iter().map(to_do).collect()
    }
}
