//! What is done with a message after its run. [`decide`](crate::worker::decide) makes it, and the broker carries it out.

use std::time::Duration;

use crate::broker::Place;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::limit::LimitName;
use crate::protocol::tracking::Tracking;

/// The one transition that ends a worker's ownership of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settlement {
    /// The message is done and forgotten.
    Release {
        /// Whether its suspicion is cleared too: it was claimed while suspects were known, and its run ended well.
        clears_suspect: bool,
    },
    /// The message is done, and how its call ended is noted.
    Finish {
        tracking: Tracking,
        state: CallState,
        took: Duration,
        attempt: u32,
        /// One more field of the record, and its value.
        field: Option<(&'static str, Vec<u8>)>,
    },
    /// To the tail of the queue as these bytes, with one failed attempt more.
    Retry { message: Vec<u8> },
    /// To the timetable as these bytes, under this id, to run again after that time.
    RetryLater { message: Vec<u8>, id: CallId, delay: Duration },
    /// To the dead letters.
    Bury {
        /// One word.
        reason: &'static str,
        /// A sentence.
        detail: String,
        /// Which attempt this was.
        attempt: u32,
        /// What the process of the run wrote.
        output: String,
        call: BuriedCall,
    },
    /// Back into the queue unchanged.
    PutBack { place: Place },
    /// To the messages that wait for this limit, unchanged.
    Park { limit: LimitName },
    /// To the timetable, unchanged, under this id, until the rate of a limit lets it run.
    Defer { id: CallId, wait: Duration },
    /// It stays owned: a sweeper requeues it when the worker is gone, and counts a death.
    Leave,
}

/// What the log says of a call that is buried, once it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BuriedCall {
    pub(super) task: String,
    pub(super) id: Option<CallId>,
    /// `None` when it did not run.
    pub(super) duration: Option<Duration>,
}

impl Settlement {
    /// How long the message waits before it runs again, if it does.
    pub(super) fn delay(&self) -> Option<Duration> {
        match self {
            Self::RetryLater { delay, .. } => Some(*delay),
            _ => None,
        }
    }
}
