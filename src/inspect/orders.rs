//! Tells workers to claim nothing more, or to stop.

use std::time::Duration;

use crate::error::Error;
use crate::inspect::Inspector;
use crate::inspect::pause::kept;
use crate::protocol::info::{WorkerInfo, WorkerOrder};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::WorkerId;

/// The assumed lease of a worker that does not say it.
const LEASE: Duration = Duration::from_secs(6);

impl Inspector {
    /// Tells a worker to claim nothing more, or to stop; it hears that with one of its next heartbeats, at the latest after two
    /// leases. `by` says who tells it, for its log: at most 200 bytes are kept. Returns whether there is such a worker. Workers of
    /// Python and Go, and of an older version, do not hear it.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of a queue has a wrong type.
    pub async fn order_worker(&self, id: &str, order: WorkerOrder, by: &str) -> Result<bool, Error> {
        let Some(worker) = WorkerId::parse(id) else { return Ok(false) };
        let now = self.server_ms().await?;
        for queue in self.queue_names().await? {
            let leases = self.broker.workers(&QueueKeys::new(&queue)).await?;
            if !leases.iter().any(|(other, ends)| other == id && *ends > now) {
                continue;
            }
            let info = self.broker.worker_info(&keys::worker(&queue, &worker)).await?;
            let info = info.as_deref().and_then(WorkerInfo::decode);
            let lease = info.map_or(LEASE, |info| Duration::from_millis(info.lease_ms));
            self.broker.order_worker(&keys::orders(&queue, &worker), order, &kept(by), lease * 3).await?;
            return Ok(true);
        }
        Ok(false)
    }
}
