//! Submits calls that keep a record, are unique, or go to the head or into a queue with a bound.

use crate::broker::{Bound, Broker, BrokerError, BrokerErrorKind, Submission, Submitted};
use crate::client::patience::Until;
use crate::client::schedule::Later;
use crate::client::session::Enqueued;
use crate::client::{Conflict, keys};
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::names::QueueName;

/// Submits one call.
pub(super) async fn one(
    broker: &Broker,
    call: &Later,
    bound: Bound,
    until: Until,
) -> Result<Submitted, BrokerError> {
    let submitted = several(broker, std::slice::from_ref(call), bound, until).await?;
    submitted
        .into_iter()
        .next()
        .ok_or_else(|| BrokerError::new("submit", BrokerErrorKind::Reply, "no reply for the call"))
}

/// Submits calls of one queue, with one bound.
pub(super) async fn several(
    broker: &Broker,
    calls: &[Later],
    bound: Bound,
    until: Until,
) -> Result<Vec<Submitted>, BrokerError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let keys = keys(&first.queue);
    let submissions: Vec<Submission<'_>> = calls.iter().filter_map(Later::submission).collect();
    until.retry(async |end| broker.by(end).submit(&keys, bound, &submissions).await).await
}

/// Submits calls of one queue, with one bound. Gives what became of each.
pub(super) async fn many(
    broker: &Broker,
    calls: &[Later],
    bound: Bound,
    until: Until,
) -> Result<Vec<Result<(), Error>>, BrokerError> {
    let submitted = several(broker, calls, bound, until).await?;
    let result = |(call, submitted): (&Later, _)| enqueued(call.queue.clone(), call.id, submitted).map(drop);
    Ok(calls.iter().zip(submitted).map(result).collect())
}

/// What its caller is told.
pub(super) fn enqueued(
    queue: QueueName,
    id: Option<CallId>,
    submitted: Submitted,
) -> Result<Enqueued, Error> {
    Ok(match submitted {
        Submitted::Taken => Enqueued { queue, id, conflict: None },
        Submitted::Locked { holder, state } => {
            Enqueued { queue, id: Some(holder), conflict: Some(Conflict::Held(CallState::parse(&state))) }
        }
        Submitted::Replaced { holder } => {
            Enqueued { queue, id: Some(holder), conflict: Some(Conflict::Replaced) }
        }
        Submitted::Exists { state } => {
            return Err(Error::Exists { id: id.unwrap_or_else(CallId::new), queue, state });
        }
        Submitted::Full { waiting } => return Err(Error::QueueFull { queue, waiting }),
    })
}
