//! Flows: lists and shows them, and lets failed ones go on.

use serde::Serialize;

use crate::broker::FlowKeys;
use crate::error::Error;
use crate::flow::{FlowTree, Flows};
use crate::inspect::Inspector;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// How many ids are read at a time.
const PAGE: u64 = 100;

/// A flow as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowStatus {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: CallState,
    /// The number of its steps.
    pub steps: u32,
    /// How many of them have ended.
    pub done: u32,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
}

impl Inspector {
    /// Lists up to `count` flows of a queue that have begun and are kept, those that are kept longest first.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of a flow has a wrong type.
    pub async fn flows(&self, queue: &QueueName, count: usize) -> Result<Vec<FlowStatus>, Error> {
        let (keys, mut flows, mut start) = (QueueKeys::new(queue), Vec::new(), 0);
        loop {
            let ids = self.broker.flow_ids(&keys, start, PAGE).await?;
            if ids.is_empty() {
                return Ok(flows);
            }
            for id in ids {
                let Some(info) = self.broker.flow(&FlowKeys::new(queue, id)).await? else { continue };
                flows.push(FlowStatus {
                    id: id.to_string(),
                    queue: queue.to_string(),
                    state: info.state.as_deref().and_then(CallState::parse).unwrap_or(CallState::Running),
                    steps: info.steps,
                    done: info.done,
                    began_ms: info.began_ms,
                    ended_ms: info.ended_ms,
                });
                if flows.len() == count {
                    return Ok(flows);
                }
            }
            start += PAGE;
        }
    }

    /// A flow as a tree, with what is known of each step. `None` if it has not begun, or is not kept any more.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the flow has a wrong type.
    pub async fn flow(&self, queue: &QueueName, id: CallId) -> Result<Option<FlowTree>, Error> {
        Ok(Flows::new(self.broker.clone()).tree(&FlowKeys::new(queue, id)).await?)
    }

    /// Whether a flow has begun and is kept.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn has_flow(&self, queue: &QueueName, id: CallId) -> Result<bool, Error> {
        Ok(self.broker.are_flows(queue, &[id]).await?.first() == Some(&true))
    }

    /// Lets a flow go on that failed or was cancelled: see [`FlowHandle::retry`](crate::FlowHandle::retry).
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the flow has a wrong type. Calling it again is harmless.
    pub async fn retry_flow(&self, queue: &QueueName, id: CallId) -> Result<Option<u64>, Error> {
        Ok(Flows::new(self.broker.clone()).reopen(&FlowKeys::new(queue, id)).await?)
    }
}
