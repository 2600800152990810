//! What happens to a message after its run. [`decide`](crate::worker::decide) chooses it, and the broker carries it out.

use std::time::Duration;

use crate::broker::Place;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::limit::LimitName;
use crate::protocol::tracking::Tracking;

/// The one transition that ends a worker's ownership of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settlement {
    /// Finishes the message and forgets it.
    Release {
        /// Whether to clear its suspicion, too: it was claimed while suspects existed, and its run succeeded.
        clears_suspect: bool,
    },
    /// Finishes the message and records how its call ended.
    Finish {
        tracking: Tracking,
        /// Of which flow it is a step, as in its message.
        member: Option<Box<[u8]>>,
        state: CallState,
        took: Duration,
        attempt: u32,
        /// One more field of the record, and its value.
        field: Option<(&'static str, Vec<u8>)>,
    },
    /// Moves it to the tail of the queue with this content, which counts one more failed attempt.
    Retry { message: Vec<u8> },
    /// Moves it to the timetable with this content, under this id, to run again after `delay`.
    RetryLater { message: Vec<u8>, id: CallId, delay: Duration },
    /// Moves it to the dead letters.
    Bury {
        /// One word.
        reason: &'static str,
        /// A sentence.
        detail: String,
        /// The number of this attempt.
        attempt: u32,
        /// The output of the process that ran it.
        output: String,
        call: BuriedCall,
    },
    /// Finishes a batch, but for the items that failed: each goes on as a message of its own.
    Split { parts: Vec<Part>, call: BuriedCall },
    /// Puts it back into the queue, unchanged.
    PutBack { place: Place },
    /// Parks it with the messages that wait for this limit, unchanged.
    Park { limit: LimitName },
    /// Moves it to the timetable under this id, unchanged, until the rate of a limit permits it.
    Defer { id: CallId, wait: Duration },
    /// Leaves it owned: a sweeper requeues it when the worker is gone, and counts a death.
    Leave,
}

/// What happens to an item of a batch that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// It runs again at once, at the tail of the queue.
    Retry { message: Vec<u8> },
    /// It runs again after `delay`, under this id in the timetable.
    RetryLater { message: Vec<u8>, id: CallId, delay: Duration, is_snoozed: bool },
    /// It becomes a dead letter.
    Bury { message: Vec<u8>, detail: String, attempt: u32 },
}

/// What the log says about a call once it is buried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BuriedCall {
    pub(super) task: String,
    pub(super) id: Option<CallId>,
    /// Whether it is a step of a flow.
    pub(super) is_step: bool,
    /// `None` if it did not run.
    pub(super) duration: Option<Duration>,
}

impl Part {
    /// Its burial, as that of a message.
    pub(super) fn burial(&self, call: &BuriedCall) -> Option<Settlement> {
        let Self::Bury { detail, attempt, .. } = self else { return None };
        let (detail, attempt, call) = (detail.clone(), *attempt, call.clone());
        Some(Settlement::Bury { reason: "failed", detail, attempt, output: String::new(), call })
    }
}

impl Settlement {
    /// The burials of items, if it splits a batch.
    pub(super) fn burials_of_items(&self) -> impl Iterator<Item = Self> {
        let (parts, call) = match self {
            Self::Split { parts, call } => (parts.as_slice(), Some(call)),
            _ => (&[][..], None),
        };
        parts.iter().filter_map(move |part| part.burial(call?))
    }

    /// How long the message waits before it runs again, if it does.
    pub(super) fn delay(&self) -> Option<Duration> {
        match self {
            Self::RetryLater { delay, .. } => Some(*delay),
            _ => None,
        }
    }
}
