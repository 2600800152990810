//! The timers of runs that have deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::worker::executor::runs::Runs;

/// How many timers of ended runs are kept before they are removed.
const STALE: usize = 64;

/// When runs must be checked. Timers of ended runs stay until they come first or become too many.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Timer>>);

/// The order of claims identifies the run within its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Instant,
    slot: usize,
    order: u64,
}

impl Timers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the timer of the run in a slot.
    pub(super) fn set(&mut self, at: Instant, slot: usize, runs: &Runs) {
        let Some(running) = runs.get(slot) else { return };
        self.0.push(Reverse(Timer { at, slot, order: running.order() }));
        if self.0.len() > STALE + 2 * runs.running() {
            self.0.retain(|Reverse(timer)| timer.is_of_a_run(runs));
        }
    }

    /// When the next timer fires.
    pub(super) fn next(&mut self, runs: &Runs) -> Option<Instant> {
        while let Some(Reverse(timer)) = self.0.peek() {
            if timer.is_of_a_run(runs) {
                return Some(timer.at);
            }
            self.0.pop();
        }
        None
    }

    /// Takes a timer that is due; returns its slot.
    pub(super) fn take(&mut self, now: Instant, runs: &Runs) -> Option<usize> {
        if self.next(runs)? > now {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer.slot)
    }
}

impl Timer {
    fn is_of_a_run(&self, runs: &Runs) -> bool {
        runs.get(self.slot).is_some_and(|running| running.order() == self.order)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timers_ring_in_order_and_not_for_ended_runs() {
        let (mut runs, mut timers, now) = (Runs::default(), Timers::default(), Instant::now());
        for slot in 0..3 {
            runs.hold(slot, 0, Bytes::new(), false, false);
            timers.set(now + SECOND * (10 - slot as u32), slot, &runs);
        }
        assert_eq!(timers.next(&runs), Some(now + 8 * SECOND));
        assert_eq!(timers.take(now, &runs), None);
        runs.take(1);
        runs.hold(1, 0, Bytes::new(), false, false);
        let later = now + 20 * SECOND;
        assert_eq!(timers.take(later, &runs), Some(2));
        assert_eq!(timers.take(later, &runs), Some(0), "the run of slot 1 is another one");
        assert_eq!((timers.take(later, &runs), timers.is_empty()), (None, true));
        for _ in 0..10 * STALE {
            runs.take(1);
            runs.hold(1, 0, Bytes::new(), false, false);
            timers.set(now, 1, &runs);
        }
        assert!(timers.0.len() <= STALE + 6, "{}", timers.0.len());
    }
}
