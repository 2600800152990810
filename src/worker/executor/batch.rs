//! Limits how long runs are polled in place, one after the other.

use std::time::{Duration, Instant};

/// How long runs may be polled in place, one after another, before the loop checks for replies again. Meanwhile, finished
/// messages are not released, and would run again if the worker died.
const SLICE: Duration = Duration::from_micros(100);
/// If fewer runs than this took that long, the next ones are spawned, so that other threads share the work.
const MANY: usize = 16;

/// Counts and times runs that are polled in place, one after another.
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

    /// Whether the next runs must wait until the loop has checked for replies.
    pub(in crate::worker) fn is_over(&self) -> bool {
        !self.has_time() && self.count >= MANY
    }

    /// When the last run ended.
    pub(in crate::worker) fn last(&self) -> Instant {
        self.last
    }

    /// Notes that another run has been polled. Returns how long that took.
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
