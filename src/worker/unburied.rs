//! What if the dead letters cannot be written? Their key holds something else, which somebody put there: the message
//! keeps its slot until the key is mended, and all others go on, in slots that are kept for that.

use crate::broker::Place;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::request::{Request, RequestKind};
use crate::worker::slots::Settlement;
use crate::worker::stats::count;

impl ClaimLoop {
    /// What is to be buried, or put aside when that was in vain a moment ago.
    pub(super) fn bury(&mut self, index: usize, slot: usize, burial: Settlement) {
        let lane = &mut self.lanes[index];
        if lane.burials.is_failing() {
            self.put_aside(index, slot, burial);
        } else {
            lane.settle_later(slot, burial);
        }
    }

    /// A message could not be buried. One of those that are aside is tried from time to time.
    pub(super) fn on_unburied(&mut self, request: Request) {
        let RequestKind::Settle { slot, settlement } = request.kind else { return };
        self.put_aside(request.lane, slot, settlement);
        let lane = &mut self.lanes[request.lane];
        lane.burials.fail_once();
        tracing::error!(queue = %lane.lane.queue, key = lane.lane.keys.dead, messages = lane.unburied.len(), "dead letters cannot be written: this key holds another type than a stream; rename or delete it, and they will be. Meanwhile these messages stay with this worker, and all others are run");
    }

    fn put_aside(&mut self, index: usize, slot: usize, burial: Settlement) {
        let lane = &mut self.lanes[index];
        if self.closing {
            // Another worker may have more luck. Behind the others, which it shall not keep from being run.
            count(&self.counters.put_back, 1);
            lane.put_back_later(slot, Place::Tail);
        } else {
            lane.unburied.push_back((slot, burial));
            self.slots.put_aside(slot);
        }
    }

    /// The next one of a lane to be tried again, if it is time.
    pub(super) fn next_burial(&mut self, index: usize) -> Option<Request> {
        let lane = &mut self.lanes[index];
        if !lane.is_open() || lane.burials.until().is_some() {
            return None;
        }
        let (slot, settlement) = lane.unburied.pop_front()?;
        if lane.burials.is_failing() {
            // The others wait for what comes of it.
            lane.burials.fail();
        }
        Some(self.numbered(index, RequestKind::Settle { slot, settlement }))
    }

    /// A message was buried: so can the others be.
    pub(super) fn on_buried(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if lane.burials.is_failing() {
            tracing::info!(queue = %lane.lane.queue, messages = lane.unburied.len(), "dead letters can be written again");
            lane.burials.succeed();
        }
    }

    /// The worker ends: what it could not bury is put back.
    pub(super) fn give_up_burials(&mut self) {
        for index in 0..self.lanes.len() {
            for (slot, burial) in std::mem::take(&mut self.lanes[index].unburied) {
                self.put_aside(index, slot, burial);
            }
        }
    }
}
