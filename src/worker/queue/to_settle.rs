//! Settlements of one queue that are still to be sent, in the order in which they were decided.

use std::collections::VecDeque;

use crate::broker::{MAX_BATCH, Place};
use crate::worker::queue::request::RequestKind;
use crate::worker::settlement::Settlement;

/// What is left to send.
#[derive(Debug, Default)]
pub(super) struct ToSettle {
    /// Slots to release with the next claim, and whether suspects are to be cleared.
    finished: Vec<(usize, bool)>,
    others: VecDeque<(usize, Settlement)>,
}

impl ToSettle {
    /// Messages that go back to the head are given last claim first, so that they end up in their old order.
    pub(super) fn push(&mut self, slot: usize, settlement: Settlement) {
        match settlement {
            Settlement::Release { clears_suspect } => self.finished.push((slot, clears_suspect)),
            Settlement::Leave => {}
            other => self.others.push_back((slot, other)),
        }
    }

    /// The next request, other than to release: messages that go back to the same place go together.
    pub(super) fn next(&mut self) -> Option<RequestKind> {
        let (slot, settlement) = self.others.pop_front()?;
        let Settlement::PutBack { place } = settlement else {
            return Some(RequestKind::Settle { slot, settlement });
        };
        let is_next = |next: &&(usize, Settlement)| matches!(next.1, Settlement::PutBack { place: other } if other == place);
        let count = self.others.iter().take(MAX_BATCH - 1).take_while(is_next).count();
        let others = self.others.drain(..count).map(|(slot, _)| slot);
        Some(RequestKind::PutBack { slots: std::iter::once(slot).chain(others).collect(), place })
    }

    /// How many slots are to be released.
    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// Takes up to so many slots to release: those that clear a suspect first, and how many those are.
    pub(super) fn take_finished(&mut self, most: usize) -> (Vec<usize>, usize) {
        let rest = self.finished.split_off(self.finished.len().min(most));
        let mut taken = std::mem::replace(&mut self.finished, rest);
        let cleared = taken.iter().filter(|(_, clears)| *clears).count();
        if cleared > 0 {
            taken.sort_by_key(|(_, clears)| !clears);
        }
        (taken.into_iter().map(|(slot, _)| slot).collect(), cleared)
    }

    pub(super) fn put_back(&mut self, slot: usize, place: Place) {
        self.push(slot, Settlement::PutBack { place });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_put_back_to_the_same_place_go_together() {
        let mut left = ToSettle::default();
        (0..=MAX_BATCH).for_each(|slot| left.put_back(slot, Place::Tail));
        left.put_back(7, Place::Head);
        left.push(8, Settlement::Retry { message: Vec::new() });
        left.put_back(9, Place::Head);
        left.push(10, Settlement::Leave);
        let told: Vec<_> = std::iter::from_fn(|| left.next())
            .map(|kind| match kind {
                RequestKind::PutBack { slots, place } => (slots, Some(place)),
                RequestKind::Settle { slot, .. } => (vec![slot], None),
                other => panic!("expected nothing else to be settled, not {other:?}"),
            })
            .collect();
        let (head, tail) = (Some(Place::Head), Some(Place::Tail));
        let expected = [
            ((0..MAX_BATCH).collect(), tail),
            (vec![MAX_BATCH], tail),
            (vec![7], head),
            (vec![8], None),
            (vec![9], head),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn slots_that_clear_a_suspect_are_released_first() {
        let mut left = ToSettle::default();
        for (slot, clears_suspect) in [(1, false), (2, true), (3, false), (4, true)] {
            left.push(slot, Settlement::Release { clears_suspect });
        }
        assert_eq!(left.take_finished(3), (vec![2, 1, 3], 1));
        assert_eq!((left.take_finished(3), left.is_empty()), ((vec![4], 1), true));
    }
}
