//! Shows a flow as a tree.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::Serialize;

use super::Flows;
use super::walk::PAGE;
use crate::broker::{BrokerError, FlowKeys, NodeState};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::decode::from_slice;
use crate::protocol::flow::{Kind, Member, Policy, Step};
use crate::protocol::names::QueueName;

/// How many parts of a node are shown by default. The others are counted.
const SHOWN: u32 = 1000;

/// A flow as a tree. Its [`Display`](fmt::Display) is what `flows show` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowTree {
    /// The id of the flow.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: CallState,
    /// The number of its steps.
    pub steps: u32,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// The whole flow.
    pub root: FlowNode,
    /// The call that runs if it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<FlowNode>,
}

/// A part of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowNode {
    /// Its number in the flow.
    pub number: u32,
    /// `step`, `chain` or `group`.
    pub kind: &'static str,
    /// The path of the task of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The queue of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The id of the call that a step is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Its state; `None`: it has not begun.
    pub state: Option<CallState>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many members of a group run at a time, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// What a group does if a member fails: `wait for all`, `fail fast` or `successes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'static str>,
    /// Its parts, at most 1000 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FlowNode>,
    /// The number of its parts.
    pub count: u32,
}

impl Flows {
    /// A flow as a tree.
    pub(crate) async fn tree(&self, keys: &FlowKeys) -> Result<Option<FlowTree>, BrokerError> {
        let Some(info) = self.broker.flow(keys).await? else { return Ok(None) };
        let Some(root) = self.parts(keys, 0, 1).await?.pop() else { return Ok(None) };
        let on_error = match info.on_error {
            Some(number) => self.parts(keys, number, 1).await?.pop(),
            None => None,
        };
        Ok(Some(FlowTree {
            id: keys.id.to_string(),
            queue: keys.queue.to_string(),
            state: info.state.as_deref().and_then(CallState::parse).unwrap_or(CallState::Running),
            steps: info.steps,
            began_ms: info.began_ms,
            ended_ms: info.ended_ms,
            root,
            on_error,
        }))
    }

    fn parts<'a>(
        &'a self,
        keys: &'a FlowKeys,
        first: u32,
        count: u32,
    ) -> BoxFuture<'a, Result<Vec<FlowNode>, BrokerError>> {
        Box::pin(async move {
            let (mut shown, end) = (Vec::new(), first + count.min(SHOWN));
            let mut begin = first;
            while begin < end {
                let numbers: Vec<u32> = (begin..end.min(begin + PAGE)).collect();
                let nodes = self.broker.nodes(keys, &numbers).await?;
                let steps = self.broker.steps(keys, &numbers).await?;
                let from = shown.len();
                for ((number, state), step) in numbers.into_iter().zip(nodes).zip(steps) {
                    let Some(state) = state else { continue };
                    let step = step.and_then(|step| from_slice::<Step>(&step).ok());
                    shown.push(self.node(keys, number, state, step).await?);
                }
                self.add_states(&mut shown[from..]).await?;
                begin += PAGE;
            }
            Ok(shown)
        })
    }

    async fn node(
        &self,
        keys: &FlowKeys,
        number: u32,
        state: NodeState,
        step: Option<Step>,
    ) -> Result<FlowNode, BrokerError> {
        let (kind, at_most, policy) = match state.node.kind {
            Kind::Step => ("step", None, None),
            Kind::Chain => ("chain", None, None),
            Kind::Group { at_most, policy } => {
                let policy = match policy {
                    Policy::WaitForAll => "wait for all",
                    Policy::FailFast => "fail fast",
                    Policy::Successes => "successes",
                };
                ("group", (at_most > 0).then_some(at_most), Some(policy))
            }
        };
        let member = Member { flow: keys.id, number, round: state.round, home: keys.queue.clone() };
        let parts = match state.node.count {
            0 => Vec::new(),
            count => self.parts(keys, state.node.first, count).await?,
        };
        let has_begun = |part: &FlowNode| part.state.is_some();
        let state_of = state.ended.as_deref().and_then(CallState::parse);
        let running = || parts.iter().any(has_begun).then_some(CallState::Running);
        Ok(FlowNode {
            number,
            kind,
            task: step.as_ref().map(|step| step.task().to_owned()),
            call_id: step.as_ref().map(|_| member.call_id().to_string()),
            queue: step.map(|step| step.queue),
            state: state_of.or_else(running),
            reason: state.reason,
            at_most,
            policy,
            parts,
            count: state.node.count,
        })
    }

    /// Adds the states of steps that have not ended, from their records.
    async fn add_states(&self, nodes: &mut [FlowNode]) -> Result<(), BrokerError> {
        for node in nodes.iter_mut().filter(|node| node.state.is_none()) {
            let (Some(queue), Some(id)) = (&node.queue, &node.call_id) else { continue };
            let (Ok(queue), Ok(id)) = (QueueName::parse(queue), CallId::parse(id)) else { continue };
            let record = self.broker.records(&queue, &[id]).await?.pop().flatten();
            node.state = record.and_then(|record| record.state());
        }
        Ok(())
    }
}

impl FlowTree {
    /// The flow as a Mermaid flowchart.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let _ = self.root.mermaid(&mut text);
        if let Some(on_error) = &self.on_error {
            let _ = on_error.mermaid(&mut text);
            text.push_str(&format!("  n{} -. on error .-> n{}\n", self.root.last(), on_error.number));
        }
        text
    }
}

impl FlowNode {
    fn name(&self) -> String {
        match (&self.task, self.kind) {
            (Some(task), _) => task.clone(),
            (None, "group") => {
                let at_most = self.at_most.map(|most| format!(", {most} at a time")).unwrap_or_default();
                let policy = self.policy.filter(|policy| *policy != "wait for all");
                let policy = policy.map(|policy| format!(", {policy}")).unwrap_or_default();
                format!("group of {}{at_most}{policy}", self.count)
            }
            (None, kind) => kind.to_owned(),
        }
    }

    fn mark(&self) -> &'static str {
        self.state.map_or("-", |state| state.name())
    }

    /// The number of a node that stands for its end.
    fn last(&self) -> u32 {
        self.parts.last().map_or(self.number, Self::last)
    }

    /// Writes its nodes and arrows. Returns the numbers of those that begin it, and that end it.
    fn mermaid(&self, text: &mut String) -> (Vec<u32>, Vec<u32>) {
        if self.parts.is_empty() {
            let name = self.name().replace('"', "'");
            text.push_str(&format!("  n{}[\"{name}<br/>{}\"]\n", self.number, self.mark()));
            return (vec![self.number], vec![self.number]);
        }
        let parts: Vec<_> = self.parts.iter().map(|part| part.mermaid(text)).collect();
        if self.kind == "group" {
            let (begins, ends): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            return (begins.concat(), ends.concat());
        }
        for pair in parts.windows(2) {
            for from in &pair[0].1 {
                for to in &pair[1].0 {
                    text.push_str(&format!("  n{from} --> n{to}\n"));
                }
            }
        }
        let first = parts.first().map(|(begins, _)| begins.clone()).unwrap_or_default();
        (first, parts.last().map(|(_, ends)| ends.clone()).unwrap_or_default())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str, branch: &str, below: &str) -> fmt::Result {
        write!(f, "\n{indent}{branch}{}  {}", self.name(), self.mark())?;
        if let Some(reason) = &self.reason {
            write!(f, "  ({})", crate::excerpt::shortened(reason.replace('\n', " ")))?;
        }
        let indent = format!("{indent}{below}");
        let hidden = self.count as usize - self.parts.len().min(self.count as usize);
        for (place, part) in self.parts.iter().enumerate() {
            let is_last = place + 1 == self.parts.len() && hidden == 0;
            let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            part.write(f, &indent, branch, below)?;
        }
        if hidden > 0 {
            write!(f, "\n{indent}└─ and {hidden} more")?;
        }
        Ok(())
    }
}

impl fmt::Display for FlowTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {} in {}: {}, {} steps", self.id, self.queue, self.state.name(), self.steps)?;
        self.root.write(f, "", "", "")?;
        if let Some(on_error) = &self.on_error {
            on_error.write(f, "", "on error: ", "")?;
        }
        Ok(())
    }
}
