//! One queue as the event loop sees it: its requests, its pending settlements, and its known contents.

mod claim;
mod reconcile;

use std::sync::Arc;
use std::time::Instant;

use crate::broker::{BrokerError, Place, Token};
use crate::worker::queue::claim_size::Situation;
use crate::worker::queue::cooldown::Cooldown;
use crate::worker::queue::pause::Pause;
use crate::worker::queue::pending::Pending;
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::served::ServedQueue;
use crate::worker::queue::set_aside::{BREAKS, SetAside};
use crate::worker::queue::slots::SlotPool;
use crate::worker::queue::supply::Supply;
use crate::worker::queue::to_settle::ToSettle;
use crate::worker::queue::{Demand, Lost};
use crate::worker::settlement::Settlement;

pub(super) use self::reconcile::Resolved;

/// One queue of the worker.
#[derive(Debug)]
pub(super) struct QueueClient {
    index: usize,
    served: Arc<ServedQueue>,
    pending: Pending,
    to_settle: ToSettle,
    supply: Supply,
    aside: SetAside,
    /// Whether an operator has paused it.
    pause: Pause,
    /// The pause after a failed request.
    errors: Cooldown,
    /// The pause after a call was put back because it got no process or lost it.
    losses: Cooldown,
    /// By slot: the number of the claim that last filled it; 0 if unknown.
    claimed_by: Vec<u64>,
}

impl QueueClient {
    pub(super) fn new(index: usize, served: Arc<ServedQueue>, weight: u32) -> Self {
        Self {
            index,
            pending: Pending::default(),
            to_settle: ToSettle::default(),
            supply: Supply::new(weight),
            aside: SetAside::default(),
            pause: Pause::default(),
            errors: Cooldown::default(),
            losses: Cooldown::default(),
            claimed_by: vec![0; served.slot_count],
            served,
        }
    }

    pub(super) fn served(&self) -> &Arc<ServedQueue> {
        &self.served
    }

    pub(super) fn supply(&self) -> &Supply {
        &self.supply
    }

    pub(super) fn supply_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }

    pub(super) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(super) fn pending_mut(&mut self) -> &mut Pending {
        &mut self.pending
    }

    pub(super) fn aside_mut(&mut self) -> &mut SetAside {
        &mut self.aside
    }

    pub(super) fn pause(&self) -> &Pause {
        &self.pause
    }

    pub(super) fn pause_mut(&mut self) -> &mut Pause {
        &mut self.pause
    }

    pub(super) fn errors_mut(&mut self) -> &mut Cooldown {
        &mut self.errors
    }

    pub(super) fn losses_mut(&mut self) -> &mut Cooldown {
        &mut self.losses
    }

    /// The number of the claim that last filled a slot; 0 if unknown.
    pub(super) fn claimed_by(&self, slot: usize) -> u64 {
        self.claimed_by[slot]
    }

    /// How many slots are to be released.
    pub(super) fn finished(&self) -> usize {
        self.to_settle.finished()
    }

    /// Whether an ordinary request may be made now.
    pub(super) fn is_open(&self) -> bool {
        self.pending.is_open() && self.errors.until().is_none()
    }

    /// Whether claims are paused although Redis would return messages.
    pub(super) fn rests(&self) -> bool {
        self.pause.is_paused() || self.supply.rests_until().is_some() || self.losses.until().is_some()
    }

    /// Whether requests are paused, by the worker itself or because Redis refused one.
    pub(super) fn pauses_now(&self) -> bool {
        self.errors.until().is_some() || self.rests()
    }

    /// Whether less preferred queues come first: this one has nothing, pauses, or its last request failed, as they do while
    /// its node of a Cluster is away.
    pub(super) fn gives_way(&self) -> bool {
        self.supply.is_dry() || self.pauses_now() || self.is_failing()
    }

    /// Whether its last request failed.
    pub(super) fn is_failing(&self) -> bool {
        self.errors.is_failing()
    }

    /// The slots whose messages cannot be settled while requests fail.
    pub(super) fn stuck(&self) -> impl Iterator<Item = usize> + '_ {
        self.pending.slots_in_doubt().chain(self.to_settle.slots())
    }

    /// When requests may be made again after an error.
    pub(super) fn errors_until(&self) -> Option<Instant> {
        self.errors.until()
    }

    /// When its pauses end.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Instant> {
        let others =
            [self.errors.until(), self.losses.until(), self.supply.rests_until(), self.aside.until()];
        others.into_iter().flatten()
    }

    /// Ends the pauses that are over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.errors.expire(now);
        self.losses.expire(now);
        self.supply.expire(now);
        self.aside.expire(now);
    }

    /// Whether nothing is left to run or to bury. Messages in a paused queue are not for this worker.
    pub(super) fn has_nothing(&self) -> bool {
        let is_left_alone = self.pause.is_paused() && !self.supply.has_token();
        self.aside.burials() == 0 && (is_left_alone || self.supply.has_nothing())
    }

    /// Whether nothing is in flight, and nothing is left to send except what Redis would refuse again.
    pub(super) fn is_quiet(&self) -> bool {
        let is_settled = !self.pending.has_doubt() && self.to_settle.is_empty();
        self.pending.is_idle() && (self.pending.is_blocked() || is_settled)
    }

    /// Whether some owned message is still to be settled, as far as that is possible.
    pub(super) fn has_work(&self) -> bool {
        !self.to_settle.is_empty() || self.pending.has_work()
    }

    /// The inputs for the size of a claim.
    pub(super) fn situation(&self, demand: &Demand<'_>, slots: &SlotPool) -> Situation {
        let size = self.supply.size();
        Situation {
            limit: demand.limiter.limit(size),
            concurrency: demand.concurrency,
            size,
            has_weight: self.supply.has_weight(),
            has_suspects: self.supply.has_suspects(),
            by_one: self.aside.is_searching(),
            finished: self.to_settle.finished(),
            taken: slots.taken(),
            free: slots.free(),
            waiting: self.supply.waiting(),
            claims: self.pending.claims(),
        }
    }

    /// Settles the message of a slot with one of the next requests.
    pub(super) fn settle(&mut self, slot: usize, settlement: Settlement) {
        self.to_settle.push(slot, settlement);
    }

    /// Whether burials failed recently, so that further ones are kept until one succeeds.
    pub(super) fn burials_fail(&self) -> bool {
        self.aside.is_failing()
    }

    /// Keeps a burial in its slot.
    pub(super) fn keep_burial(&mut self, slot: usize, burial: Settlement, slots: &mut SlotPool) {
        self.aside.keep(slot, burial);
        slots.set_aside(slot);
    }

    /// Puts the messages of all kept slots back to the tail, so that they do not block others. Returns how many.
    pub(super) fn give_up_kept(&mut self) -> usize {
        let kept = self.aside.give_up();
        kept.iter().for_each(|slot| self.to_settle.put_back(*slot, Place::Tail));
        kept.len()
    }

    /// The next request other than a claim: requests in doubt come first, then settlements, then a failed burial.
    pub(super) fn next_settlement(&mut self) -> Option<Request> {
        self.pending.resume();
        if self.errors.until().is_none()
            && let Some(slots) = self.pending.to_reconcile()
        {
            let unread = self.pending.broken_reconciles() >= BREAKS;
            return Some(self.pending.number_beyond(self.index, RequestKind::Reconcile { slots, unread }));
        }
        if !self.is_open() {
            return None;
        }
        let kind = match self.to_settle.next() {
            Some(kind) => kind,
            None => {
                let (slot, settlement) = self.aside.next_burial()?;
                RequestKind::Settle { slot, settlement }
            }
        };
        Some(self.number(kind))
    }

    /// A request with the next number.
    pub(super) fn number(&mut self, kind: RequestKind) -> Request {
        self.pending.number(self.index, kind)
    }

    /// Marks a slot as owning nothing and free for claims.
    pub(super) fn free(&mut self, slot: usize, slots: &mut SlotPool) {
        self.served.disown(slot);
        self.aside.forget(slot);
        slots.give(slot);
    }

    /// Puts a request in doubt: Redis is asked whether it was applied.
    pub(super) fn doubt(&mut self, request: Request) {
        request.slots().iter().for_each(|slot| self.served.may_own(*slot));
        self.served.add_uncertain(request.claimed());
        self.pending.doubt(request);
    }

    /// Handles a failed request: undoes one that was not applied, and puts one that may have been applied in doubt. Returns
    /// whether the failure begins a pause.
    pub(super) fn on_error(&mut self, request: Request, error: &BrokerError, slots: &mut SlotPool) -> bool {
        self.pending.failed(error);
        let begins_pause = self.errors.fail_once().is_some();
        if let RequestKind::Reconcile { .. } = request.kind {
            // The requests that it asked about are still in doubt.
            if error.may_have_been_applied() {
                self.pending.reconcile_broke();
            }
        } else if error.may_have_been_applied() || error.kind() == crate::broker::BrokerErrorKind::Stale {
            self.doubt(request);
        } else {
            self.pending.refuse();
            self.take_back(request, slots);
        }
        begins_pause
    }

    /// Undoes a request that was not applied: its slots are as they were before it.
    fn take_back(&mut self, request: Request, pool: &mut SlotPool) {
        match request.kind {
            RequestKind::Claim { slots, released, cleared, in_hand, .. } => {
                for (place, slot) in slots.into_iter().enumerate() {
                    if place < released {
                        self.to_settle.push(slot, Settlement::Release { clears_suspect: place < cleared });
                    } else {
                        self.free(slot, pool);
                    }
                }
                self.supply.keep_token(in_hand);
            }
            RequestKind::PickUp { slot, .. } => {
                self.supply.keep_token(Some(Token::Moved));
                self.free(slot, pool);
            }
            RequestKind::Settle { slot, settlement } => self.to_settle.push(slot, settlement),
            RequestKind::Finish { slots, ends } => {
                slots.into_iter().zip(ends).for_each(|(slot, end)| self.to_settle.push(slot, end));
            }
            RequestKind::PutBack { slots, place } => {
                slots.into_iter().for_each(|slot| self.to_settle.put_back(slot, place))
            }
            RequestKind::Park { slots, limit } => {
                let park = || Settlement::Park { limit: limit.clone() };
                slots.into_iter().for_each(|slot| self.to_settle.push(slot, park()));
            }
            RequestKind::Defer { slots, waits } => {
                for (slot, (id, wait)) in slots.into_iter().zip(waits) {
                    self.to_settle.push(slot, Settlement::Defer { id, wait });
                }
            }
            // This request is made again.
            RequestKind::Begin { .. } | RequestKind::Reconcile { .. } => {}
        }
    }

    /// Logs how many messages were taken away before they were settled.
    pub(super) fn log_lost(&self, lost: Lost) {
        if lost.0 > 0 {
            tracing::warn!(queue = %self.served.queue, lost = lost.0, hint = "the lease had ended, so they run again elsewhere", "messages were requeued before they were settled");
        }
    }
}
