//! Kills runs on request. The heartbeat brings the requests, and the answers go to Redis.

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

/// Where kill requests come from, each with the index of its queue, and where their answers go.
pub(in crate::worker) struct KillChannels {
    pub(in crate::worker) requests: UnboundedReceiver<(usize, KillRequest)>,
    pub(in crate::worker) answers: UnboundedSender<KillReply>,
}

/// Kill requests that are not finished.
pub(super) struct Kills {
    channels: KillChannels,
    /// For calls whose claims are not answered yet.
    early: Vec<(usize, KillRequest)>,
    /// By slot, of runs that were told to end.
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
        // The receiver is gone only with the worker.
        let _ = self.channels.answers.send(KillReply { wire_id: kill.wire_id, digest: kill.digest, answer });
    }

    /// Takes the request by which a slot's run was told to end.
    fn finish(&mut self, slot: usize) -> Option<KillRequest> {
        let place = self.begun.iter().position(|(begun, _)| *begun == slot)?;
        Some(self.begun.swap_remove(place).1)
    }

    /// Who asked for a slot's run to be killed, if somebody did.
    pub(super) fn by(&self, slot: usize) -> Option<&str> {
        self.begun.iter().find(|(begun, _)| *begun == slot).map(|(_, kill)| kill.by.as_str())
    }

    /// A run succeeded although it was told to end.
    pub(super) fn on_success(&mut self, slot: usize) {
        if let Some(kill) = self.finish(slot) {
            self.answer(kill, KillAnswer::Succeeded);
        }
    }

    /// A run goes on although its deadline has passed, and nothing can be done about it. Whether it was to be killed.
    pub(super) fn on_overdue(&self, slot: usize) -> bool {
        let kill = self.begun.iter().find(|(begun, _)| *begun == slot);
        if let Some((_, kill)) = kill {
            self.answer(kill.clone(), KillAnswer::Blocks);
        }
        kill.is_some()
    }

    /// The message of a slot is settled; or it was taken away from us or put back before, and runs again.
    pub(super) fn on_settled(&mut self, slot: usize, is_done: bool) {
        if let Some(kill) = self.finish(slot) {
            self.answer(kill, if is_done { KillAnswer::Killed } else { KillAnswer::Lost });
        }
    }
}

impl EventLoop {
    /// A run is to be killed.
    pub(super) fn on_kill(&mut self, queue: usize, kill: KillRequest) {
        let Some(slot) = self.queues.served(queue).slot_of(&kill.wire_id) else { return };
        let claimed_by = self.queues.claimed_by(queue, slot);
        let is_meant = self.executor.held(slot).is_some_and(|(of, message)| {
            of == queue && claimed_by <= kill.seq && digest(message) == kill.digest
        });
        if !is_meant {
            if self.queues.may_still_apply(queue, kill.seq) {
                // It may be the message of a claim whose reply has not been read.
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

    /// Looks once more at requests that were ahead of what was known here.
    pub(super) fn on_early_kills(&mut self) {
        for (queue, kill) in std::mem::take(&mut self.kills.early) {
            self.on_kill(queue, kill);
        }
    }

    /// The end: runs that were told to end and have not are settled as killed all the same, since they end with the process.
    /// Gives how many of them nothing can stop.
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
