//! What does the worker own that has not begun? Messages that were claimed ahead, until a run before them ends.

use std::time::{Duration, Instant};

use crate::broker::Place;
use crate::worker::batch::Batch;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::prefetch::PATIENCE;
use crate::worker::shutdown::Phase;
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

    /// Whether something that waits can begin.
    pub(super) fn can_begin_ahead(&self) -> bool {
        !self.backlog.is_empty() && self.slots.begun() < self.concurrency
    }

    /// Begins what waits, as far as runs have ended, until so much is to be released that Redis should have it. Gives
    /// whether more can begin now.
    pub(super) fn begin_ahead(&mut self, batch: &mut Batch) -> bool {
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
        let (mut runs, mut is_enough) = (Vec::new(), false);
        while self.slots.begun() < self.concurrency && !is_enough && !batch.is_over() {
            let Some(first) = self.backlog.front().copied() else { break };
            let index = self.lane_of(first);
            if index.is_some_and(|index| self.has_lapsed(index, first)) {
                // Others may run it already, and what is behind it.
                self.put_back_ahead();
                break;
            }
            self.backlog.pop_front();
            if let Some(index) = index {
                self.begin(index, first.slot, batch, &mut runs);
                is_enough = self.lanes[index].finished.len() >= self.chunk(index);
            }
        }
        self.hand_over(runs);
        is_enough && !self.backlog.is_empty()
    }

    /// Sees to it that what waits does not wait for long, where that is not wanted.
    pub(super) fn mind_ahead(&mut self) {
        if self.backlog.is_empty() || self.outlook.is_fixed() {
            self.look_at = None;
        } else {
            self.look_at.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
    }

    /// Leaves what has waited for too long to others, and all that is behind it.
    pub(super) fn look_ahead(&mut self) {
        while let Some(first) = self.backlog.front().copied() {
            if let Some(index) = self.lane_of(first) {
                let waited = Duration::from_millis(self.lanes[index].lane.now() - first.since);
                if waited < PATIENCE {
                    self.look_at = Some(Instant::now() + PATIENCE - waited);
                } else {
                    tracing::debug!(queue = %self.lanes[index].lane.queue, messages = self.backlog.len(), "a run takes long: what was claimed ahead is put back");
                    self.outlook.back_off();
                    self.put_back_ahead();
                }
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Puts back to the heads of their queues what has not begun and is still ours.
    fn put_back_ahead(&mut self) {
        // The last first, so that they stand there in their order.
        while let Some(last) = self.backlog.pop_back() {
            if let Some(index) = self.lane_of(last) {
                self.slots.end(last.slot);
                count(&self.counters.put_back, 1);
                self.lanes[index].put_back_later(last.slot, Place::Head);
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
