//! Lists workers and the messages that they own.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::broker::{BrokerError, digest};
use crate::error::Error;
use crate::inspect::{Inspector, MessageSummary};
use crate::protocol::info::{RunInfo, WorkerInfo};
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::{QueueName, WorkerId};

/// The longest lease of a worker.
const LONGEST_LEASE_MS: u64 = 86_400_000;
/// Of a lease that ends sooner the worker is not asked: an idle one says that its lease lasts twice as long, 12 s by default.
pub(super) const SOON_MS: u64 = 12_000;

/// The implementation of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkerKind {
    /// A Rust worker, of this library.
    Ours,
    /// A worker of the Python or Go package. It can only be seen while it owns a message.
    Foreign,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The worker id.
    pub id: String,
    /// The implementation.
    pub kind: WorkerKind,
    /// Whether its lease has not ended. The next sweep requeues the messages of a dead worker.
    pub alive: bool,
    /// When its lease ends, in milliseconds since 1970 by the server's clock; `None` for a Python or Go worker.
    pub lease_ends_ms: Option<u64>,
    /// The queues on which the worker was seen.
    pub queues: Vec<String>,
    /// The worker's description of itself.
    pub info: Option<WorkerInfo>,
    /// The messages that the worker owns.
    pub running: Vec<Running>,
}

/// A message that a worker owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Running {
    /// The queue of the message.
    pub queue: String,
    /// The slot that owns the message.
    pub wire_id: String,
    /// When its run began, in milliseconds since 1970 by the worker's clock. `None` for a run that has not lasted for one or two
    /// heartbeats (1.5 s each by default), for a message that was claimed ahead, and for a Python or Go worker.
    pub started_ms: Option<u64>,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

/// How many Rust workers have a lease, and how many one that has ended.
#[cfg(feature = "web")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerCounts {
    pub(crate) alive: u64,
    pub(crate) dead: u64,
}

impl Inspector {
    /// Returns the workers of `queues`, or of all queues if that is empty, Rust workers first. Arguments are cut at `limit`
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
            let runs = self.add_leases(queue, now, &mut ours).await?;
            self.add_owned(queue, limit, &runs, &mut ours, &mut foreign).await?;
        }
        Ok(ours.into_values().chain(foreign.into_values()).collect())
    }

    /// Counts the workers of these queues by their leases.
    #[cfg(feature = "web")]
    pub(crate) async fn worker_counts(&self, queues: &[QueueName]) -> Result<WorkerCounts, Error> {
        let (now, mut ends) = (self.server_ms().await?, BTreeMap::new());
        for queue in queues {
            for (id, end) in self.broker.workers(&QueueKeys::new(queue)).await? {
                let last: &mut u64 = ends.entry(id).or_default();
                *last = (*last).max(end);
            }
        }
        let alive = ends.values().filter(|end| **end > now).count();
        Ok(WorkerCounts { alive: alive as u64, dead: (ends.len() - alive) as u64 })
    }

    /// Adds the workers of a queue. Returns their long runs, by wire id.
    pub(super) async fn add_leases(
        &self,
        queue: &QueueName,
        now: u64,
        ours: &mut BTreeMap<String, WorkerStatus>,
    ) -> Result<HashMap<String, RunInfo>, BrokerError> {
        let mut runs = HashMap::new();
        let workers = self.broker.workers(&QueueKeys::new(queue)).await?;
        // Their keys are made from the queue and the id, whoever wrote that.
        let keys: Vec<String> = workers.iter().map(|(id, _)| format!("{queue}:{id}")).collect();
        let infos = self.broker.worker_infos(&keys).await?;
        for ((id, end), info) in workers.into_iter().zip(infos) {
            let worker = ours.entry(id.clone()).or_insert_with(|| WorkerStatus::new(id, WorkerKind::Ours));
            worker.lease_ends_ms = worker.lease_ends_ms.max(Some(end));
            let mut info = info.as_deref().and_then(WorkerInfo::decode);
            let named = info.as_mut().map(|info| std::mem::take(&mut info.runs)).unwrap_or_default();
            runs.extend(named.into_iter().map(|run| (format!("{queue}:{}:{}", worker.id, run.slot), run)));
            worker.alive |= holds(end, now, info.as_ref());
            worker.queues.push(queue.to_string());
            worker.info = worker.info.take().or(info);
        }
        Ok(runs)
    }

    async fn add_owned(
        &self,
        queue: &QueueName,
        limit: usize,
        runs: &HashMap<String, RunInfo>,
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
                    // The slot may hold another message by now.
                    let run = runs.get(wire_id).filter(|run| run.digest == digest(message));
                    worker.running.push(Running {
                        queue: queue.to_string(),
                        wire_id: wire_id.clone(),
                        started_ms: run.map(|run| run.started_ms),
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

/// Whether a lease that ends then holds now. One that lasts longer than its worker ever says, which is twice its lease, was
/// given before the server's clock was set back; whoever lives says it anew.
pub(super) fn holds(end: u64, now: u64, info: Option<&WorkerInfo>) -> bool {
    let longest = info.map_or(LONGEST_LEASE_MS, |info| info.lease_ms);
    end > now && end - now <= longest.saturating_mul(2)
}

impl WorkerStatus {
    fn new(id: String, kind: WorkerKind) -> Self {
        let (queues, running) = (Vec::new(), Vec::new());
        Self { id, kind, alive: false, lease_ends_ms: None, queues, info: None, running }
    }
}
