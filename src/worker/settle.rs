//! What becomes of a message whose run has ended? What the verdict says, until Redis has answered.

use std::time::Instant;

use crate::broker::Place;
use crate::crash;
use crate::isolation::Isolation;
use crate::protocol::message::Message;
use crate::runner::{Done, Outcome, Traces};
use crate::task::TaskOptions;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::request::{Request, RequestKind};
use crate::worker::shutdown::Phase;
use crate::worker::slots::{Running, Settlement, Stop};
use crate::worker::stats::count;
use crate::worker::verdict::{Verdict, decide};

impl ClaimLoop {
    /// A run has ended, or was dropped.
    pub(super) fn on_end(&mut self, done: Done) {
        let Done { slot, outcome, traces } = done;
        let timed_out = || {
            // Without a clock it was dropped since the worker ends: it is put back.
            let clock = self.slots.running_in(slot)?.clock?;
            clock.is_up().then(|| clock.timed_out())
        };
        if let Some(outcome) = outcome.or_else(timed_out) {
            self.on_done(slot, outcome, traces);
        }
    }

    /// A run has ended with this outcome: decides, and queues what is to be done.
    pub(super) fn on_done(&mut self, slot: usize, outcome: Outcome, traces: Option<Box<Traces>>) {
        let Some(running) = self.slots.running_in(slot) else { return };
        crash::point("run", "heard");
        let outcome = self.orders.outcome_of(slot, running.judged(outcome));
        let outcome =
            if self.phase() > Phase::Quiet { outcome.while_stopping(traces.as_deref()) } else { outcome };
        if self.closing && matches!(outcome, Outcome::Failed(_) | Outcome::Lost { .. }) {
            // It heard that it was cancelled: it is put back, and no attempt is counted.
            self.slots.stop_by(slot, Stop::NotNeeded);
            return;
        }
        let Some(running) = self.slots.end(slot) else { return };
        if let Some(began) = running.began {
            let now = Instant::now();
            self.outlook.learn(now - began, now, !self.backlog.is_empty());
        }
        if let Some(clock) = running.clock
            && clock.is_overdue()
        {
            tracing::info!(queue = %self.lanes[running.lane].lane.queue, %outcome, after = ?clock.elapsed(), "a run has ended that could not be stopped");
        }
        self.forget_losses(&running, &outcome);
        let lane = &mut self.lanes[running.lane];
        if outcome != Outcome::Unknown {
            lane.on_known();
        }
        if outcome == Outcome::Succeeded {
            count(&self.counters.succeeded, 1);
            lane.finished.push((slot, running.suspect));
            return;
        }
        let message = Message::decode(&running.message).ok();
        let options = message
            .and_then(|message| self.known.get(message.task()))
            .map_or(TaskOptions::DEFAULT, |known| known.task.options);
        let verdict = decide(&outcome, message.as_ref(), options, self.unknown);
        let task = message.map_or("", |message| message.task());
        if has_failed(&outcome) {
            count(&self.counters.failed, 1);
        }
        match verdict {
            Verdict::Release => {
                tracing::debug!(queue = %lane.lane.queue, task, "unknown task ignored");
                lane.finished.push((slot, running.suspect));
            }
            Verdict::Retry(bytes) => {
                count(&self.counters.retried, 1);
                tracing::warn!(queue = %lane.lane.queue, task, %outcome, "it is tried again");
                lane.settle_later(slot, Settlement::Retry(bytes));
            }
            Verdict::Bury { reason, mut detail, attempt } => {
                let Traces { usage, output, .. } = traces.map_or_else(Traces::default, |traces| *traces);
                if let Some(usage) = usage {
                    detail = format!("{detail} ({usage})");
                }
                count(&self.counters.buried, 1);
                tracing::error!(queue = %lane.lane.queue, task, reason, detail, attempt, "sent to the dead letters");
                self.bury(running.lane, slot, Settlement::Bury { reason, detail, attempt, output });
            }
            Verdict::Leave => {
                count(&self.counters.lost, 1);
                tracing::error!(queue = %lane.lane.queue, task, %outcome, "a sweeper brings it back, and counts it as a death");
            }
            Verdict::PutBack => {
                count(&self.counters.put_back, 1);
                lane.foreign += 1;
                lane.put_back_later(slot, Place::Tail);
            }
            Verdict::PutBackFirst => {
                count(&self.counters.put_back, 1);
                // From now on, or it would be claimed again as soon as it is there. One pause for all that are lost at once, and
                // one word of it.
                if let Some(pause) = lane.losses.fail_once() {
                    tracing::warn!(queue = %lane.lane.queue, task, %outcome, ?pause, "it is put back, and nothing is claimed for a while");
                } else {
                    tracing::debug!(queue = %lane.lane.queue, task, %outcome, "it is put back");
                }
                lane.put_back_later(slot, Place::Head);
            }
        }
    }

    /// A verdict was carried out, or came too late.
    pub(super) fn on_settled(&mut self, request: &Request, owned: bool) {
        let RequestKind::Settle { slot, settlement } = &request.kind else { return };
        self.free(request.lane, *slot);
        self.orders.on_settled(*slot, owned);
        if !owned {
            self.on_lost(request.lane, 1);
            return;
        }
        match settlement {
            // It may be the only one in the queue, and a round that was foreign till now has one of ours again.
            Settlement::Retry(_) => {
                self.lanes[request.lane].on_known();
                self.wake(request.lane);
            }
            Settlement::Bury { .. } => self.on_buried(request.lane),
        }
    }

    /// Messages were put back, as far as they were still ours: so many of them.
    pub(super) fn on_put_back(&mut self, request: Request, count: u64) {
        let RequestKind::PutBack { slots, place } = request.kind else { return };
        let lost = (slots.len() as u64).saturating_sub(count);
        for slot in slots {
            self.free(request.lane, slot);
            self.orders.on_settled(slot, false);
        }
        if count > 0 {
            let lane = &mut self.lanes[request.lane];
            match place {
                // As after a retry.
                Place::Head => lane.on_known(),
                Place::Tail => lane.on_foreign(),
            }
            self.wake(request.lane);
        }
        self.on_lost(request.lane, lost);
    }

    /// So many messages were taken away from us before their ends were in Redis.
    pub(super) fn on_lost(&self, index: usize, lost: u64) {
        if lost > 0 {
            count(&self.counters.lost, lost);
            tracing::warn!(queue = %self.lanes[index].lane.queue, lost, "messages were taken away from us before they were settled: the lease had ended, they run again elsewhere");
        }
    }

    /// Ends the pauses of a lane whose calls got no processes, when one has got one again.
    fn forget_losses(&mut self, running: &Running, outcome: &Outcome) {
        let losses = &mut self.lanes[running.lane].losses;
        if losses.is_failing() && (has_failed(outcome) || *outcome == Outcome::Succeeded) {
            let known =
                Message::decode(&running.message).ok().and_then(|message| self.known.get(message.task()));
            if known.is_some_and(|known| known.isolation != Isolation::Inline) {
                losses.succeed();
            }
        }
    }
}

/// Whether there was a run, and it came to no good end.
fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_)
        | Outcome::Panicked { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Killed { .. }
        | Outcome::Exceeded { .. }
        | Outcome::Crashed(_) => true,
        Outcome::Succeeded
        | Outcome::Expired { .. }
        | Outcome::Arguments { .. }
        | Outcome::Unknown
        | Outcome::Malformed { .. }
        | Outcome::Lost { .. }
        | Outcome::Orphaned => false,
    }
}
