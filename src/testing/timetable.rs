//! Moves the timetable by hand.

use std::time::Duration;

use crate::broker::MAX_SCHEDULED;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// Makes scheduled calls due earlier, and moves those that are due to their queues: of all queues, or of these. Returns how many
/// it moved.
pub(super) async fn advance(
    inspector: &Inspector,
    queues: Option<&[QueueName]>,
    time: Duration,
) -> Result<u64, Error> {
    let names = match queues {
        Some(queues) => queues.iter().cloned().collect(),
        None => inspector.queue_names().await?,
    };
    let broker = inspector.broker();
    let mut moved = 0;
    for queue in names {
        let keys = QueueKeys::new(&queue);
        if !time.is_zero() {
            broker.advance(&keys, time).await?;
        }
        let now = broker.server_time(&keys).await?.as_millis();
        // Each round begins with the first again, as what is due leaves the timetable.
        loop {
            let first = broker.dues(&keys, 0, MAX_SCHEDULED as u64).await?.unwrap_or_default();
            let due: Vec<_> =
                first.iter().filter(|(_, due_ms)| u128::from(*due_ms) <= now).map(|(id, _)| *id).collect();
            if due.is_empty() {
                break;
            }
            moved += inspector.run_now(&queue, &due).await?;
        }
        // What is left of what is due: filling batches.
        loop {
            let promoted = broker.promote(&keys, "testing", Duration::from_millis(1)).await?;
            if promoted.moved == 0 {
                break;
            }
            moved += promoted.moved;
        }
    }
    Ok(moved)
}
