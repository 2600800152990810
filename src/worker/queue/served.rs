//! The state of a served queue that the event loop, the heartbeat and the sweep share: keys, wire ids, which slots need
//! their leases renewed, and whether the queue should be swept.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::broker::{ForeignLists, LeaseKeys};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::limit::LimitName;
use crate::protocol::names::{QueueName, WorkerId};
use crate::worker::queue::tally::QueueTally;

/// One queue of a worker, shared by the event loop and the heartbeat thread.
#[derive(Debug)]
pub(in crate::worker) struct ServedQueue {
    pub(in crate::worker) queue: QueueName,
    pub(in crate::worker) keys: QueueKeys,
    /// Key of the HASH that describes the worker in this queue.
    pub(in crate::worker) worker_key: String,
    /// Key of the HASH of kill requests for the runs of its slots.
    pub(in crate::worker) orders_key: String,
    pub(in crate::worker) worker: WorkerId,
    /// The limits of all of its calls.
    pub(in crate::worker) limits: Vec<LimitName>,
    began: Instant,
    /// The number of slots, including spares.
    pub(in crate::worker) slot_count: usize,
    /// The slots in groups of [`TOGETHER`]. A group is allocated when one of its slots is used; an idle worker never uses
    /// most of them.
    slots: Box<[OnceLock<Box<[ServedSlot]>>]>,
    /// One bit for each slot that owns a message, as far as is known.
    owned: Vec<AtomicU64>,
    /// How many of those slots are uncertain, because their claim was not answered.
    uncertain: AtomicUsize,
    /// One bit for each slot that owned a message since the last beat and will probably own another soon.
    recent: Vec<AtomicU64>,
    /// Whether the queue should be swept, because a sweep may find something.
    found: AtomicBool,
    /// Which of its lists begin with something other than a token, as of the last beat.
    foreign: Mutex<ForeignLists>,
    /// Whether it is paused, as far as the event loop knows.
    is_paused: AtomicBool,
    /// How its calls end.
    pub(in crate::worker) tally: QueueTally,
}

/// How many slots are allocated at once.
const TOGETHER: usize = 16;

/// The lease of one slot.
#[derive(Debug)]
struct ServedSlot {
    wire_id: String,
    /// When its live key last got a whole lease, in milliseconds since the queue `began`; 0 means never.
    covered: AtomicU64,
    /// On the same clock: when a lease was last given after the previous one had ended.
    lapsed: AtomicU64,
}

impl ServedQueue {
    pub(in crate::worker) fn new(queue: QueueName, worker: &WorkerId, slots: usize) -> Self {
        let words = || (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self {
            keys: QueueKeys::new(&queue),
            worker_key: keys::worker(&queue, worker),
            orders_key: keys::orders(&queue, worker),
            worker: worker.clone(),
            limits: Vec::new(),
            began: Instant::now(),
            slot_count: slots,
            slots: (0..slots.div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect(),
            owned: words(),
            uncertain: AtomicUsize::new(0),
            recent: words(),
            found: AtomicBool::new(true),
            foreign: Mutex::default(),
            is_paused: AtomicBool::new(false),
            tally: QueueTally::default(),
            queue,
        }
    }

    /// The same queue with limits of all of its calls.
    pub(in crate::worker) fn limited(self, limits: Vec<LimitName>) -> Self {
        Self { limits, ..self }
    }

    fn slot(&self, slot: usize) -> &ServedSlot {
        let first = slot - slot % TOGETHER;
        let made = self.slots[slot / TOGETHER].get_or_init(|| {
            let make = |slot| ServedSlot {
                wire_id: keys::wire_id(&self.queue, &self.worker, slot),
                covered: AtomicU64::new(0),
                lapsed: AtomicU64::new(0),
            };
            (first..self.slot_count.min(first + TOGETHER)).map(make).collect()
        });
        &made[slot - first]
    }

    /// The slot with this wire id.
    pub(in crate::worker) fn slot_of(&self, wire_id: &str) -> Option<usize> {
        let slot = wire_id.rsplit_once(':')?.1.parse().ok()?;
        (slot < self.slot_count && self.wire_id(slot) == wire_id).then_some(slot)
    }

    /// The wire id of a slot.
    pub(in crate::worker) fn wire_id(&self, slot: usize) -> &str {
        &self.slot(slot).wire_id
    }

    /// The wire ids of `slots`.
    pub(in crate::worker) fn ids(&self, slots: &[usize]) -> Vec<&str> {
        slots.iter().map(|slot| self.wire_id(*slot)).collect()
    }

    /// The wire ids of all slots that may ever have owned a message.
    pub(in crate::worker) fn used_ids(&self) -> Vec<&str> {
        let made = self.slots.iter().filter_map(OnceLock::get);
        made.flatten().map(|slot| slot.wire_id.as_str()).collect()
    }

    /// The keys of the lease of `worker`, which serves this queue.
    pub(in crate::worker) fn lease_keys<'a>(&'a self, worker: &'a str) -> LeaseKeys<'a> {
        LeaseKeys { queue: &self.keys, worker: &self.worker_key, orders: &self.orders_key, worker_id: worker }
    }

    /// Notes that a slot owns a message. Its live key is renewed from now on.
    pub(in crate::worker) fn own(&self, slot: usize) {
        let bit = 1 << (slot % 64);
        self.owned[slot / 64].fetch_or(bit, Ordering::Relaxed);
        self.recent[slot / 64].fetch_or(bit, Ordering::Relaxed);
    }

    /// Notes that a slot may own a message. Its live key is renewed until a reply says otherwise.
    pub(in crate::worker) fn may_own(&self, slot: usize) {
        self.owned[slot / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    /// Notes that a slot owns nothing.
    pub(in crate::worker) fn disown(&self, slot: usize) {
        self.owned[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Relaxed);
    }

    /// How many slots own a message, or may.
    pub(in crate::worker) fn owned(&self) -> usize {
        self.owned.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Notes that this many slots, counted as owners, may own nothing: their claim was sent, or its reply was lost.
    pub(in crate::worker) fn add_uncertain(&self, slots: usize) {
        self.uncertain.fetch_add(slots, Ordering::Relaxed);
    }

    /// Notes that this many slots are no longer uncertain.
    pub(in crate::worker) fn remove_uncertain(&self, slots: usize) {
        self.uncertain.fetch_sub(slots, Ordering::Relaxed);
    }

    /// How many slots certainly own a message.
    pub(in crate::worker) fn surely_owned(&self) -> usize {
        self.owned().saturating_sub(self.uncertain.load(Ordering::Relaxed))
    }

    /// The slots whose leases a beat renews: those that own a message, and those that did since the last beat.
    pub(in crate::worker) fn to_cover(&self) -> Vec<usize> {
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

    /// Notes that a sweep of the queue may find something. This is also the initial state.
    pub(in crate::worker) fn note_found(&self) {
        self.found.store(true, Ordering::Release);
    }

    /// Whether that was noted since the last call.
    pub(in crate::worker) fn take_found(&self) -> bool {
        self.found.swap(false, Ordering::Acquire)
    }

    /// Notes which of its lists begin with something other than a token. Returns the previous value.
    pub(in crate::worker) fn note_foreign(&self, foreign: ForeignLists) -> ForeignLists {
        let mut noted = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *noted, foreign)
    }

    /// Which of its lists begin with something other than a token.
    pub(in crate::worker) fn foreign(&self) -> ForeignLists {
        *self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the queue is paused.
    pub(in crate::worker) fn note_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Whether the queue is paused, as far as is known.
    pub(in crate::worker) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Milliseconds on this queue's clock; never 0.
    pub(in crate::worker) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Notes that the live keys of `slots` were given a whole lease by a request sent at `now`.
    pub(in crate::worker) fn cover(&self, slots: &[usize], now: u64, lease: Duration) {
        for slot in slots {
            let slot = self.slot(*slot);
            let before = slot.covered.swap(now, Ordering::Relaxed);
            if is_over(before, now, lease) {
                slot.lapsed.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Whether the lease of a slot has ended since `since`, so that others may have the message that it owned then.
    pub(in crate::worker) fn has_lapsed(&self, slot: usize, since: u64, lease: Duration) -> bool {
        let slot = self.slot(slot);
        // In this order, because a beat in between has updated `lapsed`.
        is_over(slot.covered.load(Ordering::Relaxed), self.now(), lease)
            || slot.lapsed.load(Ordering::Relaxed) > since
    }

    /// Whether one of `slots` needs a new lease before it owns a message, because less than half of its lease is left.
    pub(in crate::worker) fn needs_cover(&self, slots: &[usize], now: u64, lease: Duration) -> bool {
        let half = u64::try_from(lease.as_millis() / 2).unwrap_or(u64::MAX);
        slots.iter().any(|slot| {
            let covered = self.slot(*slot).covered.load(Ordering::Relaxed);
            covered == 0 || now.saturating_sub(covered) > half
        })
    }
}

/// Whether a lease given at that time has ended.
fn is_over(given: u64, now: u64, lease: Duration) -> bool {
    given != 0 && u128::from(now.saturating_sub(given)) > lease.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_covers_what_is_owned_and_what_was_a_moment_ago() {
        let queue = ServedQueue::new(QueueName::default(), &WorkerId::random(), 130);
        queue.own(0);
        queue.own(63);
        queue.own(129);
        queue.disown(63);
        assert_eq!(queue.to_cover(), [0, 63, 129]);
        assert_eq!(queue.to_cover(), [0, 129]);
    }

    #[test]
    fn wire_ids_are_made_when_their_slots_are_used() {
        let worker = WorkerId::random();
        let queue = ServedQueue::new(QueueName::default(), &worker, TOGETHER + 3);
        assert!(queue.used_ids().is_empty());
        let last = format!("default:{worker}:{}", TOGETHER + 2);
        assert_eq!(queue.wire_id(TOGETHER + 2), last);
        assert_eq!(queue.used_ids().len(), 3, "expected those that are beside it too");
        assert_eq!(queue.slot_of(&last), Some(TOGETHER + 2));
        assert_eq!(
            queue.slot_of(&format!("default:{worker}:{}", TOGETHER + 3)),
            None,
            "there is no such slot"
        );
        assert_eq!(queue.slot_of(&format!("default:{worker}:03")), None, "no slot is named so");
        assert_eq!(queue.slot_of(&format!("other:{worker}:3")), None, "it is another queue's");
        assert_eq!(queue.ids(&[0, 3]), [format!("default:{worker}:0"), format!("default:{worker}:3")]);
    }

    #[test]
    fn a_slot_needs_cover_until_it_has_half_a_lease() {
        let queue = ServedQueue::new(QueueName::default(), &WorkerId::random(), 2);
        let lease = Duration::from_secs(6);
        assert!(queue.needs_cover(&[0], 1, lease));
        queue.cover(&[0], 1, lease);
        assert!(!queue.needs_cover(&[0], 3001, lease));
        assert!(queue.needs_cover(&[0], 3002, lease));
        assert!(queue.needs_cover(&[0, 1], 2, lease));
    }

    #[test]
    fn a_slot_that_is_covered_too_late_has_lapsed() {
        let queue = ServedQueue::new(QueueName::default(), &WorkerId::random(), 2);
        let lease = Duration::from_secs(6);
        queue.cover(&[0, 1], 1, lease);
        queue.cover(&[0], 6001, lease);
        assert!(!queue.has_lapsed(0, 0, lease), "it was in time");
        queue.cover(&[1], 6002, lease);
        assert!(queue.has_lapsed(1, 6001, lease) && !queue.has_lapsed(1, 6002, lease));
        let late =
            ServedQueue { began: Instant::now().checked_sub(Duration::from_secs(7)).unwrap(), ..queue };
        late.slot(0).covered.store(1, Ordering::Relaxed);
        assert!(late.has_lapsed(0, 1, lease), "nobody has covered it since");
    }
}
