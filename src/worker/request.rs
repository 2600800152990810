//! What may a worker ask of a queue, and what came of it?

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{
    Broker, BrokerError, Buried, BuryRequest, ClaimRequest, Claimed, DeadLimits, PickUpRequest, Place,
    ReconcileRequest, Reconciled, Token, Waiter,
};
use crate::worker::lane::Lane;
use crate::worker::slots::Settlement;

/// One call of a script, numbered.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) lane: usize,
    pub(super) seq: u64,
    pub(super) kind: RequestKind,
    /// When it was made, shortly before it is sent.
    pub(super) made: Instant,
}

#[derive(Debug)]
pub(super) enum RequestKind {
    /// Releases the first `released` of `slots` and claims for all but the first `kept` of them.
    Claim { slots: Vec<usize>, released: usize, kept: usize, forgive: usize, in_hand: Option<Token> },
    /// Claims one message at the most, when the wait of `waiter` has ended.
    PickUp { slot: usize, waiter: Waiter },
    /// Carries out what was decided about one slot.
    Settle { slot: usize, settlement: Settlement },
    /// Puts messages back into their queue: to the head last claim first.
    PutBack { slots: Vec<usize>, place: Place },
    /// Asks what became of other requests.
    Reconcile { slots: Vec<usize> },
}

/// What a request ended with.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) request: Request,
    pub(super) result: Result<Effect, BrokerError>,
}

/// What Redis did about a request.
#[derive(Debug)]
pub(super) enum Effect {
    Claimed(Claimed),
    /// Whether the slot still owned its message.
    Settled(bool),
    /// How many of the slots still owned their messages.
    PutBack(u64),
    /// The dead letters cannot be written: the slot still owns its message.
    Unburied,
    Reconciled(Reconciled),
}

/// What every request needs.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) broker: Broker,
    pub(super) lease: Duration,
    pub(super) dead: DeadLimits,
    /// `host/pid/worker id`, for dead letters.
    pub(super) place: Arc<str>,
}

impl Request {
    /// The slots that this request is about.
    pub(super) fn slots(&self) -> &[usize] {
        match &self.kind {
            RequestKind::Claim { slots, .. }
            | RequestKind::PutBack { slots, .. }
            | RequestKind::Reconcile { slots } => slots,
            RequestKind::PickUp { slot, .. } | RequestKind::Settle { slot, .. } => std::slice::from_ref(slot),
        }
    }

    /// Whether this may bring messages.
    pub(super) fn is_claim(&self) -> bool {
        matches!(self.kind, RequestKind::Claim { .. }) || self.is_pick_up()
    }

    /// Whether this is run only when a wait has ended.
    pub(super) fn is_pick_up(&self) -> bool {
        matches!(self.kind, RequestKind::PickUp { .. })
    }
}

impl Sender {
    /// Sends a request and waits for its reply. Dropping the future leaves open whether it was applied.
    pub(super) async fn send(self, lane: Arc<Lane>, request: Request) -> Reply {
        let result = self.call(&lane, &request).await;
        Reply { request, result }
    }

    async fn call(&self, lane: &Lane, request: &Request) -> Result<Effect, BrokerError> {
        let (keys, worker_key, seq) = (&lane.keys, lane.worker_key.as_str(), request.seq);
        match &request.kind {
            RequestKind::Claim { slots, released, kept, forgive, in_hand } => {
                let now = lane.now();
                let free = &slots[*kept..];
                let renew = !free.is_empty() && lane.needs_cover(free, now, self.lease);
                let ask = ClaimRequest {
                    worker_key,
                    seq,
                    lease: self.lease,
                    in_hand: *in_hand,
                    renew,
                    forgive: *forgive,
                    released: *released,
                    kept: *kept,
                    wire_ids: &lane.ids(slots),
                };
                let claimed = self.broker.claim(keys, &ask).await?;
                if renew {
                    lane.cover(&free[..claimed.messages.len()], now, self.lease);
                }
                Ok(Effect::Claimed(claimed))
            }
            RequestKind::PickUp { slot, waiter } => {
                let now = lane.now();
                let wire_id = lane.wire_id(*slot);
                let ask = PickUpRequest { worker_key, seq, lease: self.lease, wire_id };
                let claimed = waiter.pick_up(keys, &ask).await?;
                if !claimed.messages.is_empty() {
                    lane.cover(std::slice::from_ref(slot), now, self.lease);
                }
                Ok(Effect::Claimed(claimed))
            }
            RequestKind::Settle { slot, settlement } => {
                let wire_id = lane.wire_id(*slot);
                match settlement {
                    Settlement::Retry(message) => {
                        self.broker.retry(keys, worker_key, seq, wire_id, message).await.map(Effect::Settled)
                    }
                    Settlement::Bury { reason, detail, attempt, output } => {
                        let ask = BuryRequest {
                            worker_key,
                            seq,
                            wire_id,
                            limits: self.dead,
                            reason,
                            detail,
                            attempt: *attempt,
                            place: &self.place,
                            output,
                        };
                        Ok(match self.broker.bury(keys, &ask).await? {
                            Buried::Done { trimmed } => {
                                if trimmed > 0 {
                                    tracing::warn!(queue = %lane.queue, trimmed, "the oldest dead letters had to go: look at them with `dead list`, or raise dead.max_count");
                                }
                                Effect::Settled(true)
                            }
                            Buried::Lost => Effect::Settled(false),
                            Buried::WrongType => Effect::Unburied,
                        })
                    }
                }
            }
            RequestKind::PutBack { slots, place } => {
                let mut ids = lane.ids(slots);
                if *place == Place::Head {
                    ids.reverse();
                }
                let count = self.broker.put_back(keys, worker_key, seq, *place, &ids).await?;
                Ok(Effect::PutBack(count))
            }
            RequestKind::Reconcile { slots } => {
                let ask = ReconcileRequest { worker_key, seq, lease: self.lease, wire_ids: &lane.ids(slots) };
                self.broker.reconcile(keys, &ask).await.map(Effect::Reconciled)
            }
        }
    }
}
