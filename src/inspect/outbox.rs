//! Checks the outbox of a queue: whether the outcomes of steps reach their flows.

use std::time::Instant;

use crate::broker::BrokerError;
use crate::inspect::consistency::SCAN;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector, WorkerKind, WorkerStatus};
use crate::protocol::keys::QueueKeys;

/// How old a delivery is that no sweep has carried out: a sweep takes those that are two seconds old, and each queue that a
/// worker or a sweeper serves is swept every few seconds.
const OLD_MS: u64 = 60_000;
/// How many of them are counted.
const COUNTED: usize = 10_000;

impl Inspector {
    /// Looks for deliveries that should have been carried out.
    pub(super) async fn outbox(
        &self,
        keys: &QueueKeys,
        workers: &[WorkerStatus],
    ) -> Result<Option<Finding>, BrokerError> {
        let until = self.server_ms().await?.saturating_sub(OLD_MS);
        let (mut cursor, mut count, began) = (0, 0, Instant::now());
        loop {
            let (next, old) = self.broker.old_deliveries(keys, cursor, until).await?;
            count += old.len();
            cursor = next;
            if cursor == 0 || count >= COUNTED || began.elapsed() >= SCAN {
                break;
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let least = if cursor == 0 { "" } else { "at least " };
        let number = plural(count as u64, "delivery to a flow is", "deliveries to flows are");
        let is_served = workers.iter().any(|worker| worker.alive && worker.kind == WorkerKind::Ours);
        let (who, fix) = if is_served {
            (
                "although a worker serves this queue",
                "see the logs of the workers, and whether the queue of the next steps is full (`max_len`)",
            )
        } else {
            (
                "and no Rust worker is visible",
                "run `worker` with this queue, or `sweeper`: it carries them out",
            )
        };
        let text = format!("{least}{number} older than a minute, {who}: flows do not go on");
        Ok(Some(Finding::warning("outbox", text, fix)))
    }
}
