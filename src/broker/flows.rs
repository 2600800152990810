//! Reads and writes what is known of flows, and the outbox of a queue.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::flow_keys::FlowKeys;
use crate::broker::numbered::Transaction;
use crate::broker::script::milliseconds;
use crate::broker::transitions::ToDo;
use crate::broker::wrong_key;
use crate::crash;
use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader};
use crate::protocol::flow::{FlatNode, Member};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;
use crate::protocol::tracking::Lock;

/// How long an unfinished flow is known without news of it, as for a call: 30 days.
const LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many flows of a queue are listed.
const MOST_LISTED: i64 = 100_000;

/// The names and values of fields, as `HSCAN` returns them.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// An entry of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// How a step ended, for its flow.
    Outcome(Box<Outcome>),
    /// What a flow has to do.
    ToDo(ToDo),
    /// Something that this version does not know.
    Unknown,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) member: Member,
    /// The state in which it ended, as in its record.
    pub(crate) state: String,
    /// `result`, with the encoded result; or `reason`, with why there is none.
    pub(crate) field: Option<(&'static str, Vec<u8>)>,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) node: FlatNode,
    /// How it ended, if it has.
    pub(crate) ended: Option<String>,
    pub(crate) round: u32,
    /// Why it failed.
    pub(crate) reason: Option<String>,
}

/// What is known of a flow as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FlowInfo {
    /// For how many milliseconds it is kept after its end.
    pub(crate) keep_ms: u64,
    /// How it ended; `None`: it has not.
    pub(crate) state: Option<String>,
    /// The number of its steps.
    pub(crate) steps: u32,
    /// How many of them have ended.
    pub(crate) done: u32,
    /// The number of the call that is made if it fails.
    pub(crate) on_error: Option<u32>,
    /// The number of the first step that failed.
    pub(crate) failed: Option<u32>,
    /// When it began, in milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// When it ended.
    pub(crate) ended_ms: Option<u64>,
}

impl Delivery {
    /// Reads an entry, and since when it has been there, in milliseconds since 1970.
    fn read(field: &[u8], value: &[u8]) -> (Self, u64) {
        if let Some(to_do) = ToDo::read(field) {
            let since = std::str::from_utf8(value).ok().and_then(|ms| ms.parse().ok());
            return (Self::ToDo(to_do), since.unwrap_or(0));
        }
        match outcome(value) {
            Some((outcome, since)) => (Self::Outcome(Box::new(outcome)), since),
            None => (Self::Unknown, 0),
        }
    }
}

/// Reads what `note_end` packs: the time, the flow, the state, and names and values.
fn outcome(value: &[u8]) -> Option<(Outcome, u64)> {
    let mut reader = Reader::new(value);
    let Head::Array(count) = reader.head().ok()? else { return None };
    let mut next = || match reader.head().ok()? {
        Head::Str(length) | Head::Bin(length) => Some(reader.take(length).to_vec()),
        Head::Unsigned(number) => Some(number.to_string().into_bytes()),
        Head::Float64(number) => Some(format!("{number:.0}").into_bytes()),
        _ => None,
    };
    let since = String::from_utf8(next()?).ok()?.parse().ok()?;
    let member = Member::decode(&next()?)?;
    let state = String::from_utf8(next()?).ok()?;
    let (mut result, mut words) = (None, [const { String::new() }; 2]);
    for _ in 0..count.saturating_sub(3) / 2 {
        let (name, value) = (next()?, next()?);
        let text = || String::from_utf8_lossy(&value).into_owned();
        match &name[..] {
            b"result" => result = Some(value),
            b"reason" => words[0] = text(),
            b"error" => words[1] = text(),
            b"by" => words[1] = format!("cancelled by {}", text()),
            b"too_large" => {
                words[1] = format!("its result has {} bytes: at most 1 MiB can be passed on", text())
            }
            b"unencodable" => words[1] = format!("its result cannot be encoded: {}", text()),
            _ => {}
        }
    }
    let reason =
        words.iter().filter(|word| !word.is_empty()).map(String::as_str).collect::<Vec<_>>().join(": ");
    let field = match result {
        Some(result) => Some(("result", result)),
        None => (!reason.is_empty()).then(|| ("reason", reason.into_bytes())),
    };
    Some((Outcome { member, state, field }, since))
}

fn text(value: Option<&Vec<u8>>) -> Option<String> {
    value.map(|value| String::from_utf8_lossy(value).into_owned())
}

fn number<T: std::str::FromStr>(value: Option<&Vec<u8>>) -> Option<T> {
    std::str::from_utf8(value?).ok()?.parse().ok()
}

impl Broker {
    /// The entries of an outbox with these names; `None` for one that is gone.
    pub(crate) async fn deliveries(
        &self,
        keys: &QueueKeys,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<Delivery>>, BrokerError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.outbox).arg(names);
        let values: Vec<Option<Vec<u8>>> = self.read_own("deliveries", &command).await?;
        let delivery = |(name, value): (&Vec<u8>, Option<Vec<u8>>)| Some(Delivery::read(name, &value?).0);
        Ok(names.iter().zip(values).map(delivery).collect())
    }

    /// Entries of an outbox from `cursor` on that were there before `until_ms`, and the next cursor; 0: that were all.
    #[cfg_attr(not(feature = "sweeper"), allow(dead_code))]
    pub(crate) async fn old_deliveries(
        &self,
        keys: &QueueKeys,
        cursor: u64,
        until_ms: u64,
    ) -> Result<(u64, Vec<Vec<u8>>), BrokerError> {
        let mut command = redis::cmd("HSCAN");
        command.arg(&keys.outbox).arg(cursor).arg("COUNT").arg(100);
        let (next, pairs): (u64, Pairs) = self.read_own("deliveries", &command).await?;
        let old = pairs.into_iter().filter(|(name, value)| match Delivery::read(name, value) {
            (Delivery::Unknown, _) => false,
            (_, since) => since <= until_ms,
        });
        Ok((next, old.map(|(name, _)| name).collect()))
    }

    /// Removes entries of an outbox.
    pub(crate) async fn drop_deliveries(
        &self,
        keys: &QueueKeys,
        names: &[Vec<u8>],
    ) -> Result<(), BrokerError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("HDEL");
        command.arg(&keys.outbox).arg(names);
        crash::point("drop_deliveries", "before");
        let dropped = self.read_own("deliveries", &command).await;
        crash::point("drop_deliveries", "replied");
        dropped
    }

    /// Writes nodes of a flow: each with its number, and its step if it is one. Writing them again changes nothing.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) async fn write_nodes(
        &self,
        keys: &FlowKeys,
        nodes: &[(u32, FlatNode, Option<Vec<u8>>)],
    ) -> Result<(), BrokerError> {
        let mut pipe = redis::pipe();
        let command = pipe.cmd("HSET").arg(&keys.flow);
        for (number, node, step) in nodes {
            command.arg(format!("n{number}")).arg(node.encode());
            if let Some(step) = step {
                command.arg(format!("s{number}")).arg(&step[..]);
            }
        }
        pipe.cmd("PEXPIRE").arg(&keys.flow).arg(milliseconds(LIFE));
        self.change("write_nodes", keys, &pipe).await
    }

    /// Notes that all nodes of a flow are written, and lists the flow.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) async fn begin_flow(
        &self,
        keys: &FlowKeys,
        info: &FlowInfo,
        lock: Option<Lock>,
        now: Duration,
    ) -> Result<(), BrokerError> {
        let now_ms = milliseconds(now);
        let mut pipe = redis::pipe();
        let command = pipe.cmd("HSET").arg(&keys.flow);
        command.arg("keep").arg(info.keep_ms).arg("steps").arg(info.steps).arg("began").arg(now_ms);
        if let Some(on_error) = info.on_error {
            command.arg("on_error").arg(on_error);
        }
        if let Some(lock) = &lock {
            command.arg("lock").arg(lock.as_bytes());
        }
        pipe.cmd("ZREMRANGEBYSCORE").arg(&keys.home.flows).arg("-inf").arg(now_ms);
        pipe.cmd("ZADD").arg(&keys.home.flows).arg(now_ms + milliseconds(LIFE)).arg(&keys.id.as_bytes()[..]);
        pipe.cmd("ZREMRANGEBYRANK").arg(&keys.home.flows).arg(0).arg(-MOST_LISTED - 1);
        self.change("begin_flow", keys, &pipe).await
    }

    /// What is known of a flow; `None` if it has not begun, or is forgotten.
    pub(crate) async fn flow(&self, keys: &FlowKeys) -> Result<Option<FlowInfo>, BrokerError> {
        let mut command = redis::cmd("HMGET");
        command
            .arg(&keys.flow)
            .arg(&["keep", "state", "steps", "on_error", "failed", "began", "ended", "done"]);
        let values: Vec<Option<Vec<u8>>> = self.read_own("flow", &command).await?;
        let value = |place: usize| values.get(place).and_then(Option::as_ref);
        let Some(keep_ms) = number(value(0)) else { return Ok(None) };
        Ok(Some(FlowInfo {
            keep_ms,
            state: text(value(1)),
            steps: number(value(2)).unwrap_or(0),
            on_error: number(value(3)),
            failed: number(value(4)),
            began_ms: number(value(5)).unwrap_or(0),
            ended_ms: number(value(6)),
            done: number(value(7)).unwrap_or(0),
        }))
    }

    /// Which of these calls are flows that have begun.
    pub(crate) async fn are_flows(
        &self,
        queue: &QueueName,
        ids: &[CallId],
    ) -> Result<Vec<bool>, BrokerError> {
        let mut pipe = redis::pipe();
        for id in ids {
            pipe.cmd("EXISTS").arg(keys::flow(queue, *id));
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = pipe.query_async(&mut self.commands.clone()).await;
        found.map_err(|error| BrokerError::from_redis("flow", &error))
    }

    /// Nodes of a flow; `None` for one that it has not.
    pub(crate) async fn nodes(
        &self,
        keys: &FlowKeys,
        numbers: &[u32],
    ) -> Result<Vec<Option<NodeState>>, BrokerError> {
        let values = self.fields(keys, numbers, &["n", "o", "g", "r"]).await?;
        let node = |values: &[Option<Vec<u8>>]| {
            let [Some(node), ended, round, reason] = values else { return None };
            Some(NodeState {
                node: FlatNode::decode(node)?,
                ended: text(ended.as_ref()),
                round: number(round.as_ref()).unwrap_or(0),
                reason: text(reason.as_ref()),
            })
        };
        Ok(values.chunks(4).map(node).collect())
    }

    /// The encoded steps with these numbers.
    pub(crate) async fn steps(
        &self,
        keys: &FlowKeys,
        numbers: &[u32],
    ) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        self.fields(keys, numbers, &["s"]).await
    }

    /// The encoded results of the steps with these numbers.
    pub(crate) async fn step_results(
        &self,
        keys: &FlowKeys,
        numbers: &[u32],
    ) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        self.fields(keys, numbers, &["v"]).await
    }

    /// How many of the first members of a group were let begin, if that is not as many as may run at a time.
    pub(crate) async fn begun_members(
        &self,
        keys: &FlowKeys,
        group: u32,
    ) -> Result<Option<u32>, BrokerError> {
        let values = self.fields(keys, &[group], &["w"]).await?;
        Ok(values.first().and_then(|value| number(value.as_ref())))
    }

    /// These fields of nodes, in the order of the nodes.
    async fn fields(
        &self,
        keys: &FlowKeys,
        numbers: &[u32],
        letters: &[&str],
    ) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.flow);
        for number in numbers {
            for letter in letters {
                command.arg(format!("{letter}{number}"));
            }
        }
        self.read_own("flow", &command).await
    }

    /// The ids of up to `count` flows of a queue, without the first `start`, those that are kept longest first.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn flow_ids(
        &self,
        keys: &QueueKeys,
        start: u64,
        count: u64,
    ) -> Result<Vec<CallId>, BrokerError> {
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(&keys.flows).arg(start).arg(start.saturating_add(count).saturating_sub(1));
        let ids: Vec<Vec<u8>> = self.read("flows", &command).await?;
        let call = |id: Vec<u8>| <[u8; 16]>::try_from(id).ok().map(CallId::from_bytes);
        Ok(ids.into_iter().filter_map(call).collect())
    }

    async fn change(
        &self,
        op: &'static str,
        keys: &FlowKeys,
        pipe: &redis::Pipeline,
    ) -> Result<(), BrokerError> {
        crash::point(op, "before");
        let replies = self.commands.transact(&Transaction::new(pipe.cmd_iter().cloned())).await;
        crash::point(op, "replied");
        let replies = replies.map_err(|error| BrokerError::from_redis("flow", &error))?;
        match replies.into_iter().map(Value::extract_error).find_map(Result::err) {
            Some(error) => {
                let types = [(keys.flow.as_str(), "hash"), (keys.home.flows.as_str(), "zset")];
                let error = BrokerError::from_redis("flow", &error);
                Err(wrong_key::named(error, &types, &mut self.commands.clone()).await)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_read_as_scripts_pack_it() {
        let member =
            Member { flow: CallId::new(), number: 7, round: 1, home: QueueName::parse("mail").unwrap() };
        let packed = |rest: &[u8]| {
            let raw = member.encode();
            // As Lua packs it: numbers of that size as floats, texts of any bytes as `str`.
            let time = 1_700_000_000_123_f64.to_be_bytes();
            [&[0x97, 0xcb][..], &time, &[0xa0 | raw.len() as u8], &raw, rest].concat()
        };
        let (read, since) =
            outcome(&packed(b"\xa9succeeded\xa7attempt\xa11\xa6result\xa1\x05")).expect("an outcome");
        assert_eq!((read.member, &read.state[..], since), (member.clone(), "succeeded", 1_700_000_000_123));
        assert_eq!(read.field, Some(("result", vec![5])));
        let (read, _) =
            outcome(&packed(b"\xa4dead\xa6reason\xa6failed\xa5error\xa4boom")).expect("an outcome");
        assert_eq!(read.field, Some(("reason", b"failed: boom".to_vec())));
        assert_eq!(Delivery::read(&[0; 16], b"\x91\x01"), (Delivery::Unknown, 0));
    }
}
