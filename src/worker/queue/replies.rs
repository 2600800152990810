//! Handles the replies of Redis: updates the slots, and creates the events for the event loop.

use bytes::Bytes;

use crate::broker::{BrokerError, Claimed, Place, Reconciled};
use crate::worker::queue::client::Resolved;
use crate::worker::queue::request::{Effect, Reply, Request, RequestKind};
use crate::worker::queue::set_aside::{Broken, LARGE};
use crate::worker::queue::{Lost, QueueEvent, Queues, REQUEST};
use crate::worker::settlement::{Part, Settlement};
use crate::worker::stats::count;

impl Queues {
    /// Handles a reply. The results are queued as events.
    pub(in crate::worker) fn on_reply(&mut self, reply: Reply) {
        let Reply { request, result } = reply;
        let client = &mut self.clients[request.queue];
        client.pending_mut().ended(&request);
        if !request.is_pick_up() {
            client.served().remove_uncertain(request.claimed());
        }
        let effect = match result {
            Ok(effect) => effect,
            Err(error) => return self.on_error(request, &error),
        };
        client.pending_mut().applied(&request);
        if client.errors_mut().is_failing() && !client.pending().has_doubt() {
            client.errors_mut().succeed();
            self.sender.broker.outage().succeeded(REQUEST, client.served().queue.as_str());
        }
        match effect {
            Effect::Claimed(claimed) => self.on_claimed(request, claimed),
            Effect::Begun(owned) => self.on_begun(&request, owned),
            Effect::Finished(owned) => self.on_finished(request, &owned),
            Effect::Settled(owned) => self.on_settled(request, owned),
            Effect::Buried { letter, trimmed } => {
                self.note_burial(&request, Some(letter));
                self.on_trimmed(request.queue, trimmed);
                self.on_settled(request, true);
            }
            Effect::Split { letters, trimmed } => {
                self.on_split(&request, letters);
                self.on_trimmed(request.queue, trimmed);
                self.on_settled(request, true);
            }
            Effect::PutBack(count) => self.on_put_back(request, count),
            Effect::Parked(count) => self.on_parked(request, count),
            Effect::Deferred(moved) => self.on_deferred(request, &moved),
            Effect::Unburied => self.on_unburied(request),
            Effect::NotScheduled => self.on_not_scheduled(request),
            Effect::Reconciled(reconciled) => self.on_reconciled(request, reconciled),
        }
    }

    fn on_error(&mut self, request: Request, error: &BrokerError) {
        let queue = request.queue;
        if self.clients[queue].on_error(request, error, &mut self.slots) {
            self.log_error(queue, error);
        } else {
            tracing::debug!(queue = %self.name(queue), %error, "further request failed");
        }
        if self.fails_alone(queue) {
            self.clients[queue].stuck().for_each(|slot| self.slots.set_aside(slot));
        }
    }

    pub(super) fn log_error(&self, queue: usize, error: &BrokerError) {
        self.sender.broker.outage().failed(REQUEST, self.name(queue).as_str(), error);
    }

    fn on_claimed(&mut self, request: Request, claimed: Claimed) {
        let queue = request.queue;
        if !claimed.messages.is_empty() && self.comes_late(&request) {
            return self.clients[queue].doubt(request);
        }
        let suspects = claimed.suspects;
        let (made, asks) = (request.made, request.claimed() > 0);
        let paused_by = claimed.paused.as_ref().map(|paused| paused.by.clone());
        let filled = self.clients[queue].on_claimed(request, claimed, &mut self.slots);
        self.note_lost(queue, filled.lost);
        if filled.may_hold_more {
            self.wake(queue);
        }
        if asks {
            self.on_claim_of(queue, made, paused_by.as_deref());
        }
        let (mut slots, mut messages) = (filled.slots, filled.messages);
        if messages.is_empty() {
            return;
        }
        let supply = self.clients[queue].supply_mut();
        self.virtual_time = self.virtual_time.max(supply.served());
        supply.account(messages.len(), messages.iter().map(Bytes::len).sum::<usize>() / messages.len());
        count(&self.counters.claimed, messages.len() as u64);
        // Last first, so that the positions of the others stay valid.
        let count = messages.len();
        for place in filled.cancelled.into_iter().rev().filter(|place| *place < count) {
            let (slot, message) = (slots.remove(place), messages.remove(place));
            self.on_cancelled(queue, slot, message);
        }
        if !messages.is_empty() {
            self.arrive(queue, slots, messages, filled.alone, suspects);
        }
    }

    fn on_cancelled(&mut self, queue: usize, slot: usize, message: Bytes) {
        self.clients[queue].served().own(slot);
        self.events.push_back(QueueEvent::Cancelled { queue, slot, message });
    }

    fn arrive(&mut self, queue: usize, slots: Vec<usize>, messages: Vec<Bytes>, alone: bool, suspects: bool) {
        slots.iter().for_each(|slot| self.clients[queue].served().own(*slot));
        self.events.push_back(QueueEvent::Arrived { queue, slots, messages, alone, suspects });
    }

    /// Reports the burial that this request was, if it was one. `letter` is the id of the dead letter, if the reply
    /// arrived.
    fn note_burial(&mut self, request: &Request, letter: Option<String>) {
        if let RequestKind::Settle { settlement: burial @ Settlement::Bury { .. }, .. } = &request.kind {
            let (queue, burial) = (request.queue, burial.clone());
            self.events.push_back(QueueEvent::Buried { queue, burial, letter });
        }
    }

    /// Reports the burials of items, and that others are in the timetable.
    fn on_split(&mut self, request: &Request, letters: Vec<String>) {
        let RequestKind::Settle { settlement, .. } = &request.kind else { return };
        let queue = request.queue;
        for (burial, letter) in settlement.burials_of_items().zip(letters) {
            if !letter.is_empty() {
                self.events.push_back(QueueEvent::Buried { queue, burial, letter: Some(letter) });
            }
        }
    }

    fn on_begun(&mut self, request: &Request, owned: bool) {
        let RequestKind::Begin { slot } = request.kind else { return };
        self.events.push_back(match owned {
            true => QueueEvent::Begun { slot },
            false => QueueEvent::NotOwned { queue: request.queue, slot },
        });
    }

    /// Handles finished calls; `owned` says which of the slots still owned them.
    fn on_finished(&mut self, request: Request, owned: &[bool]) {
        let Request { queue, kind: RequestKind::Finish { slots, ends }, .. } = request else { return };
        for ((slot, end), is_done) in slots.into_iter().zip(ends).zip(owned.iter().copied()) {
            if let Settlement::Finish { tracking, member: Some(_), .. } = end
                && is_done
            {
                self.outbox.note(queue, tracking.id);
            }
            self.clients[queue].free(slot, &mut self.slots);
            self.events.push_back(QueueEvent::Settled { slot, is_done });
        }
        self.note_lost(queue, Lost(owned.iter().map(|owned| u64::from(!owned)).sum()));
    }

    /// Handles a settlement that was applied, or came too late.
    fn on_settled(&mut self, request: Request, owned: bool) {
        let Request { queue, kind: RequestKind::Settle { slot, settlement }, .. } = request else { return };
        self.clients[queue].free(slot, &mut self.slots);
        self.events.push_back(QueueEvent::Settled { slot, is_done: owned });
        if !owned {
            return self.note_lost(queue, Lost(1));
        }
        match settlement {
            // The call may be the only one in the queue, and ends a cycle of unknown calls.
            Settlement::Retry { .. } => {
                self.clients[queue].supply_mut().note_known();
                self.wake(queue);
            }
            Settlement::Split { parts, .. } => {
                self.clients[queue].supply_mut().note_known();
                let delays = parts.iter().filter_map(|part| match part {
                    Part::RetryLater { delay, .. } => Some(*delay),
                    Part::Retry { .. } | Part::Bury { .. } => None,
                });
                if let Some(delay) = delays.min() {
                    self.timetable.note(&self.served(queue).keys, delay);
                }
                self.wake(queue);
            }
            Settlement::RetryLater { delay, .. } => {
                self.clients[queue].supply_mut().note_known();
                self.timetable.note(&self.served(queue).keys, delay);
            }
            Settlement::Bury { call, .. } => {
                if let Some(id) = call.id.filter(|_| call.is_step) {
                    self.outbox.note(queue, id);
                }
                if let Some(messages) = self.clients[queue].aside_mut().buried() {
                    tracing::info!(queue = %self.name(queue), messages, "dead letters can be written again");
                }
            }
            Settlement::Release { .. }
            | Settlement::Finish { .. }
            | Settlement::PutBack { .. }
            | Settlement::Park { .. }
            | Settlement::Defer { .. }
            | Settlement::Leave => {}
        }
    }

    /// Handles messages that were put back; `count` of them were still owned by this worker.
    fn on_put_back(&mut self, request: Request, count: u64) {
        let Request { queue, kind: RequestKind::PutBack { slots, place }, .. } = request else { return };
        let lost = (slots.len() as u64).saturating_sub(count);
        for slot in slots {
            self.clients[queue].free(slot, &mut self.slots);
            self.events.push_back(QueueEvent::Settled { slot, is_done: false });
        }
        if count > 0 {
            let supply = self.clients[queue].supply_mut();
            match place {
                // As after a retry.
                Place::Head => supply.note_known(),
                Place::Tail => supply.unknown_put_back(),
            }
            self.wake(queue);
        }
        self.note_lost(queue, Lost(lost));
    }

    /// The timetable already has the call, or cannot be used: the call is retried at once, so that it is not lost.
    fn on_not_scheduled(&mut self, request: Request) {
        let Request { queue, kind: RequestKind::Settle { slot, settlement }, .. } = request else { return };
        let Settlement::RetryLater { message, id, .. } = settlement else { return };
        tracing::warn!(
            queue = %self.name(queue),
            call_id = %id,
            hint = "the timetable already has this call, or one of its keys has the wrong type: see `doctor`",
            "call cannot be scheduled; retrying immediately"
        );
        self.clients[queue].settle(slot, Settlement::Retry { message });
    }

    /// Handles a message that could not be buried.
    fn on_unburied(&mut self, request: Request) {
        let Request { queue, kind: RequestKind::Settle { slot, settlement }, .. } = request else { return };
        self.keep_burial(queue, slot, settlement);
        self.clients[queue].aside_mut().burial_failed();
        let messages = self.clients[queue].aside_mut().burials();
        let repeated = self.trouble(queue, "unburied");
        let served = self.served(queue);
        let (queue, key) = (&served.queue, &served.keys.dead);
        match repeated {
            Some(repeated) => {
                tracing::error!(%queue, key, messages, repeated, hint = "the key is not a stream: rename or delete \
                    it; until then these messages stay with this worker", "dead letters cannot be written");
            }
            None => tracing::debug!(%queue, key, messages, "dead letters cannot be written; retrying"),
        }
    }

    /// Keeps a failed burial in its slot until the worker ends.
    pub(super) fn keep_burial(&mut self, queue: usize, slot: usize, burial: Settlement) {
        if self.is_draining {
            // Another worker may succeed. The message goes to the tail, so that it does not block the others.
            self.put_back(queue, slot, Place::Tail);
        } else {
            self.clients[queue].keep_burial(slot, burial, &mut self.slots);
        }
    }

    /// Handles a burial for which this many older dead letters were dropped.
    fn on_trimmed(&mut self, queue: usize, trimmed: u64) {
        if trimmed > 0
            && let Some(repeated) = self.trouble(queue, "trimmed")
        {
            tracing::warn!(queue = %self.name(queue), trimmed, repeated, hint = "see `dead list`, or raise \
                dead.max_count", "oldest dead letters dropped");
        }
    }

    /// Handles the reply that says which requests in doubt were applied.
    fn on_reconciled(&mut self, request: Request, reconciled: Reconciled) {
        let queue = request.queue;
        let resolved = self.clients[queue].on_reconciled(request, reconciled, &mut self.slots);
        let Resolved { alone, others, cancelled, unread, unsettled, settled, buried, not_owned, lost } =
            resolved;
        unsettled.into_iter().for_each(|(slot, settlement)| self.settle_again(queue, slot, settlement));
        let buried = buried.into_iter().map(|burial| QueueEvent::Buried { queue, burial, letter: None });
        self.events.extend(buried);
        let settled = settled.into_iter().map(|(slot, is_done)| QueueEvent::Settled { slot, is_done });
        let not_owned = not_owned.into_iter().map(|slot| QueueEvent::NotOwned { queue, slot });
        self.events.extend(settled.chain(not_owned));
        self.note_lost(queue, lost);
        count(&self.counters.claimed, (alone.len() + others.len() + unread.len()) as u64);
        self.wake(queue);
        self.on_unread(queue, &unread);
        let suspects = self.clients[queue].supply().has_suspects();
        cancelled.into_iter().for_each(|(slot, message)| self.on_cancelled(queue, slot, message));
        for (slot, message) in alone {
            self.arrive(queue, vec![slot], vec![message], true, suspects);
        }
        if !others.is_empty() {
            let (slots, messages) = others.into_iter().unzip();
            self.arrive(queue, slots, messages, false, suspects);
        }
    }

    /// Handles a settlement that was not applied because the connection broke. Sends it again, unless it seems to be what
    /// breaks the connection.
    fn settle_again(&mut self, queue: usize, slot: usize, settlement: Settlement) {
        match self.clients[queue].aside_mut().broke(slot, settlement) {
            Broken::Again(settlement) => self.clients[queue].settle(slot, settlement),
            Broken::TooLarge { bytes, burial } => {
                count(&self.counters.buried, 1);
                tracing::error!(queue = %self.name(queue), bytes, hint = "see proto-max-bulk-len in the configuration of redis", "retry is too large; burying");
                self.settle(queue, slot, burial);
            }
            Broken::Keep(burial) => {
                let repeated = self.trouble(queue, "aside");
                let name = self.name(queue);
                match repeated {
                    Some(repeated) => {
                        tracing::error!(queue = %name, repeated, hint = "the connection breaks each time it is sent", "dead letter set aside");
                    }
                    None => tracing::debug!(queue = %name, "dead letter set aside"),
                }
                self.keep_burial(queue, slot, burial);
                self.clients[queue].aside_mut().burial_failed();
            }
        }
    }

    /// Handles claimed messages that could not be read, because the connection broke each time. A single large message
    /// keeps its slot until the worker ends. Others go back, and claims fetch one message each until the message in
    /// question is found.
    fn on_unread(&mut self, queue: usize, unread: &[(usize, u64)]) {
        unread.iter().for_each(|(slot, _)| self.clients[queue].served().own(*slot));
        if let [(slot, bytes)] = *unread
            && bytes >= LARGE as u64
            && !self.is_draining
        {
            tracing::error!(queue = %self.name(queue), bytes, hint = "the connection breaks each time it is read: see client-output-buffer-limit in the configuration of redis, and redis.timeout", "message set aside");
            self.clients[queue].aside_mut().keep_unread(slot);
            self.slots.set_aside(slot);
            return;
        }
        if unread.len() > 1 {
            self.clients[queue].aside_mut().search();
        }
        // They are passed in reverse order of their claims.
        unread.iter().rev().for_each(|(slot, _)| self.put_back(queue, *slot, Place::Head));
    }
}
