//! Whose time is up, and what is done about it? A run is asked to end, and after its grace it is dropped. What can be
//! neither is told of.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::isolation::Timeouts;
use crate::protocol::message::Message;
use crate::runner::Outcome;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::clock::{Clock, Step};
use crate::worker::slots::{Running, Slots, Stop};
use crate::worker::stats::count;

/// How many timers of runs that have ended are kept before they are looked for.
const STALE: usize = 64;

impl Running {
    /// What its run came to: one that failed because it was asked to end has timed out.
    pub(super) fn judged(&self, outcome: Outcome) -> Outcome {
        match (&self.clock, outcome) {
            (Some(clock), Outcome::Failed(error))
                if error.is_retryable() && clock.is_up() && self.cancellation.is_some() =>
            {
                clock.timed_out()
            }
            (_, outcome) => outcome,
        }
    }
}

/// The timers of runs that have a clock. Those of runs that have ended are left in, and cleared away by and by.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Timer>>);

/// The order of claims tells the runs of one slot apart.
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

    /// Sets the timer of what runs in a slot.
    fn set(&mut self, at: Instant, slot: usize, slots: &Slots) {
        let Some(running) = slots.running_in(slot) else { return };
        self.0.push(Reverse(Timer { at, slot, order: running.order }));
        if self.0.len() > STALE + 2 * slots.running() {
            self.0.retain(|Reverse(timer)| timer.is_of_a_run(slots));
        }
    }

    /// When the next one rings.
    pub(super) fn next(&mut self, slots: &Slots) -> Option<Instant> {
        while let Some(Reverse(timer)) = self.0.peek() {
            if timer.is_of_a_run(slots) {
                return Some(timer.at);
            }
            self.0.pop();
        }
        None
    }

    /// Takes one that rings; gives its slot.
    fn take(&mut self, now: Instant, slots: &Slots) -> Option<usize> {
        if self.next(slots)? > now {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer.slot)
    }
}

impl Timer {
    fn is_of_a_run(&self, slots: &Slots) -> bool {
        slots.running_in(self.slot).is_some_and(|running| running.order == self.order)
    }
}

impl ClaimLoop {
    /// Minds the time of what runs in a slot, if it has a clock.
    pub(super) fn mind(&mut self, slot: usize) {
        let clock = self.slots.running_in(slot).and_then(|running| running.clock);
        if let Some(clock) = clock {
            self.timers.set(clock.until(), slot, &self.slots);
        }
    }

    /// Ends the time of what runs in a slot now, whatever it had left. Gives how long it has to end by itself.
    pub(super) fn end_time(&mut self, slot: usize) -> Duration {
        let Some(running) = self.slots.running_in_mut(slot) else { return Duration::ZERO };
        let known = Message::decode(&running.message).ok().and_then(|message| self.known.get(message.task()));
        let grace = known.map_or(Timeouts::GRACE, |known| known.timeouts.grace());
        let now = Instant::now();
        let clock = running.clock.get_or_insert_with(|| Clock::endless(grace));
        clock.end(now);
        let (grace, rings) = (clock.grace(), clock.rings());
        let grace = match &running.cancellation {
            Some(cancellation) => {
                cancellation.set_deadline(now);
                grace
            }
            None => Duration::ZERO,
        };
        if let Some(rings) = rings {
            self.timers.set(rings, slot, &self.slots);
        }
        grace
    }

    /// Sees to all runs whose time is up.
    pub(super) fn on_time_up(&mut self, now: Instant) {
        while let Some(slot) = self.timers.take(now, &self.slots) {
            let Some(running) = self.slots.running_in_mut(slot) else { continue };
            let Some(clock) = &mut running.clock else { continue };
            if clock.rings().is_none_or(|at| at > now) {
                continue;
            }
            let abort = match &running.stop {
                Stop::Abort(abort) => Some(abort),
                Stop::NotNeeded | Stop::Impossible | Stop::Process(_) => None,
            };
            let (step, again) = clock.ring(now, running.cancellation.is_some(), abort.is_some());
            match (step, &running.cancellation, abort) {
                (Step::Ask, Some(cancellation), _) => cancellation.cancel(),
                (Step::Drop, _, Some(abort)) => abort.abort(),
                (Step::Ask | Step::Drop, ..) => {}
                (Step::Warn, _, abort) => {
                    count(&self.counters.overdue, 1);
                    let queue = &self.lanes[running.lane].lane.queue;
                    let task = Message::decode(&running.message).map_or("", |message| message.task());
                    let why = match abort {
                        Some(_) => "it comes to no `await`",
                        None => "a function that blocks cannot be stopped",
                    };
                    self.orders.on_overdue(slot);
                    tracing::warn!(%queue, task, why, after = ?clock.elapsed(), "the time of a run is up, but it goes on and keeps its slot: `isolation = \"fork\"` would end it");
                }
            }
            if let Some(again) = again {
                self.timers.set(again, slot, &self.slots);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timers_ring_in_order_and_those_of_runs_that_ended_do_not() {
        let (mut slots, mut timers, now) = (Slots::new(3), Timers::default(), Instant::now());
        for slot in slots.take(3) {
            slots.begin(slot, 0, Bytes::new(), false);
            timers.set(now + SECOND * (10 - slot as u32), slot, &slots);
        }
        assert_eq!(timers.next(&slots), Some(now + 8 * SECOND));
        assert_eq!(timers.take(now, &slots), None);
        slots.end(1);
        slots.begin(1, 0, Bytes::new(), false);
        let later = now + 20 * SECOND;
        assert_eq!(timers.take(later, &slots), Some(2));
        assert_eq!(timers.take(later, &slots), Some(0), "the run of slot 1 is another one");
        assert_eq!((timers.take(later, &slots), timers.is_empty()), (None, true));
        for _ in 0..10 * STALE {
            slots.end(1);
            slots.begin(1, 0, Bytes::new(), false);
            timers.set(now, 1, &slots);
        }
        assert!(timers.0.len() <= STALE + 6, "{}", timers.0.len());
    }
}
