//! Numbers the requests of one queue, and keeps those that are in doubt: it is unknown whether Redis applied them.
//!
//! Redis applies a worker's requests on a queue in the order of their numbers, without gaps, and refuses all others. So
//! after a lost reply, one query resolves all requests in doubt: those up to the stored number were applied.

use std::time::Instant;

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::worker::queue::request::{Request, RequestKind};

/// Maximum number of requests of one queue in flight.
const IN_FLIGHT: usize = 32;
/// How far a reconciliation jumps ahead of all requests that may still be in flight.
const JUMP: u64 = 1 << 20;

/// The requests of one queue.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The number of the last request.
    seq: u64,
    /// The number of the last request known to be applied.
    applied: u64,
    in_flight: usize,
    claims: usize,
    /// The largest number of messages that the claims in flight may bring.
    asked: usize,
    /// A pick-up is queued behind a wait: Redis runs it when the wait has ended.
    picks_up: bool,
    /// A request was refused. No other request is made until those in flight have been answered.
    is_refused: bool,
    /// Requests are refused until an operator repairs a key or grants a permission.
    is_blocked: bool,
    in_doubt: Vec<Request>,
    /// How often in a row the connection broke during a reconciliation.
    broken_reconciles: u32,
}

impl Pending {
    /// A request with the next number.
    pub(super) fn number(&mut self, queue: usize, kind: RequestKind) -> Request {
        Request { queue, seq: self.next_number(), kind, made: Instant::now() }
    }

    /// A request with a number beyond all that may still be in flight.
    pub(super) fn number_beyond(&mut self, queue: usize, kind: RequestKind) -> Request {
        Request { queue, seq: self.jump(), kind, made: Instant::now() }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn jump(&mut self) -> u64 {
        self.seq += JUMP;
        self.seq
    }

    /// Notes that a request is sent. Returns whether it is a claim beside another claim.
    pub(super) fn sent(&mut self, request: &Request) -> bool {
        let is_second = self.claims > 0 && request.is_claim();
        self.in_flight += 1;
        self.claims += usize::from(request.is_claim());
        self.asked += request.claimed();
        self.picks_up |= request.is_pick_up();
        is_second
    }

    /// Notes that a request was answered, or failed.
    pub(super) fn ended(&mut self, request: &Request) {
        self.in_flight -= 1;
        self.claims -= usize::from(request.is_claim());
        self.asked -= request.claimed();
        self.picks_up &= !request.is_pick_up();
    }

    /// Notes that Redis has applied a request.
    pub(super) fn applied(&mut self, request: &Request) {
        self.applied = self.applied.max(request.seq);
        // A reconciliation needs fewer keys, so its success says nothing about the refused ones.
        self.is_blocked &= matches!(request.kind, RequestKind::Reconcile { .. });
    }

    /// Notes why a request failed.
    pub(super) fn failed(&mut self, error: &BrokerError) {
        self.is_blocked = match error.kind() {
            BrokerErrorKind::WrongType | BrokerErrorKind::Denied => true,
            BrokerErrorKind::Stale => self.is_blocked, // It stood behind one that was refused.
            _ => false,
        };
    }

    /// Notes that a request was certainly not applied: the requests behind it will be refused too.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Continues after a refusal, once all requests behind the refused one have been refused too.
    pub(super) fn resume(&mut self) {
        if self.is_refused && self.in_flight == 0 {
            self.is_refused = false;
            self.seq = self.applied;
        }
    }

    /// Puts a request in doubt.
    pub(super) fn doubt(&mut self, request: Request) {
        self.in_doubt.push(request);
    }

    /// Takes the requests in doubt, to resolve them.
    pub(super) fn take_in_doubt(&mut self) -> Vec<Request> {
        self.broken_reconciles = 0;
        std::mem::take(&mut self.in_doubt)
    }

    /// The slots of the requests in doubt.
    pub(super) fn slots_in_doubt(&self) -> impl Iterator<Item = usize> + '_ {
        self.in_doubt.iter().flat_map(Request::slots).copied()
    }

    /// The slots of the requests in doubt, if Redis should be asked about them now.
    pub(super) fn to_reconcile(&self) -> Option<Vec<usize>> {
        if self.in_doubt.is_empty() || self.in_flight > 0 {
            return None;
        }
        let mut slots: Vec<usize> = self.slots_in_doubt().collect();
        slots.sort_unstable();
        slots.dedup();
        Some(slots)
    }

    pub(super) fn reconcile_broke(&mut self) {
        self.broken_reconciles += 1;
    }

    pub(super) fn broken_reconciles(&self) -> u32 {
        self.broken_reconciles
    }

    /// Whether an ordinary request may be made now.
    pub(super) fn is_open(&self) -> bool {
        self.in_doubt.is_empty() && !self.is_refused && self.in_flight < IN_FLIGHT
    }

    /// Whether requests are refused until an operator repairs something.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn has_doubt(&self) -> bool {
        !self.in_doubt.is_empty()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether requests are in flight or in doubt. Ignores a pick-up that was behind a wait when its connection broke: it
    /// has probably taken nothing.
    pub(super) fn has_work(&self) -> bool {
        self.in_flight > 0 || self.in_doubt.iter().any(|request| !request.is_pick_up())
    }

    /// How many messages the claims in flight ask for.
    pub(super) fn asked(&self) -> usize {
        self.asked
    }

    /// How many claims are in flight.
    pub(super) fn claims(&self) -> usize {
        self.claims
    }

    pub(super) fn picks_up(&self) -> bool {
        self.picks_up
    }

    /// Whether a request up to this number may still deliver messages.
    pub(super) fn may_still_apply(&self, seq: u64) -> bool {
        seq > self.applied && (self.in_flight > 0 || self.has_doubt())
    }
}
