//! What does a worker share of one of its queues? Its keys and wire ids, which of its slots must stay alive, and whether it
//! is to be swept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::broker::LeaseKeys;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::{QueueName, WorkerId};

/// One queue of a worker: shared by the loop that claims and the thread that beats.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: QueueName,
    pub(super) keys: QueueKeys,
    /// HASH of the worker on this queue.
    pub(super) worker_key: String,
    /// HASH of orders to end what its slots run.
    pub(super) orders_key: String,
    worker: WorkerId,
    began: Instant,
    /// How many slots there are, with the spares.
    pub(super) slot_count: usize,
    /// What is known of them, [`TOGETHER`] in each; made when one of those is used, as most of an idle worker's never are.
    slots: Box<[OnceLock<Box<[LaneSlot]>>]>,
    /// One bit for each slot that owns a message, as far as we know.
    owned: Vec<AtomicU64>,
    /// One bit for each slot that owned a message since the last beat: it will soon own another.
    recent: Vec<AtomicU64>,
    /// Whether the queue is to be swept, since something may be found.
    found: AtomicBool,
}

/// How many slots are made at once.
const TOGETHER: usize = 16;

/// What a lane knows of one slot.
#[derive(Debug)]
struct LaneSlot {
    wire_id: String,
    /// When its live key was last given a whole lease, in milliseconds after the lane `began`; 0 is never.
    covered: AtomicU64,
    /// On the same clock: when that came too late the last time, after its lease had ended.
    lapsed: AtomicU64,
}

impl Lane {
    pub(super) fn new(queue: QueueName, worker: &WorkerId, slots: usize) -> Self {
        let words = || (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self {
            keys: QueueKeys::new(&queue),
            worker_key: keys::worker(&queue, worker),
            orders_key: keys::orders(&queue, worker),
            worker: worker.clone(),
            began: Instant::now(),
            slot_count: slots,
            slots: (0..slots.div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect(),
            owned: words(),
            recent: words(),
            found: AtomicBool::new(true),
            queue,
        }
    }

    fn slot(&self, slot: usize) -> &LaneSlot {
        let first = slot - slot % TOGETHER;
        let made = self.slots[slot / TOGETHER].get_or_init(|| {
            let make = |slot| LaneSlot {
                wire_id: keys::wire_id(&self.queue, &self.worker, slot),
                covered: AtomicU64::new(0),
                lapsed: AtomicU64::new(0),
            };
            (first..self.slot_count.min(first + TOGETHER)).map(make).collect()
        });
        &made[slot - first]
    }

    /// The slot that has this wire id.
    pub(super) fn slot_of(&self, wire_id: &str) -> Option<usize> {
        let slot = wire_id.rsplit_once(':')?.1.parse().ok()?;
        (slot < self.slot_count && self.wire_id(slot) == wire_id).then_some(slot)
    }

    /// The wire id of a slot.
    pub(super) fn wire_id(&self, slot: usize) -> &str {
        &self.slot(slot).wire_id
    }

    /// The wire ids of `slots`.
    pub(super) fn ids(&self, slots: &[usize]) -> Vec<&str> {
        slots.iter().map(|slot| self.wire_id(*slot)).collect()
    }

    /// The wire ids of all slots that may ever have owned a message.
    pub(super) fn used_ids(&self) -> Vec<&str> {
        let made = self.slots.iter().filter_map(OnceLock::get);
        made.flatten().map(|slot| slot.wire_id.as_str()).collect()
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

    /// Notes that a sweep of the queue may find something. At first it may.
    pub(super) fn note_found(&self) {
        self.found.store(true, Ordering::Release);
    }

    /// Whether that was noted since it was last asked for.
    pub(super) fn take_found(&self) -> bool {
        self.found.swap(false, Ordering::Acquire)
    }

    /// Milliseconds on this lane's clock; never 0.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Notes that the live keys of `slots` were given a whole lease by a request sent at `now`.
    pub(super) fn cover(&self, slots: &[usize], now: u64, lease: Duration) {
        for slot in slots {
            let slot = self.slot(*slot);
            let before = slot.covered.swap(now, Ordering::Relaxed);
            if is_over(before, now, lease) {
                slot.lapsed.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Whether the lease of a slot has ended at some time after `since`: others may have what it owned then.
    pub(super) fn has_lapsed(&self, slot: usize, since: u64, lease: Duration) -> bool {
        let slot = self.slot(slot);
        // In this order: a beat that comes in between has noted it.
        is_over(slot.covered.load(Ordering::Relaxed), self.now(), lease)
            || slot.lapsed.load(Ordering::Relaxed) > since
    }

    /// Whether one of `slots` must get a new lease before it owns a message: less than half of its lease is left.
    pub(super) fn needs_cover(&self, slots: &[usize], now: u64, lease: Duration) -> bool {
        let half = u64::try_from(lease.as_millis() / 2).unwrap_or(u64::MAX);
        slots.iter().any(|slot| {
            let covered = self.slot(*slot).covered.load(Ordering::Relaxed);
            covered == 0 || now.saturating_sub(covered) > half
        })
    }
}

/// Whether a lease that was given then has ended.
fn is_over(given: u64, now: u64, lease: Duration) -> bool {
    given != 0 && u128::from(now.saturating_sub(given)) > lease.as_millis()
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
    fn wire_ids_are_made_when_their_slots_are_used() {
        let worker = WorkerId::random();
        let lane = Lane::new(QueueName::default(), &worker, TOGETHER + 3);
        assert!(lane.used_ids().is_empty());
        let last = format!("default:{worker}:{}", TOGETHER + 2);
        assert_eq!(lane.wire_id(TOGETHER + 2), last);
        assert_eq!(lane.used_ids().len(), 3, "expected those that are beside it too");
        assert_eq!(lane.slot_of(&last), Some(TOGETHER + 2));
        assert_eq!(
            lane.slot_of(&format!("default:{worker}:{}", TOGETHER + 3)),
            None,
            "there is no such slot"
        );
        assert_eq!(lane.slot_of(&format!("default:{worker}:03")), None, "no slot is named so");
        assert_eq!(lane.slot_of(&format!("other:{worker}:3")), None, "it is another queue's");
        assert_eq!(lane.ids(&[0, 3]), [format!("default:{worker}:0"), format!("default:{worker}:3")]);
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
        late.slot(0).covered.store(1, Ordering::Relaxed);
        assert!(late.has_lapsed(0, 1, lease), "nobody has covered it since");
    }
}
