//! Cancels flows, and the rest of a group that has failed.

use std::collections::{BTreeMap, HashMap};

use super::Flows;
use super::walk::Walk;
use crate::broker::{BrokerError, FlowKeys, ToDo, ToDoKind};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::decode::from_slice;
use crate::protocol::flow::{Member, Step};
use crate::protocol::names::QueueName;

/// How many calls are looked at in one request.
const LOOKED_AT: usize = 500;

impl Flows {
    /// Cancels calls, flows among them. Returns the state in which each was found.
    pub(crate) async fn cancel_calls(
        &self,
        queue: &QueueName,
        ids: &[CallId],
        by: &str,
    ) -> Result<Vec<Cancelled>, BrokerError> {
        let mut flows = HashMap::new();
        for part in ids.chunks(LOOKED_AT) {
            for (id, is_flow) in part.iter().zip(self.broker.are_flows(queue, part).await?) {
                if is_flow && self.cancel(&FlowKeys::new(queue, *id), by).await? {
                    flows.insert(*id, Cancelled::Running);
                }
            }
        }
        let others: Vec<CallId> = ids.iter().filter(|id| !flows.contains_key(id)).copied().collect();
        let found = self.broker.cancel_anywhere(queue, &others, by).await?;
        flows.extend(others.into_iter().zip(found));
        Ok(ids.iter().map(|id| flows.get(id).copied().unwrap_or(Cancelled::NotFound)).collect())
    }

    /// Cancels a flow: its steps that have not ended, and those that would follow. Returns false if it had ended, or has not begun.
    pub(crate) async fn cancel(&self, keys: &FlowKeys, by: &str) -> Result<bool, BrokerError> {
        if !self.broker.close(keys, "cancelled", &[("by", by.as_bytes())]).await? {
            return Ok(false);
        }
        self.carry_out(keys, vec![ToDo { flow: keys.id, kind: ToDoKind::Cancel, number: 0 }]).await?;
        Ok(true)
    }

    /// Cancels the steps of a node that have begun and not ended.
    pub(super) async fn cancel_steps(&self, keys: &FlowKeys, number: u32) -> Result<(), BrokerError> {
        let Some(state) = self.broker.nodes(keys, &[number]).await?.pop().flatten() else { return Ok(()) };
        if state.ended.is_none() {
            // The flow was reopened since.
            return Ok(());
        }
        let mut walk = Walk::of_parts(&state);
        let by = format!("flow {}", keys.id);
        while let Some(found) = self.next(keys, &mut walk).await? {
            let numbers: Vec<u32> = found.steps.iter().map(|(number, _)| *number).collect();
            let encoded = self.broker.steps(keys, &numbers).await?;
            let mut by_queue: BTreeMap<QueueName, Vec<CallId>> = BTreeMap::new();
            for ((number, state), encoded) in found.steps.into_iter().zip(encoded) {
                let step = encoded.as_deref().and_then(|encoded| from_slice::<Step>(encoded).ok());
                let Some(queue) = step.and_then(|step| QueueName::parse(&step.queue).ok()) else { continue };
                let member = Member { flow: keys.id, number, round: state.round, home: keys.queue.clone() };
                by_queue.entry(queue).or_default().push(member.call_id());
            }
            for (queue, ids) in by_queue {
                self.broker.cancel_anywhere(&queue, &ids, &by).await?;
            }
        }
        Ok(())
    }
}
