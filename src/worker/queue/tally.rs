//! Counts how calls end, until the counts are written to the history.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::history::{DURATIONS, KINDS, duration_class};

/// Counters that only grow, and to which one thread adds, so that adding needs no lock of the bus.
#[derive(Debug)]
pub(in crate::worker) struct Tally<const N: usize>([AtomicU64; N]);

/// Of a queue: how many runs have succeeded and failed, and how many calls have become dead letters.
pub(in crate::worker) type QueueTally = Tally<{ KINDS.len() }>;
/// Of a task: how many runs have succeeded and failed, and how long they took.
pub(in crate::worker) type TaskTally = Tally<{ 2 + DURATIONS }>;

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self(from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Tally<N> {
    fn add(&self, place: usize) {
        let count = &self.0[place];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(in crate::worker) fn get(&self) -> [u64; N] {
        from_fn(|place| self.0[place].load(Ordering::Relaxed))
    }
}

impl QueueTally {
    /// Counts a call: whether it has succeeded, failed, and become a dead letter.
    pub(in crate::worker) fn count(&self, what: [bool; KINDS.len()]) {
        (0..).zip(what).filter(|(_, is_so)| *is_so).for_each(|(place, _)| self.add(place));
    }
}

impl TaskTally {
    /// Counts a run.
    pub(in crate::worker) fn count_run(&self, has_succeeded: bool, took: Option<Duration>) {
        self.add(usize::from(!has_succeeded));
        if let Some(took) = took {
            self.add(2 + duration_class(took));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_how_they_end_and_how_long_they_take() {
        let tally = TaskTally::default();
        tally.count_run(true, Some(Duration::from_micros(3)));
        tally.count_run(false, Some(Duration::from_secs(1)));
        tally.count_run(false, None);
        let counts = tally.get();
        assert_eq!((counts[0], counts[1], counts[2 + 2], counts[2 + 20]), (1, 2, 1, 1));
        let tally = QueueTally::default();
        tally.count([true, false, false]);
        tally.count([false, true, true]);
        assert_eq!(tally.get(), [1, 1, 1]);
    }
}
