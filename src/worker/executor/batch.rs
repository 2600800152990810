//! Limits how long runs are polled in place, one after the other.

use std::time::{Duration, Instant};

/// How long runs may be polled in place, one after the other, before the loop looks for replies again: what has ended is not
/// released meanwhile, and runs again when the worker dies.
const SLICE: Duration = Duration::from_micros(100);
/// When fewer than so many runs took that long, the next ones are spawned, so that other threads take a part of them.
const MANY: usize = 16;

/// How many runs have been polled in place, one after the other, and how long that took.
pub(in crate::worker) struct Batch {
    began: Instant,
    last: Instant,
    count: usize,
}

impl Batch {
    pub(in crate::worker) fn new() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, count: 0 }
    }

    /// Whether another run may be polled in place.
    pub(in crate::worker) fn has_time(&self) -> bool {
        self.last.duration_since(self.began) < SLICE
    }

    /// Whether the next runs shall begin when the loop has looked for replies.
    pub(in crate::worker) fn is_over(&self) -> bool {
        !self.has_time() && self.count >= MANY
    }

    /// When the last run ended.
    pub(in crate::worker) fn last(&self) -> Instant {
        self.last
    }

    /// Another run has been polled: the time that it took.
    pub(in crate::worker) fn ran(&mut self) -> Duration {
        self.count += 1;
        self.lap()
    }

    /// The time since the last lap.
    pub(in crate::worker) fn lap(&mut self) -> Duration {
        let last = std::mem::replace(&mut self.last, Instant::now());
        self.last.duration_since(last)
    }
}
