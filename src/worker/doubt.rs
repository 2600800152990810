//! What if a request failed? What was not applied is made again; what may have been is asked after, never guessed at.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::broker::{BrokerError, BrokerErrorKind, Reconciled, Token};
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::request::{Request, RequestKind};
use crate::worker::stats::count;

/// How far a reconciliation jumps ahead of all requests that may still be on their way.
pub(super) const JUMP: u64 = 1 << 20;

impl ClaimLoop {
    /// A request failed: what was not applied is taken back, what is uncertain is put in doubt.
    pub(super) fn on_error(&mut self, request: Request, error: &BrokerError) {
        let index = request.lane;
        let lane = &mut self.lanes[index];
        lane.barred = match error.kind() {
            BrokerErrorKind::WrongType | BrokerErrorKind::Denied => true,
            BrokerErrorKind::Stale => lane.barred, // It stood behind one that was refused.
            _ => false,
        };
        match lane.backoff.fail_once() {
            Some(pause) => self.log_error(index, error, pause),
            None => {
                tracing::debug!(queue = %lane.lane.queue, %error, "Redis did not do this either; it is asked again")
            }
        }
        if let RequestKind::Reconcile { .. } = request.kind {
            return; // What it asked about is still in doubt.
        }
        if error.may_have_been_applied() || error.kind() == BrokerErrorKind::Stale {
            self.doubt(request);
        } else {
            self.lanes[index].refused = true;
            self.take_back(request);
        }
    }

    /// What a request did, or what has become of that, is to be asked after.
    pub(super) fn doubt(&mut self, request: Request) {
        let lane = &mut self.lanes[request.lane];
        request.slots().iter().for_each(|slot| lane.lane.may_own(*slot));
        lane.doubt.push(request);
    }

    /// A request was not applied: its slots are as they were before it.
    fn take_back(&mut self, request: Request) {
        let index = request.lane;
        let lane = &mut self.lanes[index];
        match request.kind {
            RequestKind::Claim { slots, released, forgive, in_hand, .. } => {
                for (place, slot) in slots.into_iter().enumerate() {
                    if place < released {
                        self.lanes[index].finished.push((slot, place < forgive));
                    } else {
                        self.free(index, slot);
                    }
                }
                let lane = &mut self.lanes[index];
                lane.token = lane.token.or(in_hand);
            }
            RequestKind::PickUp { slot, .. } => {
                lane.token = lane.token.or(Some(Token::Moved));
                self.free(index, slot);
            }
            RequestKind::Settle { slot, settlement } => lane.settle_later(slot, settlement),
            RequestKind::PutBack { slots, place } => {
                slots.into_iter().for_each(|slot| lane.put_back_later(slot, place))
            }
            RequestKind::Reconcile { .. } => {}
        }
    }

    /// Asks what became of the requests in doubt.
    pub(super) fn reconcile(&mut self, index: usize) -> Request {
        let lane = &mut self.lanes[index];
        let mut slots: Vec<usize> = lane.doubt.iter().flat_map(|request| request.slots()).copied().collect();
        slots.sort_unstable();
        slots.dedup();
        lane.seq += JUMP;
        Request { lane: index, seq: lane.seq, kind: RequestKind::Reconcile { slots }, made: Instant::now() }
    }

    /// Knows now which requests in doubt were applied: those up to the number that Redis had stored.
    pub(super) fn on_reconciled(&mut self, request: Request, reconciled: Reconciled) {
        let index = request.lane;
        let RequestKind::Reconcile { slots } = request.kind else { return };
        let alone: Vec<usize> =
            reconciled.alone.iter().filter_map(|place| slots.get(*place)).copied().collect();
        let owned = slots.into_iter().zip(reconciled.owned);
        let mut owned: HashMap<usize, Option<Bytes>> = owned.collect();
        let (mut found, mut lost) = (Vec::new(), 0);
        let doubt = std::mem::take(&mut self.lanes[index].doubt);
        tracing::info!(queue = %self.lanes[index].lane.queue, applied = ?reconciled.applied, requests = doubt.len(), "reconciled what was uncertain");
        for request in doubt {
            // When Redis does not know, it forgot the worker: then what a slot was to get is run, at worst once more, and
            // what it owns no more was given to others.
            let known = reconciled.applied.map(|applied| request.seq <= applied);
            let applied = known.unwrap_or(true);
            let is_surely_applied = known == Some(true);
            let lane = &mut self.lanes[index];
            match request.kind {
                RequestKind::Claim { slots, released, forgive, in_hand, .. } => {
                    lane.token = lane.token.or(in_hand.filter(|_| !applied));
                    for (place, slot) in slots.into_iter().enumerate() {
                        match owned.remove(&slot).flatten() {
                            // Not released yet, and known to be done.
                            Some(_) if !applied && place < released => {
                                self.lanes[index].finished.push((slot, place < forgive))
                            }
                            Some(message) => found.push((slot, message)),
                            None => {
                                lost += u64::from(place < released && !is_surely_applied);
                                self.free(index, slot);
                            }
                        }
                    }
                }
                RequestKind::PickUp { slot, .. } => {
                    lane.token = lane.token.or((!applied).then_some(Token::Moved));
                    match owned.remove(&slot).flatten() {
                        Some(message) => found.push((slot, message)),
                        None => self.free(index, slot),
                    }
                }
                RequestKind::Settle { slot, settlement } => match owned.remove(&slot).flatten() {
                    // What was settled would not be there.
                    Some(_) => lane.settle_later(slot, settlement),
                    None => {
                        lost += u64::from(!is_surely_applied);
                        self.orders.on_settled(slot, applied);
                        self.free(index, slot);
                    }
                },
                RequestKind::PutBack { slots, place } => {
                    for slot in slots {
                        if owned.remove(&slot).flatten().is_some() {
                            self.lanes[index].put_back_later(slot, place);
                            continue;
                        }
                        lost += u64::from(!is_surely_applied);
                        self.orders.on_settled(slot, false);
                        self.free(index, slot);
                    }
                }
                RequestKind::Reconcile { .. } => {}
            }
        }
        self.on_lost(index, lost);
        count(&self.counters.claimed, found.len() as u64);
        self.wake(index);
        // The answer that was lost would have said whether there are any; the next one does.
        self.lanes[index].suspects |= !found.is_empty();
        let (lonely, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(slot, _)| alone.contains(slot));
        for (slot, message) in lonely {
            self.dispatch(index, &[slot], vec![message], true);
        }
        let (slots, messages): (Vec<usize>, Vec<Bytes>) = others.into_iter().unzip();
        self.dispatch(index, &slots, messages, false);
    }

    pub(super) fn log_error(&self, index: usize, error: &BrokerError, pause: Duration) {
        let lane = &self.lanes[index];
        tracing::warn!(queue = %lane.lane.queue, %error, ?pause, "Redis did not do what the worker asked; it is asked again");
    }
}
