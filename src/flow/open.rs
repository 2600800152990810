//! Begins the steps of a node that may run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Flows;
use super::results::StepResult;
use super::walk::{Found, Walk};
use crate::broker::{
    Bound, BrokerError, BrokerErrorKind, Ended, FlowKeys, MAX_SUBMITTED, NodeState, Submission, Submitted,
    ToDo,
};
use crate::config::DeadConfig;
use crate::protocol::decode::from_slice;
use crate::protocol::flow::{Member, Step};
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::protocol::tracking::Tracking;
use crate::task::{Due, Overflow};

/// A request carries about this many bytes of messages, or a single one.
const BYTES: usize = 1 << 20;

/// A step that is ready to be enqueued.
struct ReadyStep {
    number: u32,
    round: u32,
    tracking: Tracking,
    step: Step,
    message: Vec<u8>,
}

/// A step that cannot run, and why.
struct Refused {
    number: u32,
    round: u32,
    state: &'static str,
    reason: String,
}

impl Flows {
    /// Begins the steps of a node that may run and have not ended. Steps that have begun before are not begun again: their ids
    /// exist. Returns what is to be done next.
    ///
    /// # Errors
    /// Redis cannot be used, or a queue with a bound is full: what was not begun is to be begun later.
    pub(super) async fn open(&self, keys: &FlowKeys, number: u32) -> Result<Vec<ToDo>, BrokerError> {
        let Some(info) = self.broker.flow(keys).await? else { return Ok(Vec::new()) };
        let Some(state) = self.broker.nodes(keys, &[number]).await?.pop().flatten() else {
            return Ok(Vec::new());
        };
        let above = self.above(keys, &state).await?;
        if above.iter().any(|(_, state)| state.ended.is_some()) {
            return Ok(Vec::new());
        }
        // What all of them take that are not behind another in a chain below this node.
        let mut taken = Inputs::default();
        let (mut walk, mut to_do) = (Walk::of_node(number), Vec::new());
        while let Some(Found { steps, empty }) = self.next(keys, &mut walk).await? {
            for (number, state) in empty {
                let ended = [Ended { number, round: state.round, state: "succeeded", field: None }];
                to_do.extend(self.broker.join(keys, &ended).await?);
            }
            to_do.extend(self.begin_steps(keys, info.keep_ms, steps, &mut taken).await?);
        }
        Ok(to_do)
    }

    async fn begin_steps(
        &self,
        keys: &FlowKeys,
        keep_ms: u64,
        steps: Vec<(u32, NodeState)>,
        taken: &mut Inputs,
    ) -> Result<Vec<ToDo>, BrokerError> {
        let numbers: Vec<u32> = steps.iter().map(|(number, _)| *number).collect();
        let encoded = self.broker.steps(keys, &numbers).await?;
        let now = self.broker.server_time(&keys.home).await?;
        let mut refused = Vec::new();
        let mut by_queue: BTreeMap<(QueueName, Option<u64>), Vec<ReadyStep>> = BTreeMap::new();
        for ((number, state), encoded) in steps.into_iter().zip(encoded) {
            let refuse = |reason: String| Refused { number, round: state.round, state: "dead", reason };
            let step: Step = match encoded.as_deref().map(from_slice) {
                Some(Ok(step)) => step,
                Some(Err(error)) => {
                    refused.push(refuse(format!("malformed: {error}")));
                    continue;
                }
                None => continue,
            };
            let input = match (step.takes, state.node.parent) {
                (false, _) => None,
                (true, None) if number != 0 => Some(Ok(self.failure(keys).await?)),
                (true, _) => Some(self.taken_by(keys, (number, &state), taken).await?),
            };
            let first = match input {
                None => None,
                Some(Ok(input)) => Some(input),
                Some(Err(reason)) => {
                    refused.push(refuse(reason));
                    continue;
                }
            };
            match ready(keys, number, state.round, keep_ms, step, first.as_deref(), now) {
                Ok((queue, ready)) => by_queue.entry((queue, ready.step.max_len)).or_default().push(ready),
                Err(reason) => refused.push(refuse(reason)),
            }
        }
        let mut full = None;
        for ((queue, max_len), steps) in by_queue {
            self.register(&queue).await?;
            let bound = Bound::new(max_len, Overflow::default(), &DeadConfig::default());
            for part in parts(&steps) {
                for (step, submitted) in part.iter().zip(self.submit(&queue, bound, part).await?) {
                    match submitted {
                        Submitted::Taken | Submitted::Exists { .. } | Submitted::Replaced { .. } => {}
                        Submitted::Locked { holder, state } => refused.push(Refused {
                            number: step.number,
                            round: step.round,
                            state: "cancelled",
                            reason: format!("unique: the call {holder}, which is {state}, holds its lock"),
                        }),
                        Submitted::Full { waiting } => full = Some((queue.clone(), waiting)),
                    }
                }
            }
        }
        let ended: Vec<Ended<'_>> = (refused.iter())
            .map(|Refused { number, round, state, reason }| Ended {
                number: *number,
                round: *round,
                state,
                field: Some(("reason", reason.as_bytes())),
            })
            .collect();
        let mut to_do = Vec::new();
        for part in ended.chunks(crate::broker::MAX_JOINED) {
            to_do.extend(self.broker.join(keys, part).await?);
        }
        match full {
            // It stays in the outbox, and a sweep tries again. What was to be done stands there too.
            Some((queue, waiting)) => {
                let problem =
                    format!("{waiting} calls wait in the queue {queue}, as many as the step allows");
                Err(BrokerError::new("submit", BrokerErrorKind::NotReady, problem))
            }
            None => Ok(to_do),
        }
    }

    /// What a step takes. Members of one group take the same, which is put together once.
    async fn taken_by(
        &self,
        keys: &FlowKeys,
        (number, state): (u32, &NodeState),
        taken: &mut Inputs,
    ) -> Result<StepResult, BrokerError> {
        if let Some((parent, input)) = &taken.last
            && state.node.parent == Some(*parent)
        {
            return Ok(input.clone());
        }
        let above = self.above(keys, state).await?;
        let input = self.input(keys, (number, state), &above).await?;
        if let Some((parent, of_parent)) = above.first()
            && matches!(of_parent.node.kind, crate::protocol::flow::Kind::Group { .. })
        {
            taken.last = Some((*parent, input.clone()));
        }
        Ok(input)
    }

    async fn submit(
        &self,
        queue: &QueueName,
        bound: Bound,
        steps: &[ReadyStep],
    ) -> Result<Vec<Submitted>, BrokerError> {
        let tasks: Vec<&str> = steps.iter().map(|step| step.step.task()).collect();
        let submissions: Vec<Submission<'_>> = (steps.iter().zip(&tasks))
            .map(|(ReadyStep { tracking, step, message, .. }, task)| Submission {
                tracking: *tracking,
                due: due(step),
                front: step.front,
                period: Duration::from_millis(step.period.unwrap_or(0)),
                task,
                message,
            })
            .collect();
        self.broker.submit(&QueueKeys::new(queue), bound, &submissions).await
    }
}

/// What the members of the last group take.
#[derive(Default)]
struct Inputs {
    last: Option<(u32, StepResult)>,
}

fn due(step: &Step) -> Option<Due> {
    let at = |ms| Due::At(std::time::UNIX_EPOCH + Duration::from_millis(ms));
    step.after.map(|ms| Due::After(Duration::from_millis(ms))).or(step.at.map(at))
}

/// The message of a step, and its queue.
fn ready(
    keys: &FlowKeys,
    number: u32,
    round: u32,
    keep_ms: u64,
    step: Step,
    first: Option<&[u8]>,
    now: Duration,
) -> Result<(QueueName, ReadyStep), String> {
    let queue = QueueName::parse(&step.queue).map_err(|error| error.to_string())?;
    let member = Member { flow: keys.id, number, round, home: keys.queue.clone() };
    let now_ms = now.as_millis() as u64;
    let begins_ms = now_ms.max(step.at.unwrap_or(0)).saturating_add(step.after.unwrap_or(0));
    let expires_ms = step.expires.map(|ms| begins_ms.saturating_add(ms));
    let message = step
        .message_of(&member, keep_ms, expires_ms, first)
        .map_err(|error| format!("malformed: {error}"))?;
    let tracking = Message::decode(&message).ok().and_then(|message| message.tracking());
    let tracking = tracking.ok_or("malformed: it keeps no record")?;
    Ok((queue, ReadyStep { number, round, tracking, step, message }))
}

/// The steps in the parts in which they are sent.
fn parts(steps: &[ReadyStep]) -> Vec<&[ReadyStep]> {
    let (mut parts, mut rest) = (Vec::new(), steps);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |step: &&ReadyStep| {
            bytes += step.message.len();
            bytes <= BYTES
        };
        let count = rest.iter().take(MAX_SUBMITTED).take_while(fits).count().max(1);
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
    }
    parts
}
