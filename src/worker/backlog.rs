//! What does the worker own that has not begun? Messages that were claimed ahead, until a run before them ends.

use crate::broker::Place;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::dispatch::Batch;
use crate::worker::shutdown::Phase;
use crate::worker::slots::Settlement;
use crate::worker::stats::count;

/// A message that has not begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    slot: usize,
    /// Its place in the order of claims.
    order: u64,
    /// Since when, on the clock of its lane.
    since: u64,
}

impl ClaimLoop {
    /// Whether no more may begin now.
    pub(super) fn is_full(&self) -> bool {
        !self.backlog.is_empty() || self.slots.begun() >= self.concurrency
    }

    /// Leaves what a slot owns until others have ended.
    pub(super) fn leave_ahead(&mut self, slot: usize) {
        if let Some(running) = self.slots.running_in(slot) {
            let (order, since) = (running.order, self.lanes[running.lane].lane.now());
            self.backlog.push_back(Ahead { slot, order, since });
        }
    }

    /// Begins what waits, as far as runs have ended, until so much is to be released that Redis should have it. Gives
    /// whether more can begin.
    pub(super) fn begin_ahead(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        if self.closing {
            // It is put back with what runs.
            self.backlog.clear();
            return false;
        }
        if self.phase() > Phase::Quiet {
            self.put_back_ahead();
            return false;
        }
        let (mut batch, mut runs, mut is_enough) = (Batch::new(), Vec::new(), false);
        while self.slots.begun() < self.concurrency && !is_enough {
            let Some(first) = self.backlog.front().copied() else { break };
            let index = self.lane_of(first);
            if index.is_some_and(|index| self.has_lapsed(index, first)) {
                // Others may run it already, and what is behind it.
                self.put_back_ahead();
                break;
            }
            self.backlog.pop_front();
            if let Some(index) = index {
                self.begin(index, first.slot, &mut batch, &mut runs);
                is_enough = self.lanes[index].finished.len() >= self.chunk(index);
            }
        }
        self.hand_over(runs);
        is_enough && !self.backlog.is_empty()
    }

    /// Puts back to the heads of their queues what has not begun and is still ours.
    fn put_back_ahead(&mut self) {
        // The last first, so that they stand there in their order.
        while let Some(last) = self.backlog.pop_back() {
            if let Some(index) = self.lane_of(last) {
                self.slots.end(last.slot);
                count(&self.counters.put_back, 1);
                self.lanes[index].settlements.push_back((last.slot, Settlement::PutBack(Place::Head)));
            }
        }
    }

    fn has_lapsed(&self, index: usize, ahead: Ahead) -> bool {
        self.lanes[index].lane.has_lapsed(ahead.slot, ahead.since, self.sender.lease)
    }

    /// The lane of a message, if it still waits. One that was killed does not.
    fn lane_of(&self, ahead: Ahead) -> Option<usize> {
        let running = self.slots.running_in(ahead.slot)?;
        (running.order == ahead.order).then_some(running.lane)
    }
}
