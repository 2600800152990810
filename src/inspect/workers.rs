//! Who works, and on what?

use std::collections::BTreeMap;

use serde::Serialize;

use crate::broker::BrokerError;
use crate::error::Error;
use crate::inspect::{Inspector, MessageSummary};
use crate::protocol::info::WorkerInfo;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::{QueueName, WorkerId};

/// Whose worker it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkerKind {
    /// A process of this library.
    Ours,
    /// A worker of Python's or Go's package. It can only be seen while it owns a message.
    Foreign,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub kind: WorkerKind,
    /// Whether its lease holds. What a dead one owns is requeued by the next sweep.
    pub alive: bool,
    /// When its lease ends, in milliseconds since 1970 by the server's clock; none for a foreign one.
    pub lease_ends_ms: Option<u64>,
    /// The queues on which it was seen.
    pub queues: Vec<String>,
    /// What it says of itself.
    pub info: Option<WorkerInfo>,
    /// What it owns now.
    pub running: Vec<Running>,
}

/// A message that a worker owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Running {
    /// The queue that it comes from.
    pub queue: String,
    /// The slot that owns it.
    pub wire_id: String,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

impl Inspector {
    /// All workers on `queues`, and on all queues when none are given, ours first; arguments are cut at `limit`
    /// characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of a queue has a wrong type.
    pub async fn workers(&self, queues: &[QueueName], limit: usize) -> Result<Vec<WorkerStatus>, Error> {
        let queues = match queues {
            [] => self.queue_names().await?.into_iter().collect(),
            queues => queues.to_vec(),
        };
        let now = self.server_ms().await?;
        let mut ours = BTreeMap::new();
        let mut foreign = BTreeMap::new();
        for queue in &queues {
            self.add_leases(queue, now, &mut ours).await?;
            self.add_owned(queue, limit, &mut ours, &mut foreign).await?;
        }
        Ok(ours.into_values().chain(foreign.into_values()).collect())
    }

    async fn add_leases(
        &self,
        queue: &QueueName,
        now: u64,
        ours: &mut BTreeMap<String, WorkerStatus>,
    ) -> Result<(), BrokerError> {
        for (id, end) in self.broker.workers(&QueueKeys::new(queue)).await? {
            // Its key is made from the queue and the id, whoever wrote that.
            let info = self.broker.worker_info(&format!("{queue}:{id}")).await?;
            let worker = ours.entry(id.clone()).or_insert_with(|| WorkerStatus::new(id, WorkerKind::Ours));
            worker.lease_ends_ms = worker.lease_ends_ms.max(Some(end));
            worker.alive |= end > now;
            worker.queues.push(queue.to_string());
            worker.info = worker.info.take().or_else(|| info.as_deref().and_then(WorkerInfo::decode));
        }
        Ok(())
    }

    async fn add_owned(
        &self,
        queue: &QueueName,
        limit: usize,
        ours: &mut BTreeMap<String, WorkerStatus>,
        foreign: &mut BTreeMap<String, WorkerStatus>,
    ) -> Result<(), BrokerError> {
        let keys = QueueKeys::new(queue);
        let mut cursor = 0;
        loop {
            let (next, owned) = self.broker.owned(&keys, cursor).await?;
            let ids: Vec<&str> = owned.iter().map(|(id, _)| id.as_str()).collect();
            let alive = self.broker.alive(&ids).await?;
            for ((wire_id, message), alive) in owned.iter().zip(alive) {
                let worker = match WorkerId::of_wire_id(queue, wire_id) {
                    Some(id) => ours.entry(id.to_string()).or_insert_with(|| {
                        let worker = WorkerStatus::new(id.to_string(), WorkerKind::Ours);
                        WorkerStatus { alive, queues: vec![queue.to_string()], ..worker }
                    }),
                    None => foreign.entry(format!("{queue} {wire_id}")).or_insert_with(|| {
                        let worker = WorkerStatus::new(wire_id.clone(), WorkerKind::Foreign);
                        WorkerStatus { alive, queues: vec![queue.to_string()], ..worker }
                    }),
                };
                let same = |running: &Running| running.queue == queue.as_str() && running.wire_id == *wire_id;
                // A scan may give a field twice.
                if !worker.running.iter().any(same) {
                    worker.running.push(Running {
                        queue: queue.to_string(),
                        wire_id: wire_id.clone(),
                        message: MessageSummary::of(message, limit),
                    });
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

impl WorkerStatus {
    fn new(id: String, kind: WorkerKind) -> Self {
        let (queues, running) = (Vec::new(), Vec::new());
        Self { id, kind, alive: false, lease_ends_ms: None, queues, info: None, running }
    }
}
