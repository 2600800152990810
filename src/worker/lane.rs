//! What does a worker keep for one of its queues? Its keys and wire ids, which of its slots must stay alive, and what is
//! left to ask of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::broker::{LeaseKeys, MAX_BATCH, Place, Token};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::{QueueName, WorkerId};
use crate::worker::backoff::Backoff;
use crate::worker::request::{Request, RequestKind};
use crate::worker::slots::Settlement;

/// What one message counts for a lane of weight 1; weights go up to 1000.
const SHARE: u64 = 1_000_000;
/// How many requests of one lane are under way at the most.
const REQUESTS: usize = 32;

/// One queue of a worker: shared by the loop that claims and the thread that beats.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: QueueName,
    pub(super) keys: QueueKeys,
    /// HASH of the worker on this queue.
    pub(super) worker_key: String,
    /// HASH of orders to end what its slots run.
    pub(super) orders_key: String,
    /// By slot.
    pub(super) wire_ids: Vec<String>,
    began: Instant,
    /// By slot: when its live key was last given a whole lease, in milliseconds after `began`; 0 is never.
    covered: Vec<AtomicU64>,
    /// By slot, on the same clock: when that came too late the last time, after its lease had ended.
    lapsed: Vec<AtomicU64>,
    /// One bit for each slot that owns a message, as far as we know.
    owned: Vec<AtomicU64>,
    /// One bit for each slot that owned a message since the last beat: it will soon own another.
    recent: Vec<AtomicU64>,
}

impl Lane {
    pub(super) fn new(queue: QueueName, worker: &WorkerId, slots: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let words = || zeros(slots.div_ceil(64));
        Self {
            keys: QueueKeys::new(&queue),
            worker_key: keys::worker(&queue, worker),
            orders_key: keys::orders(&queue, worker),
            wire_ids: (0..slots).map(|slot| keys::wire_id(&queue, worker, slot)).collect(),
            began: Instant::now(),
            covered: zeros(slots),
            lapsed: zeros(slots),
            owned: words(),
            recent: words(),
            queue,
        }
    }

    /// The slot that has this wire id.
    pub(super) fn slot_of(&self, wire_id: &str) -> Option<usize> {
        let slot = wire_id.rsplit_once(':')?.1.parse().ok()?;
        (self.wire_ids.get(slot)? == wire_id).then_some(slot)
    }

    /// The wire ids of `slots`.
    pub(super) fn ids(&self, slots: &[usize]) -> Vec<&str> {
        slots.iter().map(|slot| self.wire_ids[*slot].as_str()).collect()
    }

    /// The keys of the lease of `worker`, whose lane this is.
    pub(super) fn lease_keys<'a>(&'a self, worker: &'a str) -> LeaseKeys<'a> {
        LeaseKeys { queue: &self.keys, worker: &self.worker_key, orders: &self.orders_key, worker_id: worker }
    }

    /// Notes that a slot owns a message: its live key is kept from now on.
    pub(super) fn own(&self, slot: usize) {
        let bit = 1 << (slot % 64);
        self.owned[slot / 64].fetch_or(bit, Ordering::Relaxed);
        self.recent[slot / 64].fetch_or(bit, Ordering::Relaxed);
    }

    /// Notes that a slot may own a message, of which we shall hear: its live key is kept until then.
    pub(super) fn may_own(&self, slot: usize) {
        self.owned[slot / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    /// Notes that a slot owns nothing.
    pub(super) fn disown(&self, slot: usize) {
        self.owned[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Relaxed);
    }

    /// The slots that a beat keeps alive: those that own something, and those that did since the last beat.
    pub(super) fn to_cover(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        for (word, (owned, recent)) in self.owned.iter().zip(&self.recent).enumerate() {
            let mut bits = owned.load(Ordering::Relaxed) | recent.swap(0, Ordering::Relaxed);
            while bits != 0 {
                slots.push(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        slots
    }

    /// Milliseconds on this lane's clock; never 0.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Notes that the live keys of `slots` were given a whole lease by a request sent at `now`.
    pub(super) fn cover(&self, slots: &[usize], now: u64, lease: Duration) {
        for slot in slots {
            let before = self.covered[*slot].swap(now, Ordering::Relaxed);
            if is_over(before, now, lease) {
                self.lapsed[*slot].store(now, Ordering::Relaxed);
            }
        }
    }

    /// Whether the lease of a slot has ended at some time after `since`: others may have what it owned then.
    pub(super) fn has_lapsed(&self, slot: usize, since: u64, lease: Duration) -> bool {
        // In this order: a beat that comes in between has noted it.
        is_over(self.covered[slot].load(Ordering::Relaxed), self.now(), lease)
            || self.lapsed[slot].load(Ordering::Relaxed) > since
    }

    /// Whether one of `slots` must get a new lease before it owns a message: less than half of its lease is left.
    pub(super) fn needs_cover(&self, slots: &[usize], now: u64, lease: Duration) -> bool {
        let half = u64::try_from(lease.as_millis() / 2).unwrap_or(u64::MAX);
        slots.iter().any(|slot| {
            let covered = self.covered[*slot].load(Ordering::Relaxed);
            covered == 0 || now.saturating_sub(covered) > half
        })
    }
}

/// Whether a lease that was given then has ended.
fn is_over(given: u64, now: u64, lease: Duration) -> bool {
    given != 0 && u128::from(now.saturating_sub(given)) > lease.as_millis()
}

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
    /// Requests of which we do not know whether they were applied.
    pub(super) doubt: Vec<Request>,
    /// The last claim got less than it asked for.
    pub(super) dry: bool,
    /// The token in hand.
    pub(super) token: Option<Token>,
    /// A claim stands behind a wait: Redis runs it when the wait has ended.
    pub(super) standing: bool,
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
            claimed_by: vec![0; lane.wire_ids.len()],
            finished: Vec::new(),
            settlements: VecDeque::new(),
            requests: 0,
            claims: 0,
            refused: false,
            barred: false,
            doubt: Vec::new(),
            dry: false,
            token: None,
            standing: false,
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

    /// Whether something is left to do about what it owned, as far as that can be done. A claim that stood behind a wait
    /// when the connection broke has hardly taken anything.
    pub(super) fn has_work(&self) -> bool {
        !self.finished.is_empty()
            || !self.settlements.is_empty()
            || self.doubt.iter().any(|request| !request.is_standing())
            || self.requests > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_covers_what_is_owned_and_what_was_a_moment_ago() {
        let lane = Lane::new(QueueName::default(), &WorkerId::random(), 130);
        lane.own(0);
        lane.own(63);
        lane.own(129);
        lane.disown(63);
        assert_eq!(lane.to_cover(), [0, 63, 129]);
        assert_eq!(lane.to_cover(), [0, 129]);
    }

    #[test]
    fn a_slot_needs_cover_until_it_has_half_a_lease() {
        let lane = Lane::new(QueueName::default(), &WorkerId::random(), 2);
        let lease = Duration::from_secs(6);
        assert!(lane.needs_cover(&[0], 1, lease));
        lane.cover(&[0], 1, lease);
        assert!(!lane.needs_cover(&[0], 3001, lease));
        assert!(lane.needs_cover(&[0], 3002, lease));
        assert!(lane.needs_cover(&[0, 1], 2, lease));
    }

    #[test]
    fn a_slot_that_is_covered_too_late_has_lapsed() {
        let lane = Lane::new(QueueName::default(), &WorkerId::random(), 2);
        let lease = Duration::from_secs(6);
        lane.cover(&[0, 1], 1, lease);
        lane.cover(&[0], 6001, lease);
        assert!(!lane.has_lapsed(0, 0, lease), "it was in time");
        lane.cover(&[1], 6002, lease);
        assert!(lane.has_lapsed(1, 6001, lease) && !lane.has_lapsed(1, 6002, lease));
        let late = Lane { began: Instant::now().checked_sub(Duration::from_secs(7)).unwrap(), ..lane };
        late.covered[0].store(1, Ordering::Relaxed);
        assert!(late.has_lapsed(0, 1, lease), "nobody has covered it since");
    }

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
