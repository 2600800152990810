//! Why is a run not ended? Named by what an operator can do.

use crate::broker::BrokerError;
use crate::error::Error;
use crate::inspect::kill::MAX_BY;

/// Why nothing was ordered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KillError {
    /// It is neither the id of a call nor of a slot.
    #[error(
        "{id:?} is neither the id of a call (32 hexadecimal digits) nor that of a slot (such as \
        default:abcdefghijklmn27:0): `workers` shows running calls and their slots"
    )]
    Malformed {
        /// What was given.
        id: String,
    },
    /// Nothing that runs has this id.
    #[error("no running call has the id {id}: `workers` shows running calls, `dead list` buried ones")]
    NotRunning {
        /// What was given.
        id: String,
    },
    /// The call waits; it does not run.
    #[error(
        "the call {id} is not running, but waits in {queue} (`peek {queue} --start {position} --count 1` shows it): \
        kill it when it runs, or drop all waiting calls with `purge {queue}`"
    )]
    Waiting {
        /// The call.
        id: String,
        /// Where it waits.
        queue: String,
        /// How many are before it.
        position: u64,
    },
    /// The slot is not one of ours.
    #[error(
        "the slot {wire_id} of {queue} belongs to a Python or Go worker, which does not support kill requests: stop \
        that process, or wait until the call has ended"
    )]
    Foreign {
        /// The slot.
        wire_id: String,
        /// Its queue.
        queue: String,
    },
    /// Several runs have this id.
    #[error("several slots run {id}: kill each call by the id of its slot, {}", wire_ids.join(", "))]
    Ambiguous {
        /// What was given.
        id: String,
        /// The slots.
        wire_ids: Vec<String>,
    },
    /// The worker of the slot is dead.
    #[error(
        "the worker of the slot {wire_id} is dead, so nothing runs there: a sweep requeues the call, and you can kill \
        it when it runs again"
    )]
    DeadWorker {
        /// The slot.
        wire_id: String,
    },
    /// As many orders as there may be wait for that worker.
    #[error("too many kill requests wait for the worker of the slot {wire_id}: try again in a few seconds")]
    TooMany {
        /// The slot.
        wire_id: String,
    },
    /// Who orders it cannot be kept.
    #[error("the name of the operator must have 1 to {MAX_BY} bytes of printable text, got {by:?}")]
    By {
        /// What was given.
        by: String,
    },
    /// Redis cannot be reached, or a key of a queue has a wrong type.
    #[error(transparent)]
    Error(#[from] Error),
}

impl From<BrokerError> for KillError {
    fn from(error: BrokerError) -> Self {
        Self::Error(error.into())
    }
}
