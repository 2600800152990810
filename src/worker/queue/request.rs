//! Requests of a worker to one queue, and their replies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{
    Broker, BrokerError, Buried, BuryRequest, ClaimRequest, Claimed, DeadLimits, FinishedCall, PickUpRequest,
    Place, ReconcileRequest, Reconciled, RetryLaterRequest, Scheduled, SplitItem, SplitRequest, Token,
    Waiter,
};
use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::worker::queue::served::ServedQueue;
use crate::worker::settlement::{Part, Settlement};

/// One numbered script call.
#[derive(Debug)]
pub(super) struct Request {
    /// The index of the queue.
    pub(super) queue: usize,
    pub(super) seq: u64,
    pub(super) kind: RequestKind,
    /// When it was created, shortly before it is sent.
    pub(super) made: Instant,
}

#[derive(Debug)]
pub(super) enum RequestKind {
    /// Releases the first `released` of `slots` and claims for all but the first `kept` of them.
    Claim { slots: Vec<usize>, released: usize, kept: usize, cleared: usize, in_hand: Option<Token> },
    /// Claims at most one message, when the wait of `waiter` has ended.
    PickUp { slot: usize, waiter: Waiter },
    /// Records that the suspect in one slot begins to run, alone.
    Begin { slot: usize },
    /// Finishes the calls of slots, each with its [`Settlement::Finish`].
    Finish { slots: Vec<usize>, ends: Vec<Settlement> },
    /// Retries, reschedules or buries the message of one slot.
    Settle { slot: usize, settlement: Settlement },
    /// Puts messages back into their queue. Those that go to the head are listed last claim first.
    PutBack { slots: Vec<usize>, place: Place },
    /// Parks the messages of slots until a limit lets them run.
    Park { slots: Vec<usize>, limit: LimitName },
    /// Moves the messages of slots to the timetable, each under an id and with a delay.
    Defer { slots: Vec<usize>, waits: Vec<(CallId, Duration)> },
    /// Asks which of the requests in doubt were applied; with `unread`, without returning the messages.
    Reconcile { slots: Vec<usize>, unread: bool },
}

/// How a request ended.
#[derive(Debug)]
pub(in crate::worker) struct Reply {
    pub(super) request: Request,
    pub(super) result: Result<Effect, BrokerError>,
}

/// The effect of a request in Redis.
#[derive(Debug)]
pub(super) enum Effect {
    Claimed(Claimed),
    /// Whether the slot still owned the message that is to begin.
    Begun(bool),
    /// Whether each of the slots still owned its message.
    Finished(Vec<bool>),
    /// Whether the slot still owned its message.
    Settled(bool),
    /// How many of the slots still owned their messages.
    PutBack(u64),
    Parked(u64),
    /// The result for the message of each slot.
    Deferred(Vec<Scheduled>),
    /// The message is a dead letter with this id; `trimmed` older ones were dropped.
    Buried {
        letter: String,
        trimmed: u64,
    },
    /// The items of the batch that failed are messages of their own. For each one to bury, the id of its dead letter; empty
    /// if it could not be written, and the item is in the queue.
    Split {
        letters: Vec<String>,
        trimmed: u64,
    },
    /// Dead letters cannot be written. The slot still owns its message.
    Unburied,
    /// The timetable cannot take the message. The slot still owns it.
    NotScheduled,
    Reconciled(Reconciled),
}

/// Sends requests.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Sender {
    pub(in crate::worker) broker: Broker,
    pub(in crate::worker) lease: Duration,
    pub(in crate::worker) dead: DeadLimits,
    /// `host/pid/worker id`, for dead letters.
    pub(in crate::worker) place: Arc<str>,
}

impl Request {
    /// The slots of this request.
    pub(super) fn slots(&self) -> &[usize] {
        match &self.kind {
            RequestKind::Claim { slots, .. }
            | RequestKind::Finish { slots, .. }
            | RequestKind::PutBack { slots, .. }
            | RequestKind::Park { slots, .. }
            | RequestKind::Defer { slots, .. }
            | RequestKind::Reconcile { slots, .. } => slots,
            RequestKind::PickUp { slot, .. }
            | RequestKind::Begin { slot }
            | RequestKind::Settle { slot, .. } => std::slice::from_ref(slot),
        }
    }

    /// How many slots it may fill.
    pub(super) fn claimed(&self) -> usize {
        match &self.kind {
            RequestKind::Claim { slots, kept, .. } => slots.len() - kept,
            RequestKind::PickUp { .. } => 1,
            _ => 0,
        }
    }

    /// The script that it runs.
    pub(super) fn script(&self) -> &'static str {
        match &self.kind {
            RequestKind::Claim { .. } => "claim",
            RequestKind::PickUp { .. } => "pick_up",
            RequestKind::Begin { .. } => "begin",
            RequestKind::Finish { .. } => "finish",
            RequestKind::Settle { settlement: Settlement::Retry { .. }, .. } => "retry",
            RequestKind::Settle { settlement: Settlement::RetryLater { .. }, .. } => "retry_later",
            RequestKind::Settle { settlement: Settlement::Split { .. }, .. } => "split",
            RequestKind::Settle { .. } => "bury",
            RequestKind::PutBack { .. } => "put_back",
            RequestKind::Park { .. } => "park",
            RequestKind::Defer { .. } => "defer",
            RequestKind::Reconcile { .. } => "reconcile",
        }
    }

    /// Whether it may return messages.
    pub(super) fn is_claim(&self) -> bool {
        matches!(self.kind, RequestKind::Claim { .. }) || self.is_pick_up()
    }

    /// Whether it runs only after a wait has ended.
    pub(super) fn is_pick_up(&self) -> bool {
        matches!(self.kind, RequestKind::PickUp { .. })
    }
}

impl Sender {
    /// Sends a request and waits for its reply. If the future is dropped, it is unknown whether the request was applied.
    pub(super) async fn send(self, queue: Arc<ServedQueue>, request: Request) -> Reply {
        let result = self.call(&queue, &request).await;
        Reply { request, result }
    }

    async fn call(&self, queue: &ServedQueue, request: &Request) -> Result<Effect, BrokerError> {
        let (keys, worker_key, seq) = (&queue.keys, queue.worker_key.as_str(), request.seq);
        match &request.kind {
            RequestKind::Claim { slots, released, kept, cleared, in_hand } => {
                let now = queue.now();
                let free = &slots[*kept..];
                let renew = !free.is_empty() && queue.needs_cover(free, now, self.lease);
                let ask = ClaimRequest {
                    worker_key,
                    seq,
                    lease: self.lease,
                    in_hand: *in_hand,
                    renew,
                    forgive: *cleared,
                    released: *released,
                    kept: *kept,
                    wire_ids: &queue.ids(slots),
                };
                let claimed = self.broker.claim(keys, &ask).await?;
                if renew {
                    queue.cover(&free[..claimed.messages.len()], now, self.lease);
                }
                Ok(Effect::Claimed(claimed))
            }
            RequestKind::PickUp { slot, waiter } => {
                let now = queue.now();
                let wire_id = queue.wire_id(*slot);
                let ask = PickUpRequest { worker_key, seq, lease: self.lease, wire_id };
                let claimed = waiter.pick_up(keys, &ask).await?;
                if !claimed.messages.is_empty() {
                    queue.cover(std::slice::from_ref(slot), now, self.lease);
                }
                Ok(Effect::Claimed(claimed))
            }
            RequestKind::Begin { slot } => {
                let wire_id = queue.wire_id(*slot);
                self.broker.begin(keys, worker_key, seq, wire_id).await.map(Effect::Begun)
            }
            RequestKind::Finish { slots, ends } => {
                let ends = slots.iter().zip(ends);
                let calls: Vec<_> =
                    ends.filter_map(|(slot, end)| finished(queue.wire_id(*slot), end)).collect();
                self.broker.finish(keys, worker_key, seq, &calls).await.map(Effect::Finished)
            }
            RequestKind::Settle { slot, settlement } => {
                let wire_id = queue.wire_id(*slot);
                match settlement {
                    Settlement::Retry { message } => {
                        let errors = recorded_errors(message);
                        let moved = self.broker.retry(keys, worker_key, seq, wire_id, message, errors).await;
                        moved.map(Effect::Settled)
                    }
                    Settlement::RetryLater { message, id, delay } => {
                        let (id, delay, errors) = (*id, *delay, recorded_errors(message));
                        let ask = RetryLaterRequest { worker_key, seq, wire_id, message, id, delay, errors };
                        Ok(match self.broker.retry_later(keys, &ask).await? {
                            Scheduled::Done => Effect::Settled(true),
                            Scheduled::Lost => Effect::Settled(false),
                            Scheduled::Refused => Effect::NotScheduled,
                        })
                    }
                    Settlement::Bury { reason, detail, attempt, output, .. } => {
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
                            Buried::Done { letter, trimmed } => Effect::Buried { letter, trimmed },
                            Buried::Lost => Effect::Settled(false),
                            Buried::WrongType => Effect::Unburied,
                        })
                    }
                    Settlement::Split { parts, .. } => {
                        let parts: Vec<_> = parts.iter().map(split_item).collect();
                        let (limits, place) = (self.dead, &*self.place);
                        let ask = SplitRequest { worker_key, seq, wire_id, limits, place, items: &parts };
                        Ok(match self.broker.split(keys, &ask).await? {
                            Some(split) => Effect::Split { letters: split.letters, trimmed: split.trimmed },
                            None => Effect::Settled(false),
                        })
                    }
                    Settlement::Release { .. }
                    | Settlement::Finish { .. }
                    | Settlement::PutBack { .. }
                    | Settlement::Park { .. }
                    | Settlement::Defer { .. }
                    | Settlement::Leave => {
                        unreachable!("these go with other requests, or with none")
                    }
                }
            }
            RequestKind::PutBack { slots, place } => {
                let mut ids = queue.ids(slots);
                if *place == Place::Head {
                    ids.reverse();
                }
                let count = self.broker.put_back(keys, worker_key, seq, *place, &ids).await?;
                Ok(Effect::PutBack(count))
            }
            RequestKind::Park { slots, limit } => {
                let count = self.broker.park(keys, worker_key, seq, limit, &queue.ids(slots)).await?;
                Ok(Effect::Parked(count))
            }
            RequestKind::Defer { slots, waits } => {
                let slots = slots.iter().zip(waits);
                let messages: Vec<_> =
                    slots.map(|(slot, (id, wait))| (queue.wire_id(*slot), *id, *wait)).collect();
                self.broker.defer(keys, worker_key, seq, &messages).await.map(Effect::Deferred)
            }
            RequestKind::Reconcile { slots, unread } => {
                let ask =
                    ReconcileRequest { worker_key, seq, lease: self.lease, wire_ids: &queue.ids(slots) };
                let reconciled = match unread {
                    false => self.broker.reconcile(keys, &ask).await,
                    true => self.broker.reconcile_unread(keys, &ask).await,
                };
                reconciled.map(Effect::Reconciled)
            }
        }
    }
}

/// The encoded errors of earlier attempts from a message whose call keeps a record; otherwise empty.
fn recorded_errors(message: &[u8]) -> &[u8] {
    let message = Message::decode(message).ok();
    let kept = message.filter(|message| message.tracking().is_some_and(|it| it.keep_ms.is_some()));
    kept.and_then(|message| message.encoded_errors()).unwrap_or_default()
}

/// An item that failed, as `split` takes it.
fn split_item(part: &Part) -> SplitItem<'_> {
    match part {
        Part::Retry { message } => SplitItem::Retry { message },
        Part::RetryLater { message, id, delay, .. } => {
            SplitItem::RetryLater { message, id: *id, delay: *delay }
        }
        Part::Bury { message, detail, attempt } => SplitItem::Bury { message, detail, attempt: *attempt },
    }
}

/// The end of a slot's call, as `finish` takes it.
fn finished<'a>(wire_id: &'a str, end: &'a Settlement) -> Option<FinishedCall<'a>> {
    let Settlement::Finish { tracking, member, state, took, attempt, field } = end else { return None };
    let field = field.as_ref().map(|(name, value)| (*name, value.as_slice()));
    let (member, state) = (member.as_deref().unwrap_or_default(), state.name());
    Some(FinishedCall { wire_id, tracking, member, state, took: *took, attempt: *attempt, field })
}
