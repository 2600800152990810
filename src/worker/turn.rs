//! Whose turn is it? What is to be settled comes first, then claims: the queues in their order, or by their weights.

use std::time::Instant;

use crate::worker::claim_loop::ClaimLoop;
use crate::worker::lane_state::LaneState;
use crate::worker::request::{Request, RequestKind};

impl ClaimLoop {
    /// The next request that can be made now.
    pub(super) fn next_request(&mut self) -> Option<Request> {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.refused && lane.requests == 0 {
                // All that were behind the refused one have been refused too: the numbers go on after the last applied.
                lane.refused = false;
                lane.seq = lane.applied;
            }
            if !lane.doubt.is_empty() && lane.requests == 0 && lane.backoff.until().is_none() {
                return Some(self.reconcile(index));
            }
            if lane.is_open()
                && let Some(kind) = lane.next_settlement()
            {
                return Some(self.numbered(index, kind));
            }
            if let Some(request) = self.next_burial(index) {
                return Some(request);
            }
        }
        let preferred = if self.accepts() { self.preferred() } else { None };
        if let Some(index) = preferred
            && let Some(request) = self.claim(index)
        {
            return Some(request);
        }
        (0..self.lanes.len())
            .find_map(|index| if Some(index) == preferred { None } else { self.release(index) })
    }

    /// A request with the next number of its lane.
    pub(super) fn numbered(&mut self, index: usize, kind: RequestKind) -> Request {
        let lane = &mut self.lanes[index];
        lane.seq += 1;
        Request { lane: index, seq: lane.seq, kind, made: Instant::now() }
    }

    /// The lane to claim from: the first that is not dry; with weights, the one that has got the least for its weight.
    fn preferred(&self) -> Option<usize> {
        let candidates = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.is_open() && !lane.rests() && (!lane.dry || lane.token.is_some()));
        // Without weights nothing is ever added to what they got, so the first one wins.
        candidates.min_by_key(|(_, lane)| lane.got).map(|(index, _)| index)
    }

    /// Notes that a lane may have something. One that was empty for a while has no claim to what it did not use.
    pub(super) fn wake(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if std::mem::take(&mut lane.dry) {
            lane.got = lane.got.max(self.pace);
        }
    }

    /// The lanes whose tokens are worth waiting for, in their order.
    pub(super) fn wanted(&self) -> impl Iterator<Item = usize> {
        let mut all_dry = true;
        self.lanes.iter().enumerate().filter_map(move |(index, lane)| {
            let is_dry = lane.dry && lane.token.is_none();
            let comes_first = lane.weight > 0 || all_dry;
            all_dry &= is_dry || lane.pauses_now();
            (is_dry && comes_first && !lane.picks_up && !lane.pauses_now()).then_some(index)
        })
    }

    /// Whether a token of this lane can be used now: without weights, only while the lanes before it are dry, or nothing is
    /// claimed of them.
    pub(super) fn comes_first(&self, index: usize) -> bool {
        let gives_way = |lane: &LaneState| (lane.dry && lane.token.is_none()) || lane.pauses_now();
        self.lanes[index].weight > 0 || self.lanes[..index].iter().all(gives_way)
    }
}
