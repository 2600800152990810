//! Which runs shall be ended by hand, and what is said of it? A beat brings the orders; the loop that claims obeys.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::broker::{Broker, Order, OrderAnswer, digest};
use crate::runner::Outcome;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::slots::{Running, Stop};

/// What is said to an order, on its way to Redis.
#[derive(Debug)]
pub(super) struct Said {
    wire_id: String,
    digest: String,
    answer: OrderAnswer,
}

/// Says it all, in order, until the loop is gone. What cannot be said is lost: whoever waits looks for himself.
pub(super) async fn say(broker: Broker, mut said: UnboundedReceiver<Said>) {
    while let Some(Said { wire_id, digest, answer }) = said.recv().await {
        if let Err(error) = broker.answer(&wire_id, &digest, answer).await {
            tracing::debug!(%wire_id, %answer, %error, "an order could not be answered");
        }
    }
}

/// Orders, by what was done about them.
pub(super) struct Orders {
    /// From the thread that beats: an order, and of which lane.
    pub(super) given: UnboundedReceiver<(usize, Order)>,
    /// Of calls that Redis has applied and that have not been answered here.
    early: Vec<(usize, Order)>,
    /// By slot, of runs that were told to end.
    obeyed: Vec<(usize, Order)>,
    said: UnboundedSender<Said>,
}

impl Orders {
    pub(super) fn new(given: UnboundedReceiver<(usize, Order)>, said: UnboundedSender<Said>) -> Self {
        Self { given, early: Vec::new(), obeyed: Vec::new(), said }
    }

    fn say(&self, order: Order, answer: OrderAnswer) {
        // Whoever says it is gone only with the worker.
        let _ = self.said.send(Said { wire_id: order.wire_id, digest: order.digest, answer });
    }

    /// Takes the order that a slot's run was told to end by.
    fn finish(&mut self, slot: usize) -> Option<Order> {
        let place = self.obeyed.iter().position(|(obeyed, _)| *obeyed == slot)?;
        Some(self.obeyed.swap_remove(place).1)
    }

    /// The slots whose runs were told to end.
    pub(super) fn slots(&self) -> Vec<usize> {
        self.obeyed.iter().map(|(slot, _)| *slot).collect()
    }

    /// What a run has come to when it ended: what ended badly after it was told to end was killed.
    pub(super) fn outcome_of(&mut self, slot: usize, outcome: Outcome) -> Outcome {
        let Some((_, order)) = self.obeyed.iter().find(|(obeyed, _)| *obeyed == slot) else { return outcome };
        if outcome != Outcome::Succeeded {
            return Outcome::Killed { by: order.by.clone() };
        }
        if let Some(order) = self.finish(slot) {
            self.say(order, OrderAnswer::Succeeded);
        }
        outcome
    }

    /// A run goes on although its time is up, and nothing can be done about it.
    pub(super) fn on_overdue(&self, slot: usize) {
        if let Some((_, order)) = self.obeyed.iter().find(|(obeyed, _)| *obeyed == slot) {
            self.say(order.clone(), OrderAnswer::Blocks);
        }
    }

    /// What was ordered was carried out, or the message was taken away from us or put back before: it runs again.
    pub(super) fn on_settled(&mut self, slot: usize, is_done: bool) {
        if let Some(order) = self.finish(slot) {
            self.say(order, if is_done { OrderAnswer::Killed } else { OrderAnswer::Lost });
        }
    }
}

impl ClaimLoop {
    /// An order has come to end what a slot runs.
    pub(super) fn on_order(&mut self, index: usize, order: Order) {
        let lane = &self.lanes[index];
        let Some(slot) = lane.lane.slot_of(&order.wire_id) else { return };
        let is_meant = |running: &Running| {
            running.lane == index
                && lane.claimed_by[slot] <= order.seq
                && digest(&running.message) == order.digest
        };
        if !self.slots.running_in(slot).is_some_and(is_meant) {
            if order.seq > lane.applied && (lane.requests > 0 || !lane.doubt.is_empty()) {
                // It may be what a claim brings whose reply has not been read.
                self.orders.early.push((index, order));
            } else {
                self.orders.say(order, OrderAnswer::Over);
            }
            return;
        }
        tracing::warn!(queue = %lane.lane.queue, wire_id = order.wire_id, by = order.by, "told to end a run");
        self.orders.finish(slot); // An earlier one about the same run.
        self.orders.obeyed.push((slot, order.clone()));
        let has_begun = match self.slots.running_in(slot).map(|running| &running.stop) {
            None | Some(Stop::NotNeeded) => false,
            Some(Stop::Impossible) => !self.blocking.withdraw_one(slot),
            Some(Stop::Abort(_)) => true,
            Some(Stop::Process(handle)) => {
                handle.kill(order.by.clone());
                self.orders.say(order, OrderAnswer::Ends(Duration::ZERO));
                return;
            }
        };
        if has_begun {
            // As when its time is up: it is asked, has its grace, and is dropped; or is found to be overdue.
            let grace = self.end_time(slot);
            self.orders.say(order, OrderAnswer::Ends(grace));
        } else {
            self.on_done(slot, Outcome::Killed { by: order.by }, None);
        }
    }

    /// Looks once more at orders that were ahead of what was known here.
    pub(super) fn on_early_orders(&mut self) {
        for (index, order) in std::mem::take(&mut self.orders.early) {
            self.on_order(index, order);
        }
    }

    /// The end: what was told to end and has not is settled as killed all the same, since it ends with the process.
    /// Gives how many of them nothing can stop.
    pub(super) fn give_up_ordered(&mut self) -> usize {
        let before = self.slots.stuck();
        for slot in self.orders.slots() {
            self.on_done(slot, Outcome::Killed { by: String::new() }, None);
        }
        before - self.slots.stuck()
    }
}
