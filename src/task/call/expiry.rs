//! When a call expires.

use std::time::{Duration, SystemTime};

use super::due::Due;
use crate::protocol::meta::{milliseconds, since_1970};

/// When a call expires: it does not begin after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// This long after it could run: after its enqueue, or after it is due.
    After(Duration),
    /// At this moment.
    At(SystemTime),
}

impl Expiry {
    /// The moment in milliseconds since 1970, for a call that is enqueued now.
    pub(crate) fn ms(self, due: Option<Due>) -> u64 {
        let time = match self {
            Self::At(moment) => return since_1970(moment),
            Self::After(time) => time,
        };
        let now = SystemTime::now();
        let (from, delay) = match due {
            None => (now, Duration::ZERO),
            Some(Due::After(delay)) => (now, delay),
            Some(Due::At(moment)) => (now.max(moment), Duration::ZERO),
        };
        since_1970(from).saturating_add(milliseconds(delay)).saturating_add(milliseconds(time))
    }
}
