//! Settles the message of an ended run: gets the decision, logs and counts it, and passes it to the queue.

use std::time::Duration;

use tracing::Level;
use tracing::field::{debug, display};

use crate::crash;
use crate::excerpt::{LONGEST, excerpt};
use crate::meter::{Fate, Measured, now_ms};
use crate::protocol::call_state::CallState;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::runner::Outcome;
use crate::task::TaskOptions;
use crate::worker::decide::{Decision, RunInfo, decide, message_of};
use crate::worker::event_loop::EventLoop;
use crate::worker::executor::task_table::TaskId;
use crate::worker::executor::{Begun, FinishedRun, Overdue, RunEnd};
use crate::worker::failures::Ended;
use crate::worker::hooks::RunReport;
use crate::worker::observe::EndedRun;
use crate::worker::phase::Phase;
use crate::worker::settlement::{Part, Settlement};
use crate::worker::stats::count;

impl EventLoop {
    /// Settles the message of a run that has ended.
    pub(super) fn settle(&mut self, end: RunEnd) {
        crash::point("run", "heard");
        let task = end.run.task.map(|task| self.executor.task(task));
        let info = RunInfo {
            options: task.map_or(&TaskOptions::DEFAULT, |task| task.options()),
            killed_by: self.kills.by(end.run.slot),
            is_stopping: self.phase() > Phase::Quiet,
            is_draining: self.is_draining,
        };
        let is_isolated = task.is_some_and(|task| task.is_isolated());
        let message = message_of(&end, &info);
        let decision = decide(&end, message.as_ref(), &info, &self.policy);
        let run = &end.run;
        self.permits.give_back(run.slot);
        if let Some(observer) = &self.observer {
            let _ = observer.send(EndedRun::new(self.queues.name(run.queue), run, &decision));
        }
        let Decision { outcome, settlement } = decision;
        if run.span.is_made() {
            end_span(run, &outcome);
        }
        let (slot, queue) = (run.slot, run.queue);
        let is_dead = matches!(settlement, Settlement::Bury { .. });
        self.queues.served(queue).tally.count([outcome.is_success(), has_failed(&outcome), is_dead]);
        if let Some(task) = task.filter(|_| outcome.is_success() || has_failed(&outcome)) {
            task.tally().count_run(outcome.is_success(), run.took);
        }
        if let Some(source) = &self.source {
            source.meter.ended(&measured(run, message.as_ref(), &outcome, &settlement));
        }
        if let Some(deadline) = run.deadline.as_ref().filter(|deadline| deadline.is_overdue()) {
            let message = message.or_else(|| Message::decode(&run.message).ok());
            let (task, call_id) = (message.map(|it| it.task()), message.and_then(|it| it.id()));
            tracing::info!(queue = %self.queues.name(queue), task, call_id = call_id.map(display), %outcome, duration = ?deadline.elapsed(), "overdue run ended");
        }
        let has_run = has_failed(&outcome) || outcome.is_success();
        if is_isolated && has_run && self.queues.has_losses(queue) {
            self.queues.end_losses(queue);
        }
        if !self.hooks.is_empty() {
            let report = RunReport::new(self.queues.name(queue), run, message, &outcome, &settlement);
            self.hooks.call(&report, has_failed(&outcome));
            for burial in settlement.burials_of_items() {
                let report = RunReport::new(self.queues.name(queue), run, message, &outcome, &burial);
                self.hooks.call_for_item(&report);
            }
        }
        if outcome != Outcome::Unknown {
            self.queues.note_known(queue);
        }
        if outcome.is_success() {
            count(&self.counters.succeeded, 1);
            if tracing::enabled!(Level::DEBUG) {
                log_success(self.queues.name(queue), run);
            }
            self.kills.on_success(slot);
        } else if self.is_draining && matches!(settlement, Settlement::PutBack { .. }) {
            // Put back together with the messages that still run, in the order of their claims.
            self.cancelled.push(end.run);
            return;
        } else {
            self.record(run, message.as_ref(), &outcome, &settlement);
        }
        if let Some(finished) = &self.finished {
            finished.note(run, outcome.is_success(), &settlement);
        }
        self.queues.settle(queue, slot, settlement);
    }

    /// Counts a run that has begun, if somebody shows the metrics of this worker.
    pub(super) fn count_begun(&self, slot: usize, begun: &Begun) {
        let Some(source) = &self.source else { return };
        let run = match begun {
            Begun::Ended(end) if end.run.took.is_some() => Some((end.run.queue, end.run.task)),
            Begun::GoesOn => self.executor.task_of(slot),
            Begun::Ended(_) | Begun::Limited(_) => None,
        };
        if let Some((queue, task)) = run {
            source.meter.began(queue, task.map(TaskId::place));
        }
    }

    /// Counts and logs the decision about a message whose run did not succeed.
    fn record(
        &mut self,
        run: &FinishedRun,
        message: Option<&Message<'_>>,
        outcome: &Outcome,
        settlement: &Settlement,
    ) {
        // The path of an unknown task may be long.
        let path = message.map_or("", |message| message.task());
        let long = (path.len() > LONGEST).then(|| excerpt(path));
        let task = long.as_deref().unwrap_or(path);
        let attempt = message.map_or(1, |message| message.attempts().saturating_add(1));
        let id = message.and_then(|message| message.id());
        let (call_id, duration) = (id.map(display), run.took.map(debug));
        let counters = &self.counters;
        if has_failed(outcome) {
            count(&counters.failed, 1);
        }
        let is_snoozed = matches!(outcome, Outcome::Failed(error) if error.is_snooze());
        match settlement {
            Settlement::Finish { state: CallState::Cancelled, .. } => {
                count(&counters.cancelled, 1);
                tracing::info!(queue = %self.queues.name(run.queue), task, call_id, duration, error = %outcome, "call cancelled");
            }
            Settlement::Release { .. } | Settlement::Finish { .. } => {
                tracing::debug!(queue = %self.queues.name(run.queue), task, call_id, "unknown task ignored");
            }
            Settlement::RetryLater { id, delay, .. } if is_snoozed => {
                count(&counters.snoozed, 1);
                tracing::debug!(queue = %self.queues.name(run.queue), task, call_id = %id, duration, ?delay, "task snoozed");
            }
            Settlement::Retry { .. } | Settlement::RetryLater { .. } => {
                count(&counters.retried, 1);
                let queue = self.queues.name(run.queue);
                let ended = Ended { task, call_id: id, duration: run.took, attempt };
                self.failures.retried(queue, ended, settlement.delay(), outcome);
            }
            Settlement::Split { parts, .. } => {
                let are = |is: fn(&Part) -> bool| parts.iter().filter(|part| is(part)).count() as u64;
                let buried = are(|part| matches!(part, Part::Bury { .. }));
                let snoozed = are(|part| matches!(part, Part::RetryLater { is_snoozed: true, .. }));
                count(&counters.buried, buried);
                count(&counters.snoozed, snoozed);
                count(&counters.retried, parts.len() as u64 - buried - snoozed);
                if snoozed == parts.len() as u64 {
                    tracing::debug!(queue = %self.queues.name(run.queue), task, duration, items = snoozed, "items of a batch snoozed");
                    return;
                }
                tracing::warn!(queue = %self.queues.name(run.queue), task, attempt, duration, error = %outcome, "items of a batch failed");
            }
            // The call has not begun.
            Settlement::Park { .. } | Settlement::Defer { .. } => {}
            // Logged once the dead letter is written.
            Settlement::Bury { .. } => count(&counters.buried, 1),
            Settlement::Leave => {
                count(&counters.lost, 1);
                tracing::error!(queue = %self.queues.name(run.queue), task, call_id, duration, error = %outcome, "message left to the sweeper");
            }
            Settlement::PutBack { .. } => {
                count(&counters.put_back, 1);
                if *outcome == Outcome::Unknown {
                    self.queues.note_unknown(run.queue);
                    return;
                }
                let repeated = self.queues.rest_after_loss(run.queue);
                let queue = self.queues.name(run.queue);
                match repeated {
                    Some(repeated) => {
                        tracing::warn!(%queue, task, call_id, error = %outcome, repeated, "call put back; claiming pauses")
                    }
                    None => tracing::debug!(%queue, task, call_id, error = %outcome, "call put back"),
                }
            }
        }
    }

    /// Reports a run that continues past its deadline and cannot be stopped.
    pub(super) fn on_overdue(&mut self, overdue: Overdue) {
        let Overdue { slot, queue, task, call_id, why, elapsed } = overdue;
        count(&self.counters.overdue, 1);
        let (queue, call_id) = (self.queues.name(queue), call_id.map(display));
        let hint = "use `isolation = \"fork\"` to end such runs";
        if self.kills.on_overdue(slot) {
            tracing::warn!(%queue, task, call_id, why, hint, "killed run continues and keeps its slot");
        } else {
            tracing::warn!(%queue, task, call_id, why, duration = ?elapsed, hint, "timed-out run continues and keeps its slot");
        }
    }
}

/// Ends the span of a run.
fn end_span(run: &FinishedRun, outcome: &Outcome) {
    match outcome {
        Outcome::Succeeded(_) | Outcome::Cancelled { .. } => run.span.end(outcome.reason(), None),
        Outcome::Failed(error) if error.is_snooze() => run.span.end("snoozed", None),
        other => run.span.end(other.reason(), Some(excerpt(other))),
    }
}

/// What the metrics say of a run. The message of a plain call, which has no id, is not read for it.
fn measured(
    run: &FinishedRun,
    message: Option<&Message<'_>>,
    outcome: &Outcome,
    settlement: &Settlement,
) -> Measured {
    const OURS: u8 = 0x93;
    let is_snoozed = matches!(outcome, Outcome::Failed(error) if error.is_snooze());
    let fate = match settlement {
        Settlement::Release { .. } | Settlement::Finish { .. } => Fate::Ended,
        Settlement::RetryLater { .. } if is_snoozed => Fate::Snoozed,
        Settlement::Retry { .. } | Settlement::RetryLater { .. } | Settlement::Split { .. } => Fate::Retried,
        Settlement::Bury { .. } => Fate::Buried,
        Settlement::PutBack { .. } | Settlement::Park { .. } | Settlement::Defer { .. } => Fate::PutBack,
        Settlement::Leave => Fate::Lost,
    };
    let has_meta = run.took.is_some() && run.message.first() == Some(&OURS);
    let decoded = message.copied().or_else(|| has_meta.then(|| Message::decode(&run.message).ok()).flatten());
    let made_ms = decoded.as_ref().and_then(|message| message.id()?.made_ms());
    let age = made_ms.map(|made| Duration::from_millis(now_ms().saturating_sub(made)));
    let is_first = decoded.is_some_and(|message| message.attempts() == 0);
    Measured {
        queue: run.queue,
        task: run.task.map(TaskId::place),
        outcome: outcome.reason(),
        fate,
        took: run.took,
        age: age.map(|age| (age, is_first)),
    }
}

/// Logs a success. The caller has checked that this level is enabled.
fn log_success(queue: &QueueName, run: &FinishedRun) {
    let Ok(message) = Message::decode(&run.message) else { return };
    let attempt = message.attempts().saturating_add(1);
    tracing::debug!(%queue, task = message.task(), call_id = message.id().map(display), attempt, duration = run.took.map(debug), "task succeeded");
}

/// Whether there was a run that did not succeed.
fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(error) => !error.is_snooze(),
        Outcome::Panicked { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Killed { .. }
        | Outcome::Exceeded { .. }
        | Outcome::Crashed(_) => true,
        Outcome::Succeeded(_)
        | Outcome::Cancelled { .. }
        | Outcome::Expired { .. }
        | Outcome::Arguments { .. }
        | Outcome::Unknown
        | Outcome::Malformed { .. }
        | Outcome::Lost { .. }
        | Outcome::Orphaned => false,
    }
}
