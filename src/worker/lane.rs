//! What does a worker share of one of its queues? Its keys and wire ids, and which of its slots must stay alive.

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
    /// Whether the queue is to be swept, since something may be found.
    found: AtomicBool,
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
            found: AtomicBool::new(true),
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

    /// Notes that a sweep of the queue may find something. At first it may.
    pub(super) fn find(&self) {
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
}
