//! Tracks what one queue probably holds, and whether any of it is for this worker.

use std::time::Instant;

use crate::broker::Token;
use crate::worker::queue::cooldown::Cooldown;

/// The cost of one message for a queue of weight 1; weights go up to 1000.
const SHARE: u64 = 1_000_000;

/// The known state of one queue.
#[derive(Debug)]
pub(super) struct Supply {
    /// 0 if queues are served strictly in order.
    weight: u32,
    /// The virtual time of the queue: the number of messages that it was served, times [`SHARE`], divided by its weight. 0
    /// without weights.
    served: u64,
    /// The last claim returned less than it asked for.
    is_drained: bool,
    /// The token that the worker holds.
    token: Option<Token>,
    /// How many messages waited after the last claim.
    waiting: u64,
    /// The mean size in bytes of the messages of the last claim.
    size: usize,
    /// Whether suspects exist: messages that were lost with their workers.
    has_suspects: bool,
    /// How many calls of unknown tasks were put back since the last call of a known task, or since the last pause.
    unknown: u64,
    /// The greatest length of the queue in that time. Once this many calls were put back, all of the queue was unknown.
    cycle: u64,
    /// The pause after a whole cycle of unknown tasks, in which other workers can take them.
    rest: Cooldown,
}

impl Supply {
    pub(super) fn new(weight: u32) -> Self {
        Self {
            weight,
            served: 0,
            is_drained: false,
            token: None,
            waiting: 0,
            size: 0,
            has_suspects: false,
            unknown: 0,
            cycle: 0,
            rest: Cooldown::default(),
        }
    }

    pub(super) fn has_weight(&self) -> bool {
        self.weight > 0
    }

    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Its virtual time once `asked` more messages are served.
    pub(super) fn served_with(&self, asked: usize) -> u64 {
        self.served + (asked as u64 * SHARE).checked_div(u64::from(self.weight)).unwrap_or(0)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn has_suspects(&self) -> bool {
        self.has_suspects
    }

    pub(super) fn expect_suspects(&mut self) {
        self.has_suspects = true;
    }

    /// Records the reply to a claim: how many messages still wait, and whether suspects exist.
    pub(super) fn note_reply(&mut self, waiting: u64, has_suspects: bool) {
        (self.waiting, self.has_suspects) = (waiting, has_suspects);
    }

    /// Records that this many messages of this mean size were claimed while others still wait.
    pub(super) fn account(&mut self, messages: usize, size: usize) {
        self.size = size;
        self.cycle = self.cycle.max(self.waiting + messages as u64);
        self.served += (messages as u64 * SHARE).checked_div(u64::from(self.weight)).unwrap_or(0);
    }

    /// Notes that the queue is empty.
    pub(super) fn drain(&mut self) {
        self.is_drained = true;
    }

    /// Notes that the queue may hold something. A queue that was empty for a while gets no credit for its unused share: it
    /// starts at the virtual time of the queues that were served meanwhile.
    pub(super) fn wake(&mut self, virtual_time: u64) {
        if std::mem::take(&mut self.is_drained) {
            self.served = self.served.max(virtual_time);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Whether the queue is empty, and no notification says otherwise.
    pub(super) fn is_dry(&self) -> bool {
        self.is_drained && self.token.is_none()
    }

    /// Whether nothing is left for this worker: the queue is empty, or a whole cycle of it was unknown and no call of a
    /// known task has come since.
    pub(super) fn has_nothing(&self) -> bool {
        let is_empty = self.is_drained && self.waiting == 0;
        self.token.is_none() && (is_empty || self.rest.is_failing())
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(super) fn take_token(&mut self) -> Option<Token> {
        self.token.take()
    }

    /// Keeps a token, unless there already is one.
    pub(super) fn keep_token(&mut self, token: Option<Token>) {
        self.token = self.token.or(token);
    }

    /// Notes that a call of an unknown task is put back.
    pub(super) fn note_unknown(&mut self) {
        self.unknown += 1;
    }

    /// Notes that calls of unknown tasks are behind all others again. Starts a pause if the queue holds nothing else; it
    /// grows with each consecutive cycle.
    pub(super) fn unknown_put_back(&mut self) {
        if self.unknown > 0 && self.unknown >= self.cycle {
            (self.unknown, self.cycle) = (0, 0);
            self.rest.fail();
        }
    }

    /// Notes a call of a known task.
    pub(super) fn note_known(&mut self) {
        (self.unknown, self.cycle) = (0, 0);
        if self.rest.is_failing() {
            self.rest.succeed();
        }
    }

    /// Whether all recent calls were of unknown tasks.
    pub(super) fn is_unknown(&self) -> bool {
        self.rest.is_failing()
    }

    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rest.until()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.rest.expire(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_rests_after_a_whole_cycle_of_unknown_tasks() {
        let mut supply = Supply::new(0);
        let put_back = |supply: &mut Supply, waiting: u64, unknown: u64| {
            supply.note_reply(waiting, false);
            supply.account(4, 1);
            (0..unknown).for_each(|_| supply.note_unknown());
            supply.unknown_put_back();
            supply.rests_until().is_some()
        };
        // 12 messages, 4 at a time.
        assert!(!put_back(&mut supply, 8, 4));
        assert!(!put_back(&mut supply, 8, 4));
        assert!(!supply.has_nothing());
        assert!(put_back(&mut supply, 8, 4));
        assert!(supply.has_nothing());
        // A call of a known task ends the pause and starts another cycle.
        supply.note_known();
        assert!(supply.rests_until().is_none() && !supply.has_nothing());
        assert!(!put_back(&mut supply, 1, 4));
        assert!(put_back(&mut supply, 1, 4));
    }

    #[test]
    fn a_queue_that_was_empty_does_not_catch_up() {
        let mut supply = Supply::new(2);
        supply.account(4, 1);
        assert_eq!(supply.served(), 2 * SHARE);
        supply.wake(9 * SHARE);
        assert_eq!(supply.served(), 2 * SHARE, "it was not empty");
        supply.drain();
        supply.wake(9 * SHARE);
        assert_eq!((supply.served(), supply.is_drained()), (9 * SHARE, false));
    }
}
