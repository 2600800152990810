//! Finds calls in all queues by their ids.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::commands::{LONG, check_queue};
use crate::cli::exit::Failure;
use crate::error::Error;
use crate::inspect::{CallRecord, Inspector};
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// The queue that was named, or all.
pub(in crate::cli::commands) async fn queues(
    inspector: &Inspector,
    named: Option<&QueueName>,
) -> Result<Vec<QueueName>, Failure> {
    match named {
        Some(queue) => {
            check_queue(inspector, Some(queue)).await?;
            Ok(vec![queue.clone()])
        }
        None => Ok(inspector.queue_names().await.map_err(Error::from)?.into_iter().collect()),
    }
}

/// A call, and its queue.
pub(super) async fn found(
    inspector: &Inspector,
    queues: &[QueueName],
    id: CallId,
) -> Result<(QueueName, CallRecord), Failure> {
    for queue in queues {
        if let Some(call) = inspector.call(queue, id, LONG).await? {
            return Ok((queue.clone(), call));
        }
    }
    Err(unknown(&[id]))
}

/// The queues of these calls, and the ids that no call has. Where one queue is meant, nothing is searched.
pub(super) async fn find(
    inspector: &Inspector,
    queues: &[QueueName],
    ids: &[CallId],
) -> Result<(BTreeMap<QueueName, Vec<CallId>>, Vec<CallId>), Failure> {
    let ids: BTreeSet<CallId> = ids.iter().copied().collect();
    if let [queue] = queues {
        return Ok((BTreeMap::from([(queue.clone(), ids.into_iter().collect())]), Vec::new()));
    }
    let (mut found, mut missing) = (BTreeMap::<QueueName, Vec<CallId>>::new(), Vec::new());
    for id in ids {
        let mut is_found = false;
        for queue in queues {
            if inspector.call(queue, id, 0).await?.is_some() {
                is_found = true;
                found.entry(queue.clone()).or_default().push(id);
            }
        }
        if !is_found {
            missing.push(id);
        }
    }
    Ok((found, missing))
}

/// That no such calls are known.
pub(super) fn unknown(ids: &[CallId]) -> Failure {
    let of_text = match ids.iter().any(CallId::is_hashed) {
        true => " (the id of a text that is not a UUID)",
        false => "",
    };
    let ids: Vec<String> = ids.iter().map(CallId::to_string).collect();
    Failure::not_found(format!(
        "no call {} is known{of_text}: it may have run without a record, or its record has expired (see `enqueue \
        --keep`); `calls list` shows the known calls",
        ids.join(", ")
    ))
}
