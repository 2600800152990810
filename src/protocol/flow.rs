//! Defines flows: the tree of steps that travels as one message, its numbered nodes in Redis, and what a step says of the flow
//! it belongs to.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader};
use crate::protocol::encode::{self, EncodeError};
use crate::protocol::message::{Message, MessageError};
use crate::protocol::meta;
use crate::protocol::names::QueueName;
use crate::protocol::plan_error::{MAX_NESTING, MAX_STEPS, PlanError};

/// The path of the task that begins a flow. It is built into each worker.
pub(crate) const TASK: &str = "delayed.flow";

/// The shortest time for which what is known of a flow is kept after its end: a worker that died right after it began the flow
/// has long been found then.
pub(crate) const SHORTEST_KEEP_MS: u64 = 600_000;

/// A whole flow, as the argument of [`TASK`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The whole flow.
    pub(crate) root: Node,
    /// The call that is made if the flow fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_error: Option<Step>,
}

/// A part of a flow: has exactly one of `step`, `chain` and `group`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// One call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<Box<Step>>,
    /// Parts that run one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<Vec<Self>>,
    /// Parts that run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<Vec<Self>>,
    /// How many members of a group may run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<u32>,
    /// When a group fails.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub(crate) policy: Policy,
}

/// When a group fails, and when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Policy {
    /// It waits for all its members, and fails if one of them failed.
    #[default]
    #[serde(rename = "a")]
    WaitForAll,
    /// It fails with its first member that fails, and cancels the others.
    #[serde(rename = "f")]
    FailFast,
    /// It waits for all its members, and goes on with the results of those that succeeded.
    #[serde(rename = "s")]
    Successes,
}

/// A call of a flow. Times are in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The name of its queue.
    pub(crate) queue: String,
    /// Its message, without an id. If it takes the result of the step before it, its first argument is nil.
    pub(crate) message: ByteBuf,
    /// Whether it takes the result of the step before it as its first argument.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) takes: bool,
    /// How long after it could run it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u64>,
    /// When it is due, since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<u64>,
    /// How long after it could run it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<u64>,
    /// Whether it goes to the head of its queue.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) front: bool,
    /// For how long its lock holds, for a lock with a fixed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) period: Option<u64>,
    /// How many calls may wait in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_len: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Policy {
    /// Its letter, as it travels.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::WaitForAll => "a",
            Self::FailFast => "f",
            Self::Successes => "s",
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::WaitForAll
    }
}

impl Node {
    /// A part that is one step.
    pub(crate) fn of_step(step: Step) -> Self {
        Self { step: Some(Box::new(step)), ..Self::default() }
    }

    /// The queue of its first step.
    pub(crate) fn first_queue(&self) -> Option<&str> {
        match &self.step {
            Some(step) => Some(&step.queue),
            None => self.parts().iter().find_map(Self::first_queue),
        }
    }

    fn parts(&self) -> &[Self] {
        self.chain.as_deref().or(self.group.as_deref()).unwrap_or_default()
    }
}

/// What a numbered node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Chain,
    Group { at_most: u32, policy: Policy },
}

/// A node of a flow as Redis has it. Nodes are numbered level by level, so that those of one parent stand in a row; 0 is the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlatNode {
    pub(crate) kind: Kind,
    /// `None` for the root, and for the call that is made if the flow fails.
    pub(crate) parent: Option<u32>,
    /// Its place among the parts of its parent.
    pub(crate) place: u32,
    /// The number of its first part.
    pub(crate) first: u32,
    /// The number of its parts.
    pub(crate) count: u32,
}

/// All nodes of a flow, each with its step if it is one.
#[derive(Debug)]
pub(crate) struct FlatPlan<'a> {
    pub(crate) nodes: Vec<(FlatNode, Option<&'a Step>)>,
    /// The number of the call that is made if the flow fails: the last one.
    pub(crate) on_error: Option<u32>,
    /// The number of steps, without that one.
    pub(crate) steps: u32,
}

impl Plan {
    /// Numbers the nodes.
    ///
    /// # Errors
    /// The plan cannot be run.
    pub(crate) fn flatten(&self) -> Result<FlatPlan<'_>, PlanError> {
        let mut nodes = Vec::new();
        let mut level = vec![(&self.root, None, 0)];
        let (mut begin, mut steps) = (0, 0);
        for depth in 0.. {
            if level.is_empty() {
                break;
            }
            if depth > MAX_NESTING {
                return Err(PlanError::TooDeep);
            }
            if begin as usize + level.len() > MAX_STEPS {
                return Err(PlanError::TooLarge);
            }
            let mut next = Vec::new();
            let first_of_next = begin + level.len() as u32;
            for (number, (node, parent, place)) in (begin..).zip(level) {
                let first = first_of_next + next.len() as u32;
                let parts = node.parts();
                let kind = match (&node.step, &node.chain, &node.group) {
                    (Some(_), None, None) => Kind::Step,
                    (None, Some(chain), None) if chain.is_empty() => return Err(PlanError::EmptyChain),
                    (None, Some(_), None) => Kind::Chain,
                    (None, None, Some(_)) => {
                        Kind::Group { at_most: node.at_most.unwrap_or(0), policy: node.policy }
                    }
                    _ => return Err(PlanError::Part),
                };
                steps += u32::from(kind == Kind::Step);
                next.extend((0..).zip(parts).map(|(place, part)| (part, Some(number), place)));
                let count = parts.len() as u32;
                nodes.push((FlatNode { kind, parent, place, first, count }, node.step.as_deref()));
            }
            begin = first_of_next;
            level = next;
        }
        let on_error = self.on_error.as_ref().map(|step| {
            nodes.push((
                FlatNode { kind: Kind::Step, parent: None, place: 0, first: 0, count: 0 },
                Some(step),
            ));
            nodes.len() as u32 - 1
        });
        Ok(FlatPlan { nodes, on_error, steps })
    }
}

impl FlatNode {
    /// As Redis has it, and scripts read it: kind, parent, place, first part, number of parts, how many may run at a time, policy.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, at_most, policy) = match self.kind {
            Kind::Step => ("s", 0, ""),
            Kind::Chain => ("c", 0, ""),
            Kind::Group { at_most, policy } => ("g", at_most, policy.letter()),
        };
        let mut out = Vec::with_capacity(16);
        encode::array_head(&mut out, 7);
        encode::text(&mut out, kind);
        match self.parent {
            Some(parent) => out.extend_from_slice(encode::integer(parent.into()).as_slice()),
            None => out.extend_from_slice(encode::signed_integer(-1).as_slice()),
        }
        for number in [self.place, self.first, self.count, at_most] {
            out.extend_from_slice(encode::integer(number.into()).as_slice());
        }
        encode::text(&mut out, policy);
        out
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let Head::Array(7) = reader.head().ok()? else { return None };
        let kind = text(&mut reader)?;
        let parent = match reader.head().ok()? {
            Head::Unsigned(parent) => Some(u32::try_from(parent).ok()?),
            Head::Negative(_) => None,
            _ => return None,
        };
        let mut number = || match reader.head().ok()? {
            Head::Unsigned(number) => u32::try_from(number).ok(),
            _ => None,
        };
        let (place, first, count, at_most) = (number()?, number()?, number()?, number()?);
        let policy = match text(&mut reader)? {
            b"f" => Policy::FailFast,
            b"s" => Policy::Successes,
            _ => Policy::WaitForAll,
        };
        let kind = match kind {
            b"s" => Kind::Step,
            b"c" => Kind::Chain,
            b"g" => Kind::Group { at_most, policy },
            _ => return None,
        };
        Some(Self { kind, parent, place, first, count })
    }
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    match reader.head().ok()? {
        Head::Str(length) => Some(reader.take(length)),
        _ => None,
    }
}

/// Of which flow a call is a step: what its message says under `m`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The flow.
    pub(crate) flow: CallId,
    /// The number of the step.
    pub(crate) number: u32,
    /// How often the step was begun again by an operator.
    pub(crate) round: u32,
    /// The queue in whose slot the flow is kept.
    pub(crate) home: QueueName,
}

impl Member {
    /// The id of the call. Two rounds of a step, and two steps of a flow, have different ones.
    pub(crate) fn call_id(&self) -> CallId {
        let mut bytes = *self.flow.as_bytes();
        let number = self.number.wrapping_add(1).to_be_bytes();
        bytes[12..].iter_mut().zip(number).for_each(|(byte, of_number)| *byte ^= of_number);
        let round = (self.round as u16).to_be_bytes();
        bytes[10..12].iter_mut().zip(round).for_each(|(byte, of_round)| *byte ^= of_round);
        CallId::from_bytes(bytes)
    }

    /// As it travels.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (number, round) = (self.number.to_be_bytes(), self.round.to_be_bytes());
        [&self.flow.as_bytes()[..], &number, &round, self.home.as_str().as_bytes()].concat()
    }

    /// Reads the bytes of `m`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (flow, rest) = bytes.split_first_chunk::<16>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (round, home) = rest.split_first_chunk::<4>()?;
        let home = QueueName::parse(std::str::from_utf8(home).ok()?).ok()?;
        let (number, round) = (u32::from_be_bytes(*number), u32::from_be_bytes(*round));
        Some(Self { flow: CallId::from_bytes(*flow), number, round, home })
    }
}

impl Message<'_> {
    /// The bytes that say of which flow the call is a step, if it is one.
    pub(crate) fn member(&self) -> Option<&[u8]> {
        let mut reader = Reader::new(self.pairs().find(b"m")?);
        match reader.head().ok()? {
            Head::Bin(length) if length > 24 => Some(reader.take(length)),
            _ => None,
        }
    }
}

impl Step {
    /// The path of its task.
    pub(crate) fn task(&self) -> &str {
        Message::decode(&self.message).map_or("", |message| message.task())
    }

    /// The message of this step as a member of a flow, with `first` as its first argument if it takes one. Its record is kept for
    /// `keep_ms`, unless its message says so.
    ///
    /// # Errors
    /// The message is malformed.
    pub(crate) fn message_of(
        &self,
        member: &Member,
        keep_ms: u64,
        expires_ms: Option<u64>,
        first: Option<&[u8]>,
    ) -> Result<Vec<u8>, MessageError> {
        let message = Message::decode(&self.message)?;
        let payload = message.payload();
        let with_first = first.and_then(|first| replace_first(payload, first));
        let payload = with_first.as_deref().unwrap_or(payload);
        let (mut id, mut of_flow) = (Vec::new(), Vec::new());
        encode::bytes(&mut id, member.call_id().as_bytes());
        encode::bytes(&mut of_flow, &member.encode());
        let keep = encode::integer(keep_ms);
        let expires = expires_ms.map(encode::integer);
        let mut pairs: Vec<meta::Pair<'_>> = message.pairs().without(&[b"d", b"i", b"m"]).collect();
        if message.pairs().find(b"s").and_then(meta::keep).is_none_or(|keep| keep == 0) {
            pairs.retain(|(key, _)| meta::name(key) != Some(b"s"));
            pairs.push((meta::KEEP, keep.as_slice()));
        }
        if let Some(expires) = &expires {
            pairs.push((meta::EXPIRES, expires.as_slice()));
        }
        pairs.push((meta::ID, &id));
        pairs.push((meta::MEMBER, &of_flow));
        Ok(encode::frame(message.task(), payload, pairs))
    }
}

/// The payload with this value in the place of its first argument, which is nil: by itself, or at the head of an array.
fn replace_first(payload: &[u8], first: &[u8]) -> Option<Vec<u8>> {
    if matches!(payload, [] | [0xc0]) {
        return Some(first.to_vec());
    }
    let mut reader = Reader::new(payload);
    let Ok(Head::Array(1..)) = reader.head() else { return None };
    let rest = reader.rest.strip_prefix(&[0xc0])?;
    let head = &payload[..payload.len() - reader.rest.len()];
    Some([head, first, rest].concat())
}

/// The results of a group, as one value.
pub(crate) fn array_of(results: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(results.iter().map(Vec::len).sum::<usize>() + 5);
    encode::array_head(&mut out, results.len());
    results.iter().for_each(|result| out.extend_from_slice(result));
    out
}

/// Encodes a plan or a step.
///
/// # Errors
/// It is too large.
pub(crate) fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encode::with_maps(value)
        .map_err(|error| EncodeError::Argument { name: "flow", reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(task: &str) -> Node {
        let message = ByteBuf::from(encode::go_task(task, &[0xc0]));
        Node::of_step(Step { queue: "q".into(), message, ..Step::default() })
    }

    fn group(parts: Vec<Node>) -> Node {
        Node { group: Some(parts), ..Node::default() }
    }

    fn chain(parts: Vec<Node>) -> Node {
        Node { chain: Some(parts), ..Node::default() }
    }

    #[test]
    fn nodes_are_numbered_level_by_level() {
        let root =
            chain(vec![step("a"), group(vec![step("c"), chain(vec![step("e"), step("f")])]), step("b")]);
        let Node { step: on_error, .. } = step("alert");
        let plan = Plan { root, on_error: on_error.map(|step| *step) };
        let decoded: Plan = crate::protocol::decode::from_slice(&encoded(&plan).unwrap()).unwrap();
        assert_eq!(decoded, plan);
        let flat = plan.flatten().unwrap();
        let seen: Vec<_> = flat
            .nodes
            .iter()
            .map(|(node, step)| {
                (node.parent, node.place, node.first, node.count, step.map_or("", |s| s.task()))
            })
            .collect();
        let expected = [
            (None, 0, 1, 3, ""),
            (Some(0), 0, 4, 0, "a"),
            (Some(0), 1, 4, 2, ""),
            (Some(0), 2, 6, 0, "b"),
            (Some(2), 0, 6, 0, "c"),
            (Some(2), 1, 6, 2, ""),
            (Some(5), 0, 8, 0, "e"),
            (Some(5), 1, 8, 0, "f"),
            (None, 0, 0, 0, "alert"),
        ];
        assert_eq!(seen, expected);
        assert_eq!((flat.steps, flat.on_error), (5, Some(8)));
        for (node, _) in &flat.nodes {
            assert_eq!(FlatNode::decode(&node.encode()).as_ref(), Some(node));
        }
    }

    #[test]
    fn plans_that_cannot_be_run_are_refused() {
        let refused = |root| Plan { root, on_error: None }.flatten().map(|flat| flat.steps);
        assert_eq!(refused(Node::default()), Err(PlanError::Part));
        assert_eq!(refused(chain(vec![])), Err(PlanError::EmptyChain));
        assert_eq!(refused(group(vec![])), Ok(0));
        let nested = |levels| (0..levels).fold(step("a"), |inner, _| chain(vec![inner]));
        assert_eq!(refused(nested(MAX_NESTING)), Ok(1));
        assert_eq!(refused(nested(MAX_NESTING + 1)), Err(PlanError::TooDeep));
        let both = Node { group: Some(vec![]), ..step("a") };
        assert_eq!(refused(both), Err(PlanError::Part));
    }

    #[test]
    fn step_gets_its_id_its_flow_and_its_first_argument() {
        let member = Member {
            flow: CallId::from("order:7"),
            number: 3,
            round: 0,
            home: QueueName::parse("mail").unwrap(),
        };
        assert_eq!(Member::decode(&member.encode()), Some(member.clone()));
        assert_eq!(Member::decode(&member.encode()[..24]), None, "expected a queue");
        let others = [Member { number: 4, ..member.clone() }, Member { round: 1, ..member.clone() }];
        assert!(others.iter().all(|other| other.call_id() != member.call_id()));
        assert_ne!(member.call_id(), member.flow);

        let message = |payload: &[u8], first: Option<&[u8]>| {
            let step = Step { message: ByteBuf::from(encode::go_task("f", payload)), ..Step::default() };
            step.message_of(&member, 1000, Some(5), first).unwrap()
        };
        let made = message(b"\x92\xc0\x01", Some(b"\x93\x01\x02\x03"));
        let read = Message::decode(&made).unwrap();
        assert_eq!(read.payload(), b"\x92\x93\x01\x02\x03\x01");
        assert_eq!((read.id(), read.member()), (Some(member.call_id()), Some(&member.encode()[..])));
        assert_eq!((read.keeps_result(), read.expires_ms()), (true, Some(5)));
        let alone = message(b"\xc0", Some(b"\xa1x"));
        assert_eq!(Message::decode(&alone).unwrap().payload(), b"\xa1x");
        let immutable = message(b"\x05", None);
        assert_eq!(Message::decode(&immutable).unwrap().payload(), b"\x05");
        let (flow, home) = (CallId::from("00112233445566778899aabbccddeeff"), QueueName::parse("q").unwrap());
        let golden = Member { flow, round: 1, home, ..member };
        let message = ByteBuf::from(encode::go_task("demo::tasks::add", b"\x92\x01\x02"));
        let made = Step { message, ..Step::default() }.message_of(&golden, 86_400_000, None, None);
        let hex: String = made.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../../tests/wire/native.json").contains(&hex), "expected a vector {hex}");
    }
}
