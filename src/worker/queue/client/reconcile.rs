//! Resolves requests in doubt: those up to the number that Redis had stored were applied.

use std::collections::HashMap;

use bytes::Bytes;

use crate::broker::{Owned, Reconciled, Token};
use crate::worker::queue::Lost;
use crate::worker::queue::client::QueueClient;
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::slots::SlotPool;
use crate::worker::settlement::Settlement;

/// The result of a reconciliation.
#[derive(Debug, Default)]
pub(in crate::worker::queue) struct Resolved {
    /// Messages to run now. A message that must run alone comes first, on its own.
    pub(in crate::worker::queue) alone: Vec<(usize, Bytes)>,
    pub(in crate::worker::queue) others: Vec<(usize, Bytes)>,
    /// Messages whose calls were cancelled.
    pub(in crate::worker::queue) cancelled: Vec<(usize, Bytes)>,
    /// Slots whose messages were not read, and the sizes of these in bytes.
    pub(in crate::worker::queue) unread: Vec<(usize, u64)>,
    /// Settlements that were not applied because the connection broke.
    pub(in crate::worker::queue) unsettled: Vec<(usize, Settlement)>,
    /// Settled slots, and whether the sent settlement was the one applied.
    pub(in crate::worker::queue) settled: Vec<(usize, bool)>,
    /// Burials that were applied; the ids of their dead letters are unknown.
    pub(in crate::worker::queue) buried: Vec<Settlement>,
    /// Slots of suspects that were to begin, and that no longer own them.
    pub(in crate::worker::queue) not_owned: Vec<usize>,
    pub(in crate::worker::queue) lost: Lost,
}

impl QueueClient {
    /// Handles the reply to a reconciliation.
    pub(in crate::worker::queue) fn on_reconciled(
        &mut self,
        request: Request,
        reconciled: Reconciled,
        pool: &mut SlotPool,
    ) -> Resolved {
        let mut resolved = Resolved::default();
        let RequestKind::Reconcile { slots, .. } = request.kind else { return resolved };
        let alone: Vec<usize> =
            reconciled.alone.iter().filter_map(|place| slots.get(*place)).copied().collect();
        let cancelled: Vec<usize> =
            reconciled.cancelled.iter().filter_map(|place| slots.get(*place)).copied().collect();
        let mut owned: HashMap<usize, Option<Owned>> = slots.into_iter().zip(reconciled.owned).collect();
        let in_doubt = self.pending.take_in_doubt();
        tracing::info!(queue = %self.served.queue, applied = ?reconciled.applied, requests = in_doubt.len(), "requests reconciled");
        let (mut found, mut lost) = (Vec::new(), 0);
        for request in in_doubt {
            self.served.remove_uncertain(request.claimed());
            // If Redis does not know, it forgot the worker. Then a message that a slot still owns is run, at worst a second
            // time, and a message that a slot no longer owns was given to others.
            let known = reconciled.applied.map(|applied| request.seq <= applied);
            let applied = known.unwrap_or(true);
            let is_surely_applied = known == Some(true);
            match request.kind {
                RequestKind::Claim { slots, released, cleared, in_hand, .. } => {
                    self.supply.keep_token(in_hand.filter(|_| !applied));
                    for (place, slot) in slots.into_iter().enumerate() {
                        match owned.remove(&slot).flatten() {
                            // Its run had ended, and it is not released yet.
                            Some(_) if !applied && place < released => self
                                .to_settle
                                .push(slot, Settlement::Release { clears_suspect: place < cleared }),
                            Some(message) => found.push((slot, message)),
                            None => {
                                lost += u64::from(place < released && !is_surely_applied);
                                self.free(slot, pool);
                            }
                        }
                    }
                }
                RequestKind::PickUp { slot, .. } => {
                    self.supply.keep_token((!applied).then_some(Token::Moved));
                    match owned.remove(&slot).flatten() {
                        Some(message) => found.push((slot, message)),
                        None => self.free(slot, pool),
                    }
                }
                // If the slot still owns its message, the request is made again.
                RequestKind::Begin { slot } => {
                    if owned.remove(&slot).flatten().is_none() {
                        resolved.not_owned.push(slot);
                    }
                }
                RequestKind::Settle { slot, settlement } => match owned.remove(&slot).flatten() {
                    // A settled message would no longer be there.
                    Some(_) => resolved.unsettled.push((slot, settlement)),
                    None => {
                        if is_surely_applied && matches!(settlement, Settlement::Bury { .. }) {
                            // The id of the dead letter was in the lost reply.
                            resolved.buried.push(settlement);
                        } else if is_surely_applied {
                            resolved.buried.extend(settlement.burials_of_items());
                        }
                        lost += u64::from(!is_surely_applied);
                        resolved.settled.push((slot, applied));
                        self.free(slot, pool);
                    }
                },
                RequestKind::Finish { slots, ends } => {
                    for (slot, end) in slots.into_iter().zip(ends) {
                        if owned.remove(&slot).flatten().is_some() {
                            resolved.unsettled.push((slot, end));
                            continue;
                        }
                        lost += u64::from(!is_surely_applied);
                        resolved.settled.push((slot, applied));
                        self.free(slot, pool);
                    }
                }
                RequestKind::PutBack { slots, place } => {
                    for slot in slots {
                        if owned.remove(&slot).flatten().is_some() {
                            self.to_settle.put_back(slot, place);
                            continue;
                        }
                        lost += u64::from(!is_surely_applied);
                        resolved.settled.push((slot, false));
                        self.free(slot, pool);
                    }
                }
                RequestKind::Park { slots, limit } => {
                    for slot in slots {
                        if owned.remove(&slot).flatten().is_some() {
                            self.to_settle.push(slot, Settlement::Park { limit: limit.clone() });
                            continue;
                        }
                        lost += u64::from(!is_surely_applied);
                        resolved.settled.push((slot, false));
                        self.free(slot, pool);
                    }
                }
                RequestKind::Defer { slots, waits } => {
                    for (slot, (id, wait)) in slots.into_iter().zip(waits) {
                        if owned.remove(&slot).flatten().is_some() {
                            resolved.unsettled.push((slot, Settlement::Defer { id, wait }));
                            continue;
                        }
                        lost += u64::from(!is_surely_applied);
                        resolved.settled.push((slot, false));
                        self.free(slot, pool);
                    }
                }
                RequestKind::Reconcile { .. } => {}
            }
        }
        resolved.lost = Lost(lost);
        if !found.is_empty() {
            // The lost reply would have said whether suspects exist; the next one does.
            self.supply.expect_suspects();
        }
        for (slot, owned) in found {
            match owned {
                Owned::Unread(bytes) => resolved.unread.push((slot, bytes)),
                Owned::Message(message) if cancelled.contains(&slot) => {
                    resolved.cancelled.push((slot, message));
                }
                Owned::Message(message) if alone.contains(&slot) => resolved.alone.push((slot, message)),
                Owned::Message(message) => resolved.others.push((slot, message)),
            }
        }
        resolved
    }
}
