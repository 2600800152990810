//! Prefetched messages, in the order of their claims, until an earlier run ends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::worker::executor::Executor;
use crate::worker::prefetch_limiter::PATIENCE;

/// A message that has not begun.
#[derive(Debug, Clone, Copy)]
struct Prefetched {
    slot: usize,
    /// Its position in the order of claims, which identifies the message within its slot.
    order: u64,
    /// When it was claimed, on the clock of its queue.
    since: u64,
}

/// All messages of a worker that have not begun.
#[derive(Debug, Default)]
pub(super) struct PrefetchedMessages {
    waiting: VecDeque<Prefetched>,
    /// When to check whether the first of them has waited too long.
    check_at: Option<Instant>,
}

/// What can begin next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum NextPrefetched {
    /// Nothing, or no run has ended.
    None,
    /// The lease of the first one has ended: others may already run it and those behind it.
    Lapsed,
    /// The message in this slot of this queue.
    Slot { queue: usize, slot: usize },
}

impl Executor {
    /// Whether prefetched messages wait.
    pub(in crate::worker) fn has_prefetched(&self) -> bool {
        !self.prefetched.waiting.is_empty()
    }

    /// Leaves the message of a slot waiting until others have ended.
    pub(in crate::worker) fn leave_prefetched(&mut self, slot: usize) {
        if let Some(running) = self.runs.get(slot) {
            let (order, since) = (running.order(), self.queues[running.queue()].now());
            self.prefetched.waiting.push_back(Prefetched { slot, order, since });
        }
    }

    /// Does the same for a message that was claimed before all others that wait.
    pub(in crate::worker) fn leave_prefetched_first(&mut self, slot: usize) {
        if let Some(running) = self.runs.get(slot) {
            let (order, since) = (running.order(), self.queues[running.queue()].now());
            self.prefetched.waiting.push_front(Prefetched { slot, order, since });
        }
    }

    /// Whether one can begin.
    pub(in crate::worker) fn can_begin_prefetched(&self) -> bool {
        let Some(first) = self.prefetched.waiting.front() else { return false };
        !self.is_busy() || self.runs.get(first.slot).is_some_and(|running| self.may_join(running.message()))
    }

    /// Takes the next one that can begin.
    pub(in crate::worker) fn next_prefetched(&mut self) -> NextPrefetched {
        while self.can_begin_prefetched() {
            let Some(first) = self.prefetched.waiting.front().copied() else { break };
            let queue = self.queue_of(first);
            if queue.is_some_and(|queue| self.has_lapsed(queue, first)) {
                return NextPrefetched::Lapsed;
            }
            self.prefetched.waiting.pop_front();
            if let Some(queue) = queue {
                return NextPrefetched::Slot { queue, slot: first.slot };
            }
        }
        NextPrefetched::None
    }

    /// Gives up all of them, because the worker is ending and puts back the contents of its slots.
    pub(in crate::worker) fn clear_prefetched(&mut self) {
        self.prefetched.waiting.clear();
    }

    /// Takes all that have not begun and are still held, last claim first. Returns their queues and slots.
    pub(in crate::worker) fn take_prefetched(&mut self) -> Vec<(usize, usize)> {
        let mut taken = Vec::new();
        while let Some(last) = self.prefetched.waiting.pop_back() {
            if let Some(queue) = self.queue_of(last) {
                self.runs.take(last.slot);
                taken.push((queue, last.slot));
            }
        }
        taken
    }

    /// Takes those of one queue that have not begun and are still held, first claim first. Returns their slots.
    pub(in crate::worker) fn take_prefetched_of(&mut self, queue: usize) -> Vec<usize> {
        let waiting = std::mem::take(&mut self.prefetched.waiting);
        let (taken, others): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|prefetched| self.queue_of(*prefetched) == Some(queue));
        self.prefetched.waiting = others;
        let slots: Vec<usize> = taken.into_iter().map(|prefetched| prefetched.slot).collect();
        slots.iter().for_each(|slot| drop(self.runs.take(*slot)));
        slots
    }

    /// Sets a timer that limits their waiting time, unless the prefetch is fixed.
    pub(in crate::worker) fn watch_prefetched(&mut self) {
        if !self.has_prefetched() || self.limiter.is_fixed() {
            self.prefetched.check_at = None;
        } else {
            self.prefetched.check_at.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
    }

    pub(super) fn check_prefetched_at(&self) -> Option<Instant> {
        self.prefetched.check_at
    }

    /// Checks, when its timer fires, whether the first message has waited too long. Returns its queue: it and all messages
    /// behind it should be left to others.
    pub(in crate::worker) fn overdue_prefetched(&mut self, now: Instant) -> Option<usize> {
        self.prefetched.check_at.take_if(|at| *at <= now)?;
        while let Some(first) = self.prefetched.waiting.front().copied() {
            if let Some(queue) = self.queue_of(first) {
                let waited = Duration::from_millis(self.queues[queue].now() - first.since);
                if waited < PATIENCE {
                    self.prefetched.check_at = Some(Instant::now() + PATIENCE - waited);
                    return None;
                }
                self.limiter.back_off();
                return Some(queue);
            }
            self.prefetched.waiting.pop_front();
        }
        None
    }

    fn has_lapsed(&self, queue: usize, first: Prefetched) -> bool {
        self.queues[queue].has_lapsed(first.slot, first.since, self.lease)
    }

    /// The queue of a message, if it still waits. A killed message does not wait.
    fn queue_of(&self, prefetched: Prefetched) -> Option<usize> {
        let running = self.runs.get(prefetched.slot)?;
        (running.order() == prefetched.order).then_some(running.queue())
    }
}
