//! What does the loop keep for one of its queues? What is left to ask of it, and what it has answered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::broker::{MAX_BATCH, Place, Token};
use crate::worker::backoff::Backoff;
use crate::worker::lane::Lane;
use crate::worker::request::{Request, RequestKind};
use crate::worker::slots::Settlement;

/// What one message counts for a lane of weight 1; weights go up to 1000.
const SHARE: u64 = 1_000_000;
/// How many requests of one lane are under way at the most.
const REQUESTS: usize = 32;

/// What was decided about what a slot owns.
#[derive(Debug)]
enum Decision {
    Settle(Settlement),
    PutBack(Place),
}

/// What the loop keeps for one queue.
pub(super) struct LaneState {
    pub(super) lane: Arc<Lane>,
    /// 0 when queues are asked strictly in their order.
    pub(super) weight: u32,
    /// What it has got for its weight so far: messages by [`SHARE`] and weight. 0 for ever without a weight.
    pub(super) got: u64,
    /// The number of the last request that was made.
    pub(super) seq: u64,
    /// The number of the last request that is known to be applied.
    pub(super) applied: u64,
    /// By slot: the number of the claim that filled it last; 0 when that is not known.
    pub(super) claimed_by: Vec<u64>,
    /// Slots whose messages are to be released, and whether suspects are to be forgiven.
    pub(super) finished: Vec<(usize, bool)>,
    /// What is left to be settled, in the order in which it was told.
    settlements: VecDeque<(usize, Decision)>,
    pub(super) requests: usize,
    pub(super) claims: usize,
    /// A request was refused: no other is made until those under way have been answered.
    pub(super) refused: bool,
    /// What it asks is refused until somebody mends a key or gives a right.
    pub(super) barred: bool,
    /// Requests of which we do not know whether they were applied. A pick-up keeps the connection of its wait until then.
    pub(super) doubt: Vec<Request>,
    /// The last claim got less than it asked for.
    pub(super) dry: bool,
    /// The token in hand.
    pub(super) token: Option<Token>,
    /// A pick-up stands behind a wait: Redis runs it when the wait has ended.
    pub(super) picks_up: bool,
    pub(super) waiting: u64,
    /// The mean size in bytes of the messages that the last claim brought.
    pub(super) size: usize,
    pub(super) suspects: bool,
    pub(super) backoff: Backoff,
    /// How many tasks of other workers were put back since one of ours was met, or since the last rest.
    pub(super) foreign: u64,
    /// How many messages the queue has had at the most meanwhile.
    pub(super) round: u64,
    /// The pause after a whole round of the queue was foreign, for those workers.
    pub(super) rest: Backoff,
    /// The pause after a call was put back that got no process, or lost it.
    pub(super) losses: Backoff,
    /// What could not be buried, and keeps its slots.
    pub(super) unburied: VecDeque<(usize, Settlement)>,
    /// The pause after that.
    pub(super) burials: Backoff,
}

impl LaneState {
    pub(super) fn new(lane: Arc<Lane>, weight: u32) -> Self {
        Self {
            weight,
            got: 0,
            seq: 0,
            applied: 0,
            claimed_by: vec![0; lane.slot_count],
            finished: Vec::new(),
            settlements: VecDeque::new(),
            requests: 0,
            claims: 0,
            refused: false,
            barred: false,
            doubt: Vec::new(),
            dry: false,
            token: None,
            picks_up: false,
            waiting: 0,
            size: 0,
            suspects: false,
            backoff: Backoff::default(),
            foreign: 0,
            round: 0,
            rest: Backoff::rest(),
            losses: Backoff::rest(),
            unburied: VecDeque::new(),
            burials: Backoff::default(),
            lane,
        }
    }

    /// Notes what was decided about what a slot owns.
    pub(super) fn settle_later(&mut self, slot: usize, settlement: Settlement) {
        self.settlements.push_back((slot, Decision::Settle(settlement)));
    }

    /// Notes that what a slot owns is to be put back into the queue. What goes to the head is told last claim first.
    pub(super) fn put_back_later(&mut self, slot: usize, place: Place) {
        self.settlements.push_back((slot, Decision::PutBack(place)));
    }

    /// What is to be settled next, with all behind it that is put back to the same place.
    pub(super) fn next_settlement(&mut self) -> Option<RequestKind> {
        let (slot, decision) = self.settlements.pop_front()?;
        Some(match decision {
            Decision::Settle(settlement) => RequestKind::Settle { slot, settlement },
            Decision::PutBack(place) => {
                let is_next =
                    |next: &&(usize, Decision)| matches!(next.1, Decision::PutBack(other) if other == place);
                let count = self.settlements.iter().take(MAX_BATCH - 1).take_while(is_next).count();
                let others = self.settlements.drain(..count).map(|(slot, _)| slot);
                RequestKind::PutBack { slots: std::iter::once(slot).chain(others).collect(), place }
            }
        })
    }

    /// Whether an ordinary request may be made now.
    pub(super) fn is_open(&self) -> bool {
        self.doubt.is_empty() && !self.refused && self.backoff.until().is_none() && self.requests < REQUESTS
    }

    /// Whether nothing is claimed for a while, though Redis would give something.
    pub(super) fn rests(&self) -> bool {
        self.rest.until().is_some() || self.losses.until().is_some()
    }

    /// Whether nothing is asked of it for a while, by itself or since Redis refused.
    pub(super) fn pauses_now(&self) -> bool {
        self.backoff.until().is_some() || self.rests()
    }

    /// When its pauses end.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Instant> {
        [&self.backoff, &self.rest, &self.losses, &self.burials].into_iter().filter_map(Backoff::until)
    }

    /// Notes that messages were claimed, and others still wait.
    pub(super) fn charge(&mut self, messages: usize) {
        self.round = self.round.max(self.waiting + messages as u64);
        self.got += (messages as u64 * SHARE).checked_div(u64::from(self.weight)).unwrap_or(0);
    }

    /// Notes that a task of another worker was put back, behind all that wait. Rests when there is nothing else in the
    /// queue: the more rounds in a row, the longer.
    pub(super) fn on_foreign(&mut self) {
        if self.foreign > 0 && self.foreign >= self.round {
            (self.foreign, self.round) = (0, 0);
            self.rest.fail();
        }
    }

    /// Whether nothing is left to run or to bury: the queue is empty, or a whole round of it was foreign and none of ours
    /// came since.
    pub(super) fn is_drained(&self) -> bool {
        let is_empty = self.dry && self.waiting == 0;
        self.token.is_none() && self.unburied.is_empty() && (is_empty || self.rest.is_failing())
    }

    /// Notes that there was a task of ours.
    pub(super) fn on_known(&mut self) {
        (self.foreign, self.round) = (0, 0);
        if self.rest.is_failing() {
            self.rest.succeed();
        }
    }

    /// Whether nothing is asked, and nothing is left to ask but what Redis will refuse again.
    pub(super) fn is_quiet(&self) -> bool {
        let is_settled = self.doubt.is_empty() && self.settlements.is_empty() && self.finished.is_empty();
        self.requests == 0 && (self.barred || is_settled)
    }

    /// Whether something is left to do about what it owned, as far as that can be done. A pick-up that stood behind a
    /// wait when the connection broke has hardly taken anything.
    pub(super) fn has_work(&self) -> bool {
        !self.finished.is_empty()
            || !self.settlements.is_empty()
            || self.doubt.iter().any(|request| !request.is_pick_up())
            || self.requests > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::names::{QueueName, WorkerId};

    #[test]
    fn what_is_put_back_to_the_same_place_goes_together() {
        let mut lane = LaneState::new(Arc::new(Lane::new(QueueName::default(), &WorkerId::random(), 4)), 0);
        (0..=MAX_BATCH).for_each(|slot| lane.put_back_later(slot, Place::Tail));
        lane.put_back_later(7, Place::Head);
        lane.settle_later(8, Settlement::Retry(Vec::new()));
        lane.put_back_later(9, Place::Head);
        let requests = std::iter::from_fn(|| lane.next_settlement());
        let told: Vec<_> = requests
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
    fn a_lane_rests_when_a_whole_round_was_foreign() {
        let mut lane = LaneState::new(Arc::new(Lane::new(QueueName::default(), &WorkerId::random(), 4)), 0);
        let put_back = |lane: &mut LaneState, waiting: u64, foreign: u64| {
            lane.waiting = waiting;
            lane.charge(4);
            lane.foreign += foreign;
            lane.on_foreign();
            lane.rests()
        };
        // Of 12 messages, by 4.
        assert!(!put_back(&mut lane, 8, 4));
        assert!(!put_back(&mut lane, 8, 4));
        assert!(!lane.is_drained());
        assert!(put_back(&mut lane, 8, 4));
        assert!(lane.is_drained());
        // One of ours ends the rest, and begins another round.
        lane.on_known();
        assert!(!lane.rests() && !lane.is_drained());
        assert!(!put_back(&mut lane, 1, 4));
        assert!(put_back(&mut lane, 1, 4));
    }
}
