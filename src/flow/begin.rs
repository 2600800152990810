//! Writes a new flow, and begins it.

use super::Flows;
use crate::broker::{BrokerError, FlowInfo, FlowKeys, ToDo, ToDoKind};
use crate::protocol::encode::EncodeError;
use crate::protocol::flow::{self, FlatPlan};
use crate::protocol::tracking::Lock;

/// A request carries about this many bytes of nodes, and at most so many of them.
const BYTES: usize = 1 << 20;
const NODES: usize = 500;

/// Why a flow was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl Flows {
    /// Writes a flow and begins its first steps. What was done by a process that died meanwhile is not done again.
    pub(crate) async fn begin(
        &self,
        keys: &FlowKeys,
        plan: &FlatPlan<'_>,
        keep_ms: u64,
        lock: Option<Lock>,
    ) -> Result<(), BeginError> {
        if self.broker.flow(keys).await?.is_none() {
            self.write(keys, plan).await?;
            let FlatPlan { steps, on_error, .. } = *plan;
            let info = FlowInfo { keep_ms, steps, on_error, ..FlowInfo::default() };
            self.broker.begin_flow(keys, &info, lock, self.broker.server_time(&keys.home).await?).await?;
        }
        self.carry_out(keys, vec![ToDo { flow: keys.id, kind: ToDoKind::Open, number: 0 }]).await?;
        Ok(())
    }

    async fn write(&self, keys: &FlowKeys, plan: &FlatPlan<'_>) -> Result<(), BeginError> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        for (number, (node, step)) in (0..).zip(&plan.nodes) {
            let step = step.map(flow::encoded).transpose()?;
            bytes += step.as_ref().map_or(0, Vec::len);
            part.push((number, *node, step));
            if part.len() == NODES || bytes >= BYTES {
                self.broker.write_nodes(keys, &part).await?;
                (part, bytes) = (Vec::new(), 0);
            }
        }
        if !part.is_empty() {
            self.broker.write_nodes(keys, &part).await?;
        }
        Ok(())
    }
}
