//! Puts together what a step takes: the result of the step before it, or those of a group, in order.

use futures_util::future::BoxFuture;

use super::Flows;
use super::walk::PAGE;
use crate::broker::{BrokerError, FlowKeys, NodeState};
use crate::protocol::decode::from_slice;
use crate::protocol::encode::with_maps;
use crate::protocol::flow::{Kind, Policy, Step, array_of};
use crate::task::FlowFailure;

/// An encoded result, or why there is none.
pub(super) type StepResult = Result<Vec<u8>, String>;

const NIL: &[u8] = &[0xc0];

impl Flows {
    /// What a node takes whose parents are `above`: the result of the node before it in the closest chain; nil at the
    /// beginning of the flow.
    pub(super) async fn input(
        &self,
        keys: &FlowKeys,
        (number, state): (u32, &NodeState),
        above: &[(u32, NodeState)],
    ) -> Result<StepResult, BrokerError> {
        let (mut number, mut place) = (number, state.node.place);
        for (parent, state) in above {
            if state.node.kind == Kind::Chain && place > 0 {
                return self.result_of(keys, number - 1).await;
            }
            (number, place) = (*parent, state.node.place);
        }
        Ok(Ok(NIL.to_vec()))
    }

    /// The result of a node that succeeded.
    pub(super) async fn result_of(&self, keys: &FlowKeys, number: u32) -> Result<StepResult, BrokerError> {
        let state = self.broker.nodes(keys, &[number]).await?.pop().flatten();
        let Some(state) = state else { return Ok(Err(format!("the step {number} before it is not known"))) };
        self.result_of_node(keys, number, state).await
    }

    fn result_of_node<'a>(
        &'a self,
        keys: &'a FlowKeys,
        number: u32,
        state: NodeState,
    ) -> BoxFuture<'a, Result<StepResult, BrokerError>> {
        Box::pin(async move {
            match state.node.kind {
                Kind::Step => {
                    let result = self.broker.step_results(keys, &[number]).await?.pop().flatten();
                    Ok(result.ok_or_else(|| no_result(number, &state)))
                }
                Kind::Chain => {
                    self.result_of(keys, state.node.first + state.node.count.saturating_sub(1)).await
                }
                Kind::Group { policy, .. } => self.results_of_members(keys, &state, policy).await,
            }
        })
    }

    /// Why a flow failed, as the call that runs then takes it.
    pub(super) async fn failure(&self, keys: &FlowKeys) -> Result<Vec<u8>, BrokerError> {
        let mut failure = FlowFailure { flow: keys.id.to_string(), ..FlowFailure::default() };
        if let Some(number) = self.broker.flow(keys).await?.and_then(|info| info.failed) {
            failure.step = number;
            if let Some(state) = self.broker.nodes(keys, &[number]).await?.pop().flatten() {
                failure.state = state.ended.unwrap_or_default();
                failure.reason = state.reason.unwrap_or_default();
            }
            let step = self.broker.steps(keys, &[number]).await?.pop().flatten();
            let step = step.and_then(|step| from_slice::<Step>(&step).ok());
            failure.task = step.map(|step| step.task().to_owned()).unwrap_or_default();
        }
        Ok(with_maps(&failure).unwrap_or_else(|_| NIL.to_vec()))
    }

    async fn results_of_members(
        &self,
        keys: &FlowKeys,
        group: &NodeState,
        policy: Policy,
    ) -> Result<StepResult, BrokerError> {
        let (first, end) = (group.node.first, group.node.first + group.node.count);
        let mut results = Vec::with_capacity(group.node.count as usize);
        let mut begin = first;
        while begin < end {
            let numbers: Vec<u32> = (begin..end.min(begin + PAGE)).collect();
            let nodes = self.broker.nodes(keys, &numbers).await?;
            let values = self.broker.step_results(keys, &numbers).await?;
            for ((number, state), value) in numbers.into_iter().zip(nodes).zip(values) {
                let Some(state) = state else {
                    return Ok(Err(format!("the step {number} before it is not known")));
                };
                if policy == Policy::Successes && state.ended.as_deref() != Some("succeeded") {
                    continue;
                }
                let result = match (state.node.kind, value) {
                    (Kind::Step, Some(value)) => Ok(value),
                    (Kind::Step, None) => Err(no_result(number, &state)),
                    _ => self.result_of_node(keys, number, state).await?,
                };
                match result {
                    Ok(result) => results.push(result),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
            begin += PAGE;
        }
        Ok(Ok(array_of(&results)))
    }
}

fn no_result(number: u32, state: &NodeState) -> String {
    match &state.reason {
        Some(reason) => format!("the step {number} before it has no result: {reason}"),
        None => format!("the step {number} before it has no result"),
    }
}
