//! Claims messages and releases finished ones in a single request.

use bytes::Bytes;

use crate::broker::{Claimed, Token};
use crate::worker::queue::Lost;
use crate::worker::queue::client::QueueClient;
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::slots::SlotPool;

/// The messages that a claim returned.
pub(in crate::worker::queue) struct Filled {
    pub(in crate::worker::queue) slots: Vec<usize>,
    pub(in crate::worker::queue) messages: Vec<Bytes>,
    /// Whether the message is a suspect that must run alone.
    pub(in crate::worker::queue) alone: bool,
    /// The positions of messages whose calls were cancelled.
    pub(in crate::worker::queue) cancelled: Vec<usize>,
    /// Whether the queue may hold more.
    pub(in crate::worker::queue) may_hold_more: bool,
    pub(in crate::worker::queue) lost: Lost,
}

impl QueueClient {
    /// Releases up to `released` finished slots and claims up to `batch` messages.
    pub(in crate::worker::queue) fn claim(
        &mut self,
        batch: usize,
        released: usize,
        pool: &mut SlotPool,
    ) -> Request {
        let (mut slots, cleared) = self.to_settle.take_finished(released);
        let released = slots.len();
        let kept = released.saturating_sub(batch);
        slots.extend(pool.take(batch.saturating_sub(released)));
        let in_hand = self.supply.take_token();
        self.number(RequestKind::Claim { slots, released, kept, cleared, in_hand })
    }

    /// Releases finished slots of a queue that is drained or less preferred, and claims for up to `again` of them.
    pub(in crate::worker::queue) fn release(&mut self, again: usize) -> Request {
        let (slots, cleared) = self.to_settle.take_finished(crate::broker::MAX_BATCH);
        let released = slots.len();
        let kept = released.saturating_sub(again);
        self.number(RequestKind::Claim { slots, released, kept, cleared, in_hand: None })
    }

    /// Whether there are finished slots that may be released now.
    pub(in crate::worker::queue) fn can_release(&self) -> bool {
        self.to_settle.finished() > 0 && self.is_open() && self.pending.claims() == 0
    }

    /// Handles the reply to a claim: which slots are filled, and which are free again.
    pub(in crate::worker::queue) fn on_claimed(
        &mut self,
        request: Request,
        claimed: Claimed,
        pool: &mut SlotPool,
    ) -> Filled {
        let (slots, kept, token, expects_more) = match request.kind {
            RequestKind::Claim { slots, kept, in_hand, .. } => (slots, kept, in_hand, true),
            // A token stands for one message, which is usually the only one.
            RequestKind::PickUp { slot, .. } => (vec![slot], 0, Some(Token::Moved), false),
            _ => (Vec::new(), 0, None, false),
        };
        let Claimed { lost, waiting, suspects, alone, cancelled, messages, paused } = claimed;
        if paused.is_some() && waiting > 0 {
            self.supply.keep_token(token); // It was not used.
        }
        let (over, open) = slots.split_at(kept);
        let (filled, empty) = open.split_at(messages.len().min(open.len()));
        for slot in empty.iter().rev().chain(over) {
            self.free(*slot, pool);
        }
        for slot in filled {
            self.claimed_by[*slot] = request.seq;
        }
        self.supply.note_reply(waiting, suspects);
        let mut may_hold_more = false;
        if !open.is_empty() {
            // If there are suspects or large messages, a claim may return fewer messages than are waiting.
            let held_back = waiting > 0 && !messages.is_empty();
            let got_all = messages.len() == open.len() && expects_more;
            may_hold_more = got_all || held_back;
            if !may_hold_more {
                self.supply.drain();
            }
        }
        Filled { slots: filled.to_vec(), messages, alone, cancelled, may_hold_more, lost: Lost(lost) }
    }
}
