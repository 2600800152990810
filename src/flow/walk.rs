//! Finds the steps of a flow that may run.

use super::Flows;
use crate::broker::{BrokerError, FlowKeys, NodeState};
use crate::protocol::flow::Kind;

/// How many nodes are read at a time.
pub(super) const PAGE: u32 = 200;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Steps that may run and have not ended, with their numbers.
    pub(super) steps: Vec<(u32, NodeState)>,
    /// Groups without members.
    pub(super) empty: Vec<(u32, NodeState)>,
}

/// Numbers of nodes that are still to be visited, by ranges.
pub(super) struct Walk {
    ranges: Vec<(u32, u32)>,
}

impl Walk {
    /// Begins with this node.
    pub(super) fn of_node(number: u32) -> Self {
        Self { ranges: vec![(number, 1)] }
    }

    /// Begins with the parts of this node, although it has ended itself.
    pub(super) fn of_parts(state: &NodeState) -> Self {
        Self { ranges: vec![(state.node.first, state.node.count)] }
    }

    fn next_page(&mut self) -> Option<Vec<u32>> {
        let (first, count) = self.ranges.pop()?;
        let now = count.min(PAGE);
        if count > now {
            self.ranges.push((first + now, count - now));
        }
        Some((first..first + now).collect())
    }
}

impl Flows {
    /// The next steps of a walk; `None` at its end. A walk visits nodes that have not ended: of a chain the first of them, of a
    /// group as many as may run at a time.
    pub(super) async fn next(&self, keys: &FlowKeys, walk: &mut Walk) -> Result<Option<Found>, BrokerError> {
        let Some(numbers) = walk.next_page() else { return Ok(None) };
        let mut found = Found::default();
        for (number, state) in numbers.iter().zip(self.broker.nodes(keys, &numbers).await?) {
            let Some(state) = state.filter(|state| state.ended.is_none()) else { continue };
            match state.node.kind {
                Kind::Step => found.steps.push((*number, state)),
                Kind::Chain => {
                    let place = self.first_open(keys, state.node.first, state.node.count).await?;
                    walk.ranges.extend(place.map(|place| (place, 1)));
                }
                Kind::Group { .. } if state.node.count == 0 => found.empty.push((*number, state)),
                Kind::Group { at_most: 0, .. } => walk.ranges.push((state.node.first, state.node.count)),
                Kind::Group { at_most, .. } => {
                    let begun = self.broker.begun_members(keys, *number).await?.unwrap_or(at_most);
                    walk.ranges.push((state.node.first, state.node.count.min(begun)));
                }
            }
        }
        Ok(Some(found))
    }

    /// The first of these nodes that has not ended.
    async fn first_open(&self, keys: &FlowKeys, first: u32, count: u32) -> Result<Option<u32>, BrokerError> {
        let end = first + count;
        let mut begin = first;
        while begin < end {
            let numbers: Vec<u32> = (begin..end.min(begin + PAGE)).collect();
            let nodes = self.broker.nodes(keys, &numbers).await?;
            let mut open = numbers
                .iter()
                .zip(nodes)
                .filter(|(_, state)| state.as_ref().is_some_and(|state| state.ended.is_none()));
            if let Some((number, _)) = open.next() {
                return Ok(Some(*number));
            }
            begin += PAGE;
        }
        Ok(None)
    }

    /// The nodes above a node, from its parent to the root.
    pub(super) async fn above(
        &self,
        keys: &FlowKeys,
        state: &NodeState,
    ) -> Result<Vec<(u32, NodeState)>, BrokerError> {
        let (mut above, mut next) = (Vec::new(), state.node.parent);
        while let Some(number) = next {
            let Some(state) = self.broker.nodes(keys, &[number]).await?.pop().flatten() else { break };
            next = state.node.parent;
            above.push((number, state));
        }
        Ok(above)
    }
}
