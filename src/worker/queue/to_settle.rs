//! Settlements of one queue that are not sent yet, in the order of their decisions.

use std::collections::VecDeque;
use std::time::Duration;

use crate::broker::{MAX_BATCH, MAX_DEFERRED, MAX_FINISHED, Place};
use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
use crate::worker::queue::request::RequestKind;
use crate::worker::settlement::Settlement;

/// A request that finishes calls carries about this many bytes of results, or a single call.
const RESULTS: usize = 1 << 20;

/// What is left to send.
#[derive(Debug, Default)]
pub(super) struct ToSettle {
    /// Slots to release with the next claim, each with whether to clear its suspicion.
    finished: Vec<(usize, bool)>,
    others: VecDeque<(usize, Settlement)>,
}

impl ToSettle {
    /// Pass messages that go back to the head in reverse order of their claims, so that they end up in their original
    /// order.
    pub(super) fn push(&mut self, slot: usize, settlement: Settlement) {
        match settlement {
            Settlement::Release { clears_suspect } => self.finished.push((slot, clears_suspect)),
            Settlement::Leave => {}
            other => self.others.push_back((slot, other)),
        }
    }

    /// The next request other than a release. Finished calls are sent together, and so are messages that go back to the
    /// same place.
    pub(super) fn next(&mut self) -> Option<RequestKind> {
        let (slot, settlement) = self.others.pop_front()?;
        let place = match settlement {
            Settlement::PutBack { place } => place,
            Settlement::Finish { .. } => return Some(self.finish_with(slot, settlement)),
            Settlement::Park { limit } => return Some(self.park_with(slot, limit)),
            Settlement::Defer { id, wait } => return Some(self.defer_with(slot, (id, wait))),
            _ => return Some(RequestKind::Settle { slot, settlement }),
        };
        let is_next = |next: &&(usize, Settlement)| matches!(next.1, Settlement::PutBack { place: other } if other == place);
        let count = self.others.iter().take(MAX_BATCH - 1).take_while(is_next).count();
        let others = self.others.drain(..count).map(|(slot, _)| slot);
        Some(RequestKind::PutBack { slots: std::iter::once(slot).chain(others).collect(), place })
    }

    /// A request that finishes this call and those behind it.
    fn finish_with(&mut self, slot: usize, end: Settlement) -> RequestKind {
        let mut bytes = result_bytes(&end).unwrap_or(0);
        let (mut slots, mut ends) = (vec![slot], vec![end]);
        while slots.len() < MAX_FINISHED
            && let Some(more) = self.others.front().and_then(|(_, end)| result_bytes(end))
            && bytes + more <= RESULTS
            && let Some((slot, end)) = self.others.pop_front()
        {
            bytes += more;
            slots.push(slot);
            ends.push(end);
        }
        RequestKind::Finish { slots, ends }
    }

    /// A request that parks this message and those behind it that wait for the same limit.
    fn park_with(&mut self, slot: usize, limit: LimitName) -> RequestKind {
        let is_next = |next: &&(usize, Settlement)| matches!(&next.1, Settlement::Park { limit: other } if *other == limit);
        let count = self.others.iter().take(MAX_BATCH - 1).take_while(is_next).count();
        let others = self.others.drain(..count).map(|(slot, _)| slot);
        RequestKind::Park { slots: std::iter::once(slot).chain(others).collect(), limit }
    }

    /// A request that defers this message and those behind it.
    fn defer_with(&mut self, slot: usize, wait: (CallId, Duration)) -> RequestKind {
        let (mut slots, mut waits) = (vec![slot], vec![wait]);
        while slots.len() < MAX_DEFERRED
            && let Some((_, Settlement::Defer { .. })) = self.others.front()
            && let Some((slot, Settlement::Defer { id, wait })) = self.others.pop_front()
        {
            slots.push(slot);
            waits.push((id, wait));
        }
        RequestKind::Defer { slots, waits }
    }

    /// The slots of all of them.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let finished = self.finished.iter().map(|(slot, _)| *slot);
        finished.chain(self.others.iter().map(|(slot, _)| *slot))
    }

    /// How many slots are to be released.
    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// Takes up to `most` slots to release: those that clear a suspicion first. Also returns the number of those.
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

/// The size in bytes of the result of a finished call; `None` if the call is not finished.
fn result_bytes(settlement: &Settlement) -> Option<usize> {
    match settlement {
        Settlement::Finish { field, .. } => Some(field.as_ref().map_or(0, |(_, value)| value.len())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::call_state::CallState;
    use crate::protocol::tracking::Tracking;

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
    fn finished_calls_go_together_until_their_results_are_large() {
        let finish = |bytes: usize| Settlement::Finish {
            tracking: Tracking { id: CallId::new(), keep_ms: Some(1), lock: None },
            member: None,
            state: CallState::Succeeded,
            took: Duration::ZERO,
            attempt: 1,
            field: Some(("result", vec![0; bytes])),
        };
        let mut left = ToSettle::default();
        (0..=MAX_FINISHED).for_each(|slot| left.push(slot, finish(1)));
        left.push(200, finish(RESULTS));
        left.push(201, finish(1));
        left.put_back(202, Place::Tail);
        left.push(203, finish(1));
        let told: Vec<_> = std::iter::from_fn(|| left.next())
            .map(|kind| match kind {
                RequestKind::Finish { slots, .. } => slots,
                _ => vec![],
            })
            .collect();
        let expected =
            [(0..MAX_FINISHED).collect(), vec![MAX_FINISHED], vec![200], vec![201], vec![], vec![203]];
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
