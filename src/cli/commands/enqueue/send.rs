//! Sends a call, and says where it is then.

use super::options::Options;
use super::{Ready, report};
use crate::broker::{
    Bound, Broker, BrokerError, BrokerErrorKind, Entry, Ready as Batch, Submission, Submitted,
};
use crate::cli::commands::warn_of_misspelled;
use crate::cli::exit::Failure;
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;
use crate::protocol::tracking::Tracking;

/// Where a call is now.
pub(super) enum Place {
    /// In its queue, where so many wait with it.
    Waiting { waiting: u64 },
    /// In the timetable.
    Scheduled { due_ms: u64 },
    /// Nowhere: this one came first, and is in that state.
    Held { holder: CallId, state: String },
    /// In the timetable, in place of an earlier call and with its id.
    Replaced { holder: CallId, due_ms: Option<u64> },
}

impl Place {
    /// The id of the call that is there instead.
    pub(super) fn id(&self) -> Option<CallId> {
        match self {
            Self::Waiting { .. } | Self::Scheduled { .. } => None,
            Self::Held { holder, .. } | Self::Replaced { holder, .. } => Some(*holder),
        }
    }
}

/// Enqueues, schedules or submits a call.
pub(super) async fn send(
    broker: &Broker,
    call: &Ready<'_>,
    options: &Options,
    tracking: Option<Tracking>,
) -> Result<Place, Failure> {
    let queue = call.queue;
    if call.args.queue.is_some() {
        let known = broker.registered_queues().await.map_err(BrokerError::without_effect)?;
        warn_of_misspelled(queue, known.iter().map(String::as_str));
    }
    broker.register_queue(queue.as_str()).await.map_err(BrokerError::without_effect)?;
    let keys = QueueKeys::new(queue);
    broker.check_types(&keys).await.map_err(BrokerError::without_effect)?;
    if tracking.is_some() || options.front || options.bound != Bound::NONE {
        let id = call.id.unwrap_or_else(CallId::new);
        let tracking = tracking.unwrap_or(Tracking { id, keep_ms: None, lock: None });
        return submit(broker, &keys, call, options, tracking).await;
    }
    let (Some(due), Some(id)) = (call.due, call.id) else {
        let waiting = broker.enqueue(Batch::new(&keys, std::iter::once(call.message))).await?;
        return Ok(Place::Waiting { waiting });
    };
    let dues = broker.schedule(&keys, &[Entry { id, due, message: call.message }]).await?;
    match dues.first() {
        Some(Some(due_ms)) => Ok(Place::Scheduled { due_ms: *due_ms }),
        _ => Err(Error::AlreadyScheduled { id, queue: queue.clone() }.into()),
    }
}

async fn submit(
    broker: &Broker,
    keys: &QueueKeys,
    call: &Ready<'_>,
    options: &Options,
    tracking: Tracking,
) -> Result<Place, Failure> {
    let (queue, id) = (call.queue.clone(), tracking.id);
    let submission = Submission {
        tracking,
        due: call.due,
        front: options.front,
        period: options.period(),
        task: &call.args.path,
        message: call.message,
    };
    let submitted = broker.submit(keys, options.bound, &[submission]).await?.into_iter().next();
    match submitted {
        Some(Submitted::Taken) => {
            let place = place(broker, keys, call, id).await;
            place.map_err(|error| report::sent(error.into(), call))
        }
        Some(Submitted::Locked { holder, state }) => Ok(Place::Held { holder, state }),
        Some(Submitted::Replaced { holder }) => {
            let due_ms = broker.due(keys, holder).await.map_err(|error| report::sent(error.into(), call))?;
            Ok(Place::Replaced { holder, due_ms })
        }
        Some(Submitted::Exists { state }) => Err(Error::Exists { id, queue, state }.into()),
        Some(Submitted::Full { waiting }) => Err(Error::QueueFull { queue, waiting }.into()),
        None => Err(BrokerError::new("submit", BrokerErrorKind::Reply, "no reply for the call").into()),
    }
}

/// Where a call is that was taken. It may have moved on already.
async fn place(
    broker: &Broker,
    keys: &QueueKeys,
    call: &Ready<'_>,
    id: CallId,
) -> Result<Place, BrokerError> {
    if call.due.is_some()
        && let Some(due_ms) = broker.due(keys, id).await?
    {
        return Ok(Place::Scheduled { due_ms });
    }
    let [waiting, ..] = broker.lengths(keys).await?;
    Ok(Place::Waiting { waiting })
}
