//! What does the worker own that has not begun? Messages that were claimed ahead, until a run before them ends.

use crate::broker::Place;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::dispatch::Batch;
use crate::worker::shutdown::Phase;
use crate::worker::slots::Settlement;
use crate::worker::stats::count;

impl ClaimLoop {
    /// Whether no more may begin now.
    pub(super) fn is_full(&self) -> bool {
        !self.backlog.is_empty() || self.slots.begun() >= self.concurrency
    }

    /// Leaves what a slot owns until others have ended.
    pub(super) fn leave_waiting(&mut self, slot: usize) {
        let order = self.slots.running_in(slot).map(|running| running.order);
        self.backlog.extend(order.map(|order| (slot, order)));
    }

    /// Begins what waits, as far as runs have ended, until so much is to be released that Redis should have it. Gives
    /// whether more can begin.
    pub(super) fn begin_waiting(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        if self.closing {
            // It is put back with what runs.
            self.backlog.clear();
            return false;
        }
        if self.phase() > Phase::Quiet {
            self.put_back_waiting();
            return false;
        }
        let (mut batch, mut runs, mut is_enough) = (Batch::new(), Vec::new(), false);
        while self.slots.begun() < self.concurrency && !is_enough {
            let Some((slot, order)) = self.backlog.pop_front() else { break };
            if let Some(index) = self.waits(slot, order) {
                self.begin(index, slot, &mut batch, &mut runs);
                is_enough = self.lanes[index].finished.len() >= self.chunk(index);
            }
        }
        self.hand_over(runs);
        is_enough && !self.backlog.is_empty()
    }

    /// Puts back to the heads of their queues what has not begun: a worker that stops leaves it to others.
    fn put_back_waiting(&mut self) {
        // The last first, so that they stand there in their order.
        while let Some((slot, order)) = self.backlog.pop_back() {
            if let Some(index) = self.waits(slot, order) {
                self.slots.end(slot);
                count(&self.counters.put_back, 1);
                self.lanes[index].settlements.push_back((slot, Settlement::PutBack(Place::Head)));
            }
        }
    }

    /// The lane of a message that still waits. One that was killed does not.
    fn waits(&self, slot: usize, order: u64) -> Option<usize> {
        self.slots.running_in(slot).filter(|running| running.order == order).map(|running| running.lane)
    }
}
