//! Runs calls that name limits: asks the limits first, and moves calls that may not run yet out of the way.

use crate::broker::{Place, digest};
use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::worker::event_loop::EventLoop;
use crate::worker::executor::Batch;
use crate::worker::permits::{Answered, Ask};
use crate::worker::phase::Phase;
use crate::worker::settlement::Settlement;

impl EventLoop {
    /// Asks the limits whether the call in a slot may run. Once they have answered, the call begins or moves elsewhere.
    pub(super) fn ask_limits(&mut self, slot: usize, limits: Vec<LimitName>) {
        let Some((order, since)) = self.executor.await_permit(slot) else { return };
        let Some((queue, message)) = self.executor.held(slot) else { return };
        let entry = format!("{} {}", digest(message), self.queues.name(queue));
        let holder = format!("{}#{}", self.queues.served(queue).wire_id(slot), self.permits.number());
        self.queues.note_known(queue);
        self.permits.ask(Ask { slot, queue, order, since, limits, next: 0, holder, entry });
    }

    pub(super) fn on_answers(&mut self, answers: Vec<(Ask, crate::broker::Verdict)>) {
        let mut batch = Batch::new();
        for answered in self.permits.on_answers(answers) {
            match answered {
                Answered::MayRun(ask) => self.on_permitted(&ask, &mut batch),
                Answered::Waits { ask, limit } => {
                    self.move_aside(&ask, |_| Settlement::Park { limit });
                }
                Answered::Later { ask, wait } => self.move_aside(&ask, |message| {
                    let id = message.and_then(|message| message.id()).unwrap_or_else(CallId::new);
                    Settlement::Defer { id, wait }
                }),
            }
        }
        self.executor.hand_over();
    }

    /// The limits permit the call: it begins now, or when an earlier run ends.
    fn on_permitted(&mut self, ask: &Ask, batch: &mut Batch) {
        let Ask { slot, queue, order, since, .. } = *ask;
        let Some(is_alone) = self.executor.permit(slot, order) else { return };
        let may_not_begin = self.phase() > Phase::Quiet || self.queues.is_paused(queue);
        if may_not_begin || self.executor.has_lapsed_since(queue, slot, since) {
            self.executor.take(slot);
            self.put_back(queue, slot);
        } else if self.executor.is_busy() {
            if !is_alone {
                self.executor.leave_prefetched_first(slot);
            }
        } else {
            self.begin(slot, batch);
        }
    }

    /// The call may not run yet, so its message leaves the slot.
    fn move_aside(&mut self, ask: &Ask, settlement: impl FnOnce(Option<Message<'_>>) -> Settlement) {
        if !self.executor.holds(ask.slot, ask.order) {
            return;
        }
        let Some(run) = self.executor.take(ask.slot) else { return };
        let settlement = settlement(Message::decode(&run.message).ok());
        self.queues.settle(ask.queue, ask.slot, settlement);
    }

    /// Removes a cancelled call from the waiting lines of its limits, because it will not claim its turn.
    pub(super) fn leave_lines(&mut self, queue: usize, message: &[u8]) {
        let limits = self.executor.limits_of(queue, message);
        if !limits.is_empty() {
            let entry = format!("{} {}", digest(message), self.queues.name(queue));
            self.permits.leave_lines(limits, &entry);
        }
    }

    /// Puts a message that has not begun back to the head of its queue.
    pub(super) fn put_back(&mut self, queue: usize, slot: usize) {
        self.permits.give_back_unused(slot);
        self.queues.put_back(queue, slot, Place::Head);
    }
}
