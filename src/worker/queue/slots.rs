//! Hands out slots: room for one owned message each.

use std::collections::HashSet;

/// How many spare slots there are, beyond the concurrency and the prefetch, to replace those whose messages were set aside.
pub(in crate::worker) const SPARES: usize = 64;

/// The free slots of a worker. A slot is taken from the moment a request may fill it until its message is settled.
#[derive(Debug)]
pub(super) struct SlotPool {
    /// How many slots there are, without the spares.
    count: usize,
    free: Vec<usize>,
    spares: Vec<usize>,
    /// Slots whose messages were set aside.
    aside: HashSet<usize>,
}

impl SlotPool {
    pub(super) fn new(count: usize) -> Self {
        // The last slot is taken first, so that a worker with little to do uses few slots.
        let (free, spares) = ((0..count).rev().collect(), (count..count + SPARES).rev().collect());
        Self { count, free, spares, aside: HashSet::new() }
    }

    /// How many slots are taken, except those that were set aside and replaced.
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

    /// Returns a slot that owns nothing.
    pub(super) fn give(&mut self, slot: usize) {
        // As many spares are in use as slots are set aside, while the spares last.
        if self.aside.remove(&slot) && self.aside.len() < SPARES {
            self.spares.push(slot);
        } else {
            self.free.push(slot);
        }
    }

    /// Notes that a slot keeps its message for long, and frees a spare in its place while the spares last.
    pub(super) fn set_aside(&mut self, slot: usize) {
        if self.aside.insert(slot) {
            self.free.extend(self.spares.pop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_set_aside_are_replaced_while_spares_last() {
        let mut slots = SlotPool::new(3);
        let mut aside = Vec::new();
        for count in 1..=SPARES + 3 {
            let slot = slots.take(1)[0];
            slots.set_aside(slot);
            slots.set_aside(slot);
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
