//! How do slots get messages, and give them back when they are done? One request releases what has finished and claims
//! for the slots that are free.

use bytes::Bytes;

use crate::broker::{Claimed, MAX_BATCH};
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::request::{Request, RequestKind};
use crate::worker::stats::count;

/// How many claims of one lane are under way at the most.
const CLAIMS: usize = 2;
/// Up to so many slots share one claim: halves of them would cost Redis more than it gains to run beside the worker.
const FEW: usize = 16;
/// Queues with weights take turns, of so many messages, or as many as may run.
const TURN: usize = 16;
/// Messages of this size take long enough to be read that two claims are worth it with few slots, too.
const LARGE: usize = 8192;
/// How many bytes a claim should bring: Redis has room at hand for one large message after the other, not for many.
const CLAIM_BYTES: usize = 1 << 20;
/// For how many messages is asked while it is not known how large they are.
const UNSEEN: usize = 16;

impl ClaimLoop {
    /// How many slots must have finished before a second claim of a lane is made beside one that is under way.
    pub(super) fn chunk(&self, index: usize) -> usize {
        let size = self.lanes[index].size;
        let slots = self.outlook.limit(size);
        let two = slots > FEW || size >= LARGE;
        slots.div_ceil(if two { CLAIMS } else { 1 })
    }

    /// For how many messages of a lane there is room when what finished there is released.
    pub(super) fn room(&self, index: usize) -> usize {
        let lane = &self.lanes[index];
        // Nothing is claimed ahead where a call takes workers down: all that they own counts a death.
        let limit = if lane.suspects { self.concurrency } else { self.outlook.limit(lane.size) };
        (limit + lane.finished.len()).saturating_sub(self.slots.taken())
    }

    /// For how many messages of a lane one claim may ask.
    fn at_most(&self, index: usize) -> usize {
        let lane = &self.lanes[index];
        let turn = if lane.weight > 0 { self.concurrency.max(TURN) } else { MAX_BATCH };
        let fit = CLAIM_BYTES.checked_div(lane.size).unwrap_or(UNSEEN);
        fit.clamp(1, turn.min(MAX_BATCH))
    }

    /// Releases what finished in a lane and claims as many as there is room for.
    pub(super) fn claim(&mut self, index: usize) -> Option<Request> {
        self.outlook.look();
        let (chunk, room) = (self.chunk(index), self.room(index));
        let at_most = self.at_most(index);
        let lane = &mut self.lanes[index];
        let ready = room.min(lane.finished.len() + self.slots.free());
        // A little less than a half is worth a second claim.
        let second = (chunk - chunk / 8).min(at_most);
        let enough = if lane.claims == 0 { 1 } else { second };
        // One at a time where there are suspects, since two claims could bring two of them.
        let most = if lane.suspects || lane.size == 0 { 1 } else { CLAIMS };
        if ready == 0 {
            return self.release(index);
        }
        if lane.claims >= most || ready < enough {
            return None;
        }
        let known = ready.min(usize::try_from(lane.waiting).unwrap_or(usize::MAX));
        let half = known.div_ceil(CLAIMS);
        // Two at once where there is enough for both, so that the first is run while Redis works on the other.
        let both = lane.claims + 1 < most && known > chunk && ready - half >= second;
        let batch = at_most.min(if both { half } else { ready });
        let (mut slots, forgive) = take_finished(&mut lane.finished, if both { batch } else { MAX_BATCH });
        let released = slots.len();
        let kept = released.saturating_sub(batch);
        slots.extend(self.slots.take(batch.saturating_sub(released)));
        let in_hand = lane.token.take();
        let kind = RequestKind::Claim { slots, released, kept, forgive, in_hand };
        Some(self.numbered(index, kind))
    }

    /// Releases what finished in a lane that is dry, or that others come before. While all are dry, it claims for the same
    /// slots again: what has come meanwhile is here a round trip sooner.
    pub(super) fn release(&mut self, index: usize) -> Option<Request> {
        let lane = &self.lanes[index];
        if lane.finished.is_empty() || !lane.is_open() || lane.claims > 0 {
            return None;
        }
        let again = if self.may_have_more(index) { self.room(index).min(self.at_most(index)) } else { 0 };
        let lane = &mut self.lanes[index];
        let (slots, forgive) = take_finished(&mut lane.finished, MAX_BATCH);
        let released = slots.len();
        let kept = released.saturating_sub(again);
        let kind = RequestKind::Claim { slots, released, kept, forgive, in_hand: None };
        Some(self.numbered(index, kind))
    }

    /// Whether a lane that is dry may be claimed from, since nobody else would use its slots meanwhile.
    fn may_have_more(&self, index: usize) -> bool {
        let all_dry = self.lanes.iter().all(|lane| lane.dry && lane.token.is_none());
        all_dry && self.accepts() && !self.lanes[index].rests()
    }

    /// Notes that a slot owns nothing and may be claimed for.
    pub(super) fn free(&mut self, index: usize, slot: usize) {
        self.lanes[index].lane.disown(slot);
        self.slots.give(slot);
    }

    /// What a claim has brought, and which slots are free again.
    pub(super) fn on_claimed(&mut self, request: Request, claimed: Claimed) {
        if !claimed.messages.is_empty() && self.comes_late(&request) {
            self.doubt(request);
            return;
        }
        let (slots, kept, expects_more) = match request.kind {
            RequestKind::Claim { slots, kept, .. } => (slots, kept, true),
            // A token comes for one message, which is the only one as a rule.
            RequestKind::PickUp { slot, .. } => (vec![slot], 0, false),
            _ => return,
        };
        let Claimed { lost, waiting, suspects, alone, messages } = claimed;
        self.on_lost(request.lane, lost);
        let (over, open) = slots.split_at(kept);
        let (filled, empty) = open.split_at(messages.len().min(open.len()));
        for slot in empty.iter().rev().chain(over) {
            self.free(request.lane, *slot);
        }
        let lane = &mut self.lanes[request.lane];
        for slot in filled {
            lane.claimed_by[*slot] = request.seq;
        }
        lane.waiting = waiting;
        lane.suspects = suspects;
        if !open.is_empty() {
            // Where there are suspects, or messages are large, a claim may bring less than there is.
            let held_back = waiting > 0 && !messages.is_empty();
            let got_all = messages.len() == open.len() && expects_more;
            if got_all || held_back {
                self.wake(request.lane);
            } else {
                lane.dry = true;
            }
        }
        if !messages.is_empty() {
            let lane = &mut self.lanes[request.lane];
            self.pace = self.pace.max(lane.got);
            lane.charge(messages.len());
            lane.size = messages.iter().map(Bytes::len).sum::<usize>() / messages.len();
            count(&self.counters.claimed, messages.len() as u64);
            self.dispatch(request.lane, filled, messages, alone);
        }
    }
}

/// Takes up to so many finished slots: those to forgive first, and how many those are.
fn take_finished(finished: &mut Vec<(usize, bool)>, most: usize) -> (Vec<usize>, usize) {
    let rest = finished.split_off(finished.len().min(most));
    let mut taken = std::mem::replace(finished, rest);
    let forgive = taken.iter().filter(|(_, forgive)| *forgive).count();
    if forgive > 0 {
        taken.sort_by_key(|(_, forgive)| !forgive);
    }
    (taken.into_iter().map(|(slot, _)| slot).collect(), forgive)
}
