//! Decides which request is made next: settlements first, then claims, from the queues in order or by weight.

use crate::worker::queue::claim_size::ClaimSize;
use crate::worker::queue::client::QueueClient;
use crate::worker::queue::request::Request;
use crate::worker::queue::{Demand, Queues};

impl Queues {
    /// The next request that can be made now.
    pub(super) fn next_request(&mut self, demand: Demand<'_>) -> Option<Request> {
        if let Some(request) = self.clients.iter_mut().find_map(QueueClient::next_settlement) {
            return Some(request);
        }
        let preferred = if demand.accepts { self.preferred() } else { None };
        if let Some(index) = preferred
            && let Some(request) = self.claim(index, demand)
        {
            return Some(request);
        }
        (0..self.clients.len())
            .filter(|index| Some(*index) != preferred)
            .find_map(|index| self.release(index, demand))
    }

    /// Releases the finished slots of a queue and claims as many messages as there is room for.
    fn claim(&mut self, index: usize, demand: Demand<'_>) -> Option<Request> {
        match self.clients[index].situation(&demand, &self.slots).claim_size() {
            ClaimSize::Wait => None,
            ClaimSize::ReleaseOnly => self.release(index, demand),
            ClaimSize::Claim { batch, released } => {
                // The others need the slots more than one that is only tried.
                let batch = if self.fails_alone(index) { 1 } else { batch };
                Some(self.clients[index].claim(batch, released, &mut self.slots))
            }
        }
    }

    /// Releases the finished slots of a queue that is drained or less preferred. While all queues are drained, it also
    /// claims for the same slots: messages that arrived meanwhile come a round trip sooner.
    fn release(&mut self, index: usize, demand: Demand<'_>) -> Option<Request> {
        let client = &self.clients[index];
        if !client.can_release() {
            return None;
        }
        let all_dry = self.clients.iter().all(|client| client.supply().is_dry());
        let may_claim = all_dry && demand.accepts && !client.rests();
        let situation = client.situation(&demand, &self.slots);
        let again = if may_claim { situation.room().min(situation.at_most()) } else { 0 };
        Some(self.clients[index].release(again))
    }

    /// The queue to claim from: the first that is not drained; with weights, the one with the lowest virtual time. What claims in
    /// flight ask for counts as served, so that the next claim is of another queue.
    fn preferred(&self) -> Option<usize> {
        let may_bring =
            |client: &QueueClient| client.is_open() && !client.rests() && !client.supply().is_dry();
        let candidates = self.clients.iter().enumerate().filter(|(_, client)| may_bring(client));
        // Without weights, all virtual times are 0, so the first queue wins.
        candidates
            .min_by_key(|(_, client)| client.supply().served_with(client.pending().asked()))
            .map(|(index, _)| index)
    }

    /// Notes that a queue may hold something. A paused queue counts as empty until it is resumed.
    pub(in crate::worker) fn wake(&mut self, index: usize) {
        if self.is_paused(index) {
            return;
        }
        self.clients[index].supply_mut().wake(self.virtual_time);
    }

    /// The queues whose notifications are worth waiting for, in their order.
    pub(super) fn wanted(&self) -> impl Iterator<Item = usize> + '_ {
        let mut all_dry = true;
        self.clients.iter().enumerate().filter_map(move |(index, client)| {
            let is_dry = client.supply().is_dry();
            let comes_first = client.supply().has_weight() || all_dry;
            all_dry &= client.gives_way();
            let is_free = !client.pending().picks_up() && !client.pauses_now();
            (is_dry && comes_first && is_free).then_some(index)
        })
    }

    /// Whether a token of this queue can be used now: without weights, only while nothing is claimed from more preferred
    /// queues.
    pub(super) fn comes_first(&self, index: usize) -> bool {
        self.clients[index].supply().has_weight() || self.clients[..index].iter().all(QueueClient::gives_way)
    }
}
