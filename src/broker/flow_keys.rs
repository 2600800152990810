//! Builds the keys of a flow.

use crate::protocol::call_id::CallId;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;

/// The keys of a flow: it is kept beside the queue of its message, its home.
#[derive(Debug, Clone)]
pub(crate) struct FlowKeys {
    pub(crate) id: CallId,
    pub(crate) flow: String,
    pub(crate) home: QueueKeys,
    pub(crate) queue: QueueName,
}

impl FlowKeys {
    pub(crate) fn new(queue: &QueueName, id: CallId) -> Self {
        Self { id, flow: keys::flow(queue, id), home: QueueKeys::new(queue), queue: queue.clone() }
    }
}
