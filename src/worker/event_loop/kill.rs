//! Kills runs on request. The heartbeat delivers the requests; the answers go to Redis.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::broker::{Broker, KillAnswer, KillRequest, digest};
use crate::runner::Outcome;
use crate::worker::event_loop::EventLoop;
use crate::worker::executor::Killed;

/// An answer to a kill request, on its way to Redis.
#[derive(Debug)]
pub(in crate::worker) struct KillReply {
    wire_id: String,
    digest: String,
    answer: KillAnswer,
}

/// Sends all answers, in order, until the loop is gone. Answers that cannot be sent are dropped; the caller polls instead.
pub(in crate::worker) async fn answer_all(broker: Broker, mut answers: UnboundedReceiver<KillReply>) {
    while let Some(KillReply { wire_id, digest, answer }) = answers.recv().await {
        if let Err(error) = broker.answer(&wire_id, &digest, answer).await {
            tracing::debug!(%wire_id, %answer, %error, "kill request not answered");
        }
    }
}

/// Where kill requests come from, each with the index of its queue, and where the answers go.
pub(in crate::worker) struct KillChannels {
    pub(in crate::worker) requests: UnboundedReceiver<(usize, KillRequest)>,
    pub(in crate::worker) answers: UnboundedSender<KillReply>,
}

/// Kill requests that are not finished.
pub(super) struct Kills {
    channels: KillChannels,
    /// Requests for calls whose claims are not answered yet.
    early: Vec<(usize, KillRequest)>,
    /// By slot: requests for runs that were told to end.
    begun: Vec<(usize, KillRequest)>,
}

impl Kills {
    pub(super) fn new(channels: KillChannels) -> Self {
        Self { channels, early: Vec::new(), begun: Vec::new() }
    }

    /// The next request. Cancel-safe.
    pub(super) async fn requested(&mut self) -> Option<(usize, KillRequest)> {
        self.channels.requests.recv().await
    }

    fn answer(&self, kill: KillRequest, answer: KillAnswer) {
        // The receiver is gone only when the worker is.
        let _ = self.channels.answers.send(KillReply { wire_id: kill.wire_id, digest: kill.digest, answer });
    }

    /// Takes the request that ended the run of a slot.
    fn finish(&mut self, slot: usize) -> Option<KillRequest> {
        let place = self.begun.iter().position(|(begun, _)| *begun == slot)?;
        Some(self.begun.swap_remove(place).1)
    }

    /// Who asked to kill the run of a slot, if anyone did.
    pub(super) fn by(&self, slot: usize) -> Option<&str> {
        self.begun.iter().find(|(begun, _)| *begun == slot).map(|(_, kill)| kill.by.as_str())
    }

    /// Handles a run that succeeded although it was told to end.
    pub(super) fn on_success(&mut self, slot: usize) {
        if let Some(kill) = self.finish(slot) {
            self.answer(kill, KillAnswer::Succeeded);
        }
    }

    /// Handles a run that continues past its deadline and cannot be stopped. Returns whether it was to be killed.
    pub(super) fn on_overdue(&self, slot: usize) -> bool {
        let kill = self.begun.iter().find(|(begun, _)| *begun == slot);
        if let Some((_, kill)) = kill {
            self.answer(kill.clone(), KillAnswer::Blocks);
        }
        kill.is_some()
    }

    /// Handles a slot whose message is settled, was taken away, or was put back and will run again.
    pub(super) fn on_settled(&mut self, slot: usize, is_done: bool) {
        if let Some(kill) = self.finish(slot) {
            self.answer(kill, if is_done { KillAnswer::Killed } else { KillAnswer::Lost });
        }
    }
}

impl EventLoop {
    /// Handles a kill request.
    pub(super) fn on_kill(&mut self, queue: usize, kill: KillRequest) {
        let Some(slot) = self.queues.served(queue).slot_of(&kill.wire_id) else { return };
        let claimed_by = self.queues.claimed_by(queue, slot);
        let is_meant = self.executor.held(slot).is_some_and(|(of, message)| {
            of == queue && claimed_by <= kill.seq && digest(message) == kill.digest
        });
        if !is_meant {
            if self.queues.may_still_apply(queue, kill.seq) {
                // Its message may be in a claim reply that has not been read.
                self.kills.early.push((queue, kill));
            } else {
                self.kills.answer(kill, KillAnswer::Over);
            }
            return;
        }
        tracing::warn!(queue = %self.queues.name(queue), wire_id = kill.wire_id, by = kill.by, "kill requested");
        self.kills.finish(slot); // An earlier one about the same run.
        self.kills.begun.push((slot, kill.clone()));
        match self.executor.kill(slot, &kill.by) {
            Killed::Ends(within) => self.kills.answer(kill, KillAnswer::Ends(within)),
            Killed::NotBegun => self.end_killed(slot, kill.by),
        }
    }

    /// Checks again the requests that arrived before their messages.
    pub(super) fn on_early_kills(&mut self) {
        for (queue, kill) in std::mem::take(&mut self.kills.early) {
            self.on_kill(queue, kill);
        }
    }

    /// Settles runs as killed that were told to end and have not, because they end with the process. Returns how many of
    /// them cannot be stopped.
    pub(super) fn give_up_killed(&mut self) -> usize {
        let before = self.executor.stuck();
        let slots: Vec<usize> = self.kills.begun.iter().map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.end_killed(slot, String::new()));
        before - self.executor.stuck()
    }

    fn end_killed(&mut self, slot: usize, by: String) {
        if let Some(end) = self.executor.end_as(slot, Outcome::Killed { by }) {
            self.settle(end);
        }
    }
}
