//! What does each slot do? Room for one message each, and never more messages than slots.

use std::collections::HashSet;
use std::time::Instant;

use bytes::Bytes;
use tokio::task::AbortHandle;

use crate::runner::RunHandle;
use crate::task::Cancellation;
use crate::worker::clock::Clock;

/// What is left to do about a message whose run has ended, other than to release it or to put it back.
#[derive(Debug, Clone)]
pub(super) enum Settlement {
    /// To the tail of the queue as these bytes.
    Retry(Vec<u8>),
    /// To the dead letters, with what its process wrote last.
    Bury { reason: &'static str, detail: String, attempt: u32, output: String },
}

/// What one slot does.
#[derive(Debug)]
pub(super) enum Slot {
    /// It owns nothing, or its message is being settled.
    Idle,
    /// Its message runs.
    Running(Running),
}

/// A message that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) lane: usize,
    pub(super) message: Bytes,
    /// Whether suspects were known when it was claimed, so that a success must be told.
    pub(super) suspect: bool,
    /// Whether nothing else is claimed while it runs.
    pub(super) alone: bool,
    /// Its place in the order of claims.
    pub(super) order: u64,
    pub(super) stop: Stop,
    /// When it began; none when it has not, or came to its end at once.
    pub(super) began: Option<Instant>,
    /// Tells the run that it should end; none when it would not hear it.
    pub(super) cancellation: Option<Cancellation>,
    /// None when it may go on without end.
    pub(super) clock: Option<Clock>,
}

/// How a run can be stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// It need not be: it has not begun, or has ended without being settled.
    NotNeeded,
    /// At its next `await`.
    Abort(AbortHandle),
    /// Not at all: a function that blocks.
    Impossible,
    /// By the end of its process.
    Process(RunHandle),
}

impl Stop {
    /// Whether there is a run.
    fn is_needed(&self) -> bool {
        !matches!(self, Self::NotNeeded)
    }
}

impl Running {
    /// Whether it goes on at this moment.
    fn is_underway(&self) -> bool {
        match &self.stop {
            Stop::NotNeeded => false,
            Stop::Abort(abort) => !abort.is_finished(),
            Stop::Impossible => true,
            Stop::Process(handle) => !handle.has_ended(),
        }
    }
}

/// How many slots there are beyond the concurrency, for messages that are put aside.
pub(super) const SPARES: usize = 64;

/// All slots of a worker.
#[derive(Debug)]
pub(super) struct Slots {
    /// Up to the last that was ever used: a worker with little to do has few.
    slots: Vec<Slot>,
    /// How many there are beside the spares.
    count: usize,
    free: Vec<usize>,
    /// Instead of slots whose messages were put aside.
    spares: Vec<usize>,
    aside: HashSet<usize>,
    running: usize,
    begun: usize,
    alone: usize,
    claims: u64,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        // The last one is taken first: a worker with little to do uses few slots.
        let (free, spares) = ((0..count).rev().collect(), (count..count + SPARES).rev().collect());
        let aside = HashSet::new();
        Self { slots: Vec::new(), count, free, spares, aside, running: 0, begun: 0, alone: 0, claims: 0 }
    }

    /// How many are not free, but for those whose messages were put aside and that have been replaced.
    pub(super) fn taken(&self) -> usize {
        self.count.saturating_sub(self.free.len())
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether none is taken.
    pub(super) fn are_all_free(&self) -> bool {
        self.free.len() + self.spares.len() == self.count + SPARES
    }

    /// Takes up to `count` free slots.
    pub(super) fn take(&mut self, count: usize) -> Vec<usize> {
        let from = self.free.len().saturating_sub(count);
        let mut taken = self.free.split_off(from);
        taken.reverse();
        taken
    }

    /// Gives a slot back that was taken and owns nothing.
    pub(super) fn give(&mut self, slot: usize) {
        // As many spares are in use as messages are aside, as far as there are any.
        if self.aside.remove(&slot) && self.aside.len() < SPARES {
            self.spares.push(slot);
        } else {
            self.free.push(slot);
        }
    }

    /// Notes that a slot keeps its message for long, and takes a spare one instead while there are any.
    pub(super) fn put_aside(&mut self, slot: usize) {
        if self.aside.insert(slot) {
            self.free.extend(self.spares.pop());
        }
    }

    /// How many messages run, or are to begin.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// How many have begun and not ended.
    pub(super) fn begun(&self) -> usize {
        self.begun
    }

    /// Puts a message into a slot.
    pub(super) fn begin(&mut self, slot: usize, lane: usize, message: Bytes, suspect: bool) {
        debug_assert!(self.running_in(slot).is_none(), "a slot runs one message");
        self.claims += 1;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || Slot::Idle);
        }
        self.slots[slot] = Slot::Running(Running {
            lane,
            message,
            suspect,
            alone: false,
            order: self.claims,
            stop: Stop::NotNeeded,
            began: None,
            cancellation: None,
            clock: None,
        });
        self.running += 1;
    }

    /// Notes that nothing else is to be claimed while a slot runs what it has.
    pub(super) fn leave_alone(&mut self, slot: usize) {
        if let Some(running) = self.running_in_mut(slot)
            && !std::mem::replace(&mut running.alone, true)
        {
            self.alone += 1;
        }
    }

    /// Whether a slot runs a message alone.
    pub(super) fn is_one_alone(&self) -> bool {
        self.alone > 0
    }

    /// What is to run alone and has not begun.
    pub(super) fn to_begin_alone(&self) -> Option<(usize, &Running)> {
        if self.alone == 0 {
            return None;
        }
        let has_not_begun = |running: &&Running| running.alone && matches!(running.stop, Stop::NotNeeded);
        (0..self.slots.len()).find_map(|slot| Some((slot, self.running_in(slot).filter(has_not_begun)?)))
    }

    /// Notes how what runs in a slot can be stopped.
    pub(super) fn stop_by(&mut self, slot: usize, stop: Stop) {
        if let Some(Slot::Running(running)) = self.slots.get_mut(slot) {
            let before = std::mem::replace(&mut running.stop, stop);
            self.begun -= usize::from(before.is_needed());
            self.begun += usize::from(running.stop.is_needed());
            if running.stop.is_needed() {
                running.began.get_or_insert_with(Instant::now);
            }
        }
    }

    /// What runs in a slot.
    pub(super) fn running_in(&self, slot: usize) -> Option<&Running> {
        match self.slots.get(slot)? {
            Slot::Running(running) => Some(running),
            Slot::Idle => None,
        }
    }

    /// The same, to change what is known of it.
    pub(super) fn running_in_mut(&mut self, slot: usize) -> Option<&mut Running> {
        match self.slots.get_mut(slot)? {
            Slot::Running(running) => Some(running),
            Slot::Idle => None,
        }
    }

    fn each_running(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Running(running) => Some(running),
            Slot::Idle => None,
        })
    }

    /// How many runs go on at this moment.
    pub(super) fn underway(&self) -> usize {
        self.each_running().filter(|running| running.is_underway()).count()
    }

    /// How many go on that nothing can stop but the end of this process.
    pub(super) fn stuck(&self) -> usize {
        let is_stuck =
            |running: &&Running| !matches!(running.stop, Stop::Process(_)) && running.is_underway();
        self.each_running().filter(is_stuck).count()
    }

    /// Tells the runs that they will be given up at `deadline`, or when their own time is up.
    pub(super) fn announce(&self, deadline: Instant) {
        for running in self.each_running() {
            if let Some(cancellation) = &running.cancellation {
                let own = running.clock.map(|clock| clock.until());
                cancellation.set_deadline(own.map_or(deadline, |own| own.min(deadline)));
            }
        }
    }

    /// Tells all runs that they should end.
    pub(super) fn cancel_all(&self) {
        for running in self.each_running() {
            if let Stop::Process(handle) = &running.stop {
                handle.cancel();
            }
            running.cancellation.as_ref().map(Cancellation::cancel);
        }
    }

    /// Stops what can be stopped: a future at its next `await`, a process where it is.
    pub(super) fn abort_all(&self) {
        for running in self.each_running() {
            match &running.stop {
                Stop::Abort(abort) => abort.abort(),
                Stop::Process(handle) => handle.abandon(),
                Stop::NotNeeded | Stop::Impossible => {}
            }
        }
    }

    /// How many runs go on that can be stopped.
    pub(super) fn aborting(&self) -> usize {
        let stoppable = |running: &&Running| {
            matches!(running.stop, Stop::Abort(_) | Stop::Process(_)) && running.is_underway()
        };
        self.each_running().filter(stoppable).count()
    }

    /// Takes the message out of a slot when its run has ended; none when the slot was emptied before.
    pub(super) fn end(&mut self, slot: usize) -> Option<Running> {
        match std::mem::replace(self.slots.get_mut(slot)?, Slot::Idle) {
            Slot::Idle => None,
            Slot::Running(running) => {
                self.running -= 1;
                self.begun -= usize::from(running.stop.is_needed());
                self.alone -= usize::from(running.alone);
                Some(running)
            }
        }
    }

    /// The slots that run, in the order of their claims.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut running: Vec<(u64, usize)> = (self.slots.iter().enumerate())
            .filter_map(|(slot, state)| match state {
                Slot::Running(running) => Some((running.order, slot)),
                Slot::Idle => None,
            })
            .collect();
        running.sort_unstable();
        running.into_iter().map(|(_, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_never_used_is_idle() {
        let mut slots = Slots::new(3);
        assert!(slots.running_in(2).is_none() && slots.running_in_mut(2).is_none() && slots.end(2).is_none());
        slots.begin(1, 0, Bytes::new(), false);
        assert!(slots.running_in(1).is_some() && slots.running_in(0).is_none() && slots.end(2).is_none());
        assert_eq!(slots.in_order(), [1]);
        assert!(slots.end(1).is_some() && slots.end(1).is_none());
    }

    #[test]
    fn what_is_put_aside_is_replaced_while_there_are_spares() {
        let mut slots = Slots::new(3);
        let mut aside = Vec::new();
        for count in 1..=SPARES + 3 {
            let slot = slots.take(1)[0];
            slots.put_aside(slot);
            slots.put_aside(slot);
            aside.push(slot);
            assert_eq!(slots.free(), 3.min(SPARES + 3 - count));
        }
        assert!(slots.take(1).is_empty());
        for (count, slot) in aside.into_iter().enumerate() {
            slots.give(slot);
            assert_eq!(slots.free(), 3.min(count + 1));
        }
        assert!(slots.are_all_free());
        assert_eq!(slots.take(5).len(), 3);
    }
}
