//! Decides what happens to a message after its run. Pure: all inputs are parameters.

mod split;

use std::time::{Duration, SystemTime};

use crate::broker::{Place, cancelled_by};
use crate::config::{Backoff, Unknown, WorkerConfig};
use crate::excerpt::shortened;
use crate::otel::RunSpan;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::flow;
use crate::protocol::message::{FailedAttempt, Message, Next};
use crate::protocol::meta::since_1970;
use crate::protocol::tracking::Tracking;
use crate::runner::{Outcome, ProcessStats};
use crate::task::return_value::Kept;
use crate::task::{RetryWhen, TaskOptions};
use crate::worker::executor::{FinishedRun, RunEnd};
use crate::worker::settlement::{BuriedCall, Part, Settlement};

/// The worker's settings, and the sources of time and randomness.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) unknown: Unknown,
    /// For calls of which neither the call nor its task says anything.
    pub(super) limits: RetryLimits,
    /// For calls and tasks without their own.
    pub(super) backoff: Backoff,
    /// Milliseconds since 1970.
    pub(super) now_ms: fn() -> u64,
    pub(super) new_id: fn() -> CallId,
}

impl Policy {
    /// What these settings say; with the clock of the host, and random ids.
    pub(super) fn of(config: &WorkerConfig) -> Self {
        Self {
            unknown: config.unknown,
            limits: RetryLimits { count: config.retry, time: config.retry_for },
            backoff: config.backoff,
            now_ms: || since_1970(SystemTime::now()),
            new_id: CallId::new,
        }
    }
}

/// How often, and for how long after its first failed attempt, a call is retried: as far as the call, its task or the
/// worker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RetryLimits {
    /// Negative: without limit.
    pub(super) count: Option<i64>,
    pub(super) time: Option<Duration>,
}

impl RetryLimits {
    /// Those of a call: what it says comes before what its task says, and the worker's hold if neither says anything.
    fn of(message: &Message<'_>, options: &TaskOptions, worker: Self) -> Self {
        let time = message.retry_for_ms().map(Duration::from_millis);
        let call = Self { count: message.retry(), time }.completed();
        let task = Self { count: options.retry, time: options.retry_for }.completed();
        let own = Self { count: call.count.or(task.count), time: call.time.or(task.time) };
        if own == Self::default() { worker.completed() } else { own }
    }

    /// A time alone allows any number of retries.
    fn completed(self) -> Self {
        Self { count: self.count.or(self.time.map(|_| -1)), ..self }
    }
}

/// The inputs of a decision other than the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunInfo<'a> {
    /// The options of the task, if it is known.
    pub(super) options: &'a TaskOptions,
    /// Who asked to kill the run, if anyone did.
    pub(super) killed_by: Option<&'a str>,
    /// Whether the worker was told to stop; its processes may have been told, too.
    pub(super) is_stopping: bool,
    /// Whether the worker has cancelled its runs to put their messages back.
    pub(super) is_draining: bool,
}

/// The decision about a message.
#[derive(Debug)]
pub(super) struct Decision {
    /// The final outcome of its run.
    pub(super) outcome: Outcome,
    pub(super) settlement: Settlement,
}

/// Decodes the message of a run once, for the decision, the log and the counters. `None` if the message is malformed, or if
/// a plain call succeeded: that one is released by its slot alone.
pub(super) fn message_of<'a>(end: &'a RunEnd, info: &RunInfo<'_>) -> Option<Message<'a>> {
    let is_success = matches!(end.outcome, Some(Outcome::Succeeded(_)));
    let is_plain = end.run.tracking.is_none() && info.killed_by.is_none();
    if is_success && is_plain { None } else { Message::decode(&end.run.message).ok() }
}

/// Decides about the message of a run that has ended. `message` is what [`message_of`] returned for it.
pub(super) fn decide(
    end: &RunEnd,
    message: Option<&Message<'_>>,
    info: &RunInfo<'_>,
    policy: &Policy,
) -> Decision {
    let RunEnd { run, outcome, stats } = end;
    let stats = stats.as_deref();
    let outcome = judge(run, outcome.as_ref(), stats, info);
    let settlement = match &outcome {
        Outcome::Succeeded(value) => match &run.tracking {
            // A flow has only begun: its last step ends it.
            Some(_) if message.is_some_and(|message| message.task() == flow::TASK) => release(run, None),
            Some(tracking) => {
                finish(run, message, tracking, CallState::Succeeded, value.kept().map(Kept::field))
            }
            None => release(run, message.filter(|_| info.killed_by.and_then(cancelled_by).is_some())),
        },
        // The run noticed that it was cancelled. The attempt is not counted.
        Outcome::Failed(error) if info.is_draining && error.items().is_none() => PUT_BACK_FIRST,
        Outcome::Lost { .. } if info.is_draining => PUT_BACK_FIRST,
        other => settle(run, message, other, stats, info.options, policy),
    };
    let settlement = if run.span.is_made() { linked(settlement, &run.span) } else { settlement };
    Decision { outcome, settlement }
}

/// Adds the span of this run to messages that run again, so that the spans of their next runs link to it.
fn linked(settlement: Settlement, span: &RunSpan) -> Settlement {
    let linked = |message: Vec<u8>| span.linked(&message).unwrap_or(message);
    match settlement {
        Settlement::Retry { message } => Settlement::Retry { message: linked(message) },
        Settlement::RetryLater { message, id, delay } => {
            Settlement::RetryLater { message: linked(message), id, delay }
        }
        Settlement::Split { parts, call } => {
            let part = |part| match part {
                Part::Retry { message } => Part::Retry { message: linked(message) },
                Part::RetryLater { message, id, delay, is_snoozed } => {
                    Part::RetryLater { message: linked(message), id, delay, is_snoozed }
                }
                buried => buried,
            };
            Settlement::Split { parts: parts.into_iter().map(part).collect(), call }
        }
        other => other,
    }
}

/// Releases a call that is not tracked. If it was cancelled too late, its mark is removed: `marked` is its message.
fn release(run: &FinishedRun, marked: Option<&Message<'_>>) -> Settlement {
    match marked.and_then(|message| message.id()) {
        Some(id) => {
            let tracking = Tracking { id, keep_ms: None, lock: None };
            finish(run, marked, &tracking, CallState::Succeeded, None)
        }
        None => Settlement::Release { clears_suspect: run.is_suspect },
    }
}

/// Puts it back to the head of its queue, to run again soon.
const PUT_BACK_FIRST: Settlement = Settlement::PutBack { place: Place::Head };

/// The outcome of a run, considering whether it was told to end.
fn judge(
    run: &FinishedRun,
    outcome: Option<&Outcome>,
    stats: Option<&ProcessStats>,
    info: &RunInfo<'_>,
) -> Outcome {
    let deadline_passed = run.deadline.as_ref().filter(|deadline| deadline.is_up());
    let outcome = match (outcome, deadline_passed) {
        // It failed because it was asked to end.
        (Some(Outcome::Failed(error)), Some(deadline))
            if error.is_retryable() && !error.is_snooze() && error.items().is_none() && run.listens =>
        {
            deadline.timed_out()
        }
        (Some(outcome), _) => outcome.clone(),
        (None, Some(deadline)) => deadline.timed_out(),
        (None, None) => Outcome::Lost { problem: "its run was dropped".into() },
    };
    let outcome = match info.killed_by {
        // A batch that returned has ended by itself.
        Some(by) if !outcome.is_success() && !has_items(&outcome) => Outcome::Killed { by: by.to_owned() },
        _ => outcome,
    };
    let outcome = match &outcome {
        Outcome::Killed { by } => match cancelled_by(by) {
            Some(by) => Outcome::Cancelled { by: by.to_owned() },
            None => outcome,
        },
        _ => outcome,
    };
    if info.is_stopping { outcome.while_stopping(stats) } else { outcome }
}

/// Whether only some items of a batch failed.
fn has_items(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(error) if error.items().is_some())
}

/// Decides about an outcome other than success.
fn settle(
    run: &FinishedRun,
    message: Option<&Message<'_>>,
    outcome: &Outcome,
    stats: Option<&ProcessStats>,
    options: &TaskOptions,
    policy: &Policy,
) -> Settlement {
    let attempt = message.map_or(1, |message| message.attempts().saturating_add(1));
    // The path of an unknown task may be long.
    let buried_call = || BuriedCall {
        task: shortened(message.map_or("", |message| message.task()).to_owned()),
        id: message.and_then(|message| message.id()),
        is_step: message.is_some_and(|message| message.member().is_some()),
        duration: run.took,
    };
    if let (Outcome::Failed(error), Some(message)) = (outcome, message)
        && let Some(failed) = error.items()
        && let Some(split) = split::split(message, failed, buried_call(), options, policy)
    {
        return split;
    }
    let bury = |reason, detail| {
        let output = stats.map_or_else(String::new, |stats| stats.output.clone());
        let usage = stats.and_then(|stats| stats.usage);
        let detail = shortened(detail);
        let detail = usage.map_or_else(|| detail.clone(), |usage| format!("{detail} ({usage})"));
        Settlement::Bury { reason, detail, attempt, output, call: buried_call() }
    };
    let retry = |delay| message.and_then(|message| retry(message, outcome, options, policy, delay));
    match outcome {
        Outcome::Succeeded(_) => Settlement::Release { clears_suspect: run.is_suspect },
        Outcome::Cancelled { by } => cancel(run, message, by),
        Outcome::Failed(error) => match (error.again(), message) {
            (RetryWhen::Never, _) | (_, None) => bury("failed", error.to_string()),
            (RetryWhen::Snoozed(delay), Some(message)) => snooze(message, delay, policy),
            (RetryWhen::After(delay), _) => {
                retry(Some(delay)).unwrap_or_else(|| bury("failed", error.to_string()))
            }
            (RetryWhen::AfterBackoff, _) => retry(None).unwrap_or_else(|| bury("failed", error.to_string())),
        },
        Outcome::Panicked { message } => retry(None).unwrap_or_else(|| bury("panicked", message.clone())),
        Outcome::TimedOut { .. } => retry(None).unwrap_or_else(|| bury("timed_out", outcome.to_string())),
        Outcome::Exceeded { .. } => retry(None).unwrap_or_else(|| bury("exceeded", outcome.to_string())),
        Outcome::Crashed(_) => retry(None).unwrap_or_else(|| bury("crashed", outcome.to_string())),
        Outcome::Expired { .. } => bury("expired", outcome.to_string()),
        Outcome::Killed { .. } => bury("killed", outcome.to_string()),
        Outcome::Orphaned => Settlement::Leave,
        Outcome::Lost { .. } => PUT_BACK_FIRST,
        Outcome::Arguments { problem } => {
            bury("arguments", format!("`{}`: {problem}", message.map_or("", |message| message.task())))
        }
        Outcome::Malformed { problem } => bury("malformed", problem.clone()),
        Outcome::Unknown => match policy.unknown {
            Unknown::Bury => bury(
                "unknown",
                format!(
                    "no task `{}` is registered in this worker: link its crate, or use --unknown requeue",
                    message.map_or("", |message| message.task())
                ),
            ),
            Unknown::Requeue => Settlement::PutBack { place: Place::Tail },
            Unknown::Ignore => match message.and_then(|message| message.tracking()) {
                Some(tracking) => {
                    finish(run, message, &tracking, CallState::Dead, Some(("reason", b"unknown".to_vec())))
                }
                None => Settlement::Release { clears_suspect: run.is_suspect },
            },
        },
    }
}

/// Finishes the message and records how its call ended.
fn finish(
    run: &FinishedRun,
    message: Option<&Message<'_>>,
    tracking: &Tracking,
    state: CallState,
    field: Option<(&'static str, Vec<u8>)>,
) -> Settlement {
    let attempt = message.map_or(1, |message| message.attempts().saturating_add(1));
    let took = run.took.unwrap_or_default();
    let member = message.and_then(|message| message.member()).map(Box::from);
    Settlement::Finish { tracking: *tracking, member, state, took, attempt, field }
}

/// Finishes a cancelled call, with or without a record, and removes its mark.
fn cancel(run: &FinishedRun, message: Option<&Message<'_>>, by: &str) -> Settlement {
    let plain = || message?.id().map(|id| Tracking { id, keep_ms: None, lock: None });
    let field = (!by.is_empty()).then(|| ("by", by.as_bytes().to_vec()));
    match message.and_then(|message| message.tracking()).or_else(plain) {
        Some(tracking) => finish(run, message, &tracking, CallState::Cancelled, field),
        None => Settlement::Release { clears_suspect: run.is_suspect },
    }
}

/// Retries the message, if attempts are left: after `delay`, or after the backoff of the call, else of its task, else of
/// the worker.
fn retry(
    message: &Message<'_>,
    outcome: &Outcome,
    options: &TaskOptions,
    policy: &Policy,
    delay: Option<Duration>,
) -> Option<Settlement> {
    let limits = RetryLimits::of(message, options, policy.limits);
    let limit = limits.count.unwrap_or(0);
    if limit >= 0 && i64::from(message.attempts()) >= limit {
        return None;
    }
    let backoff = message.backoff().or(options.backoff).unwrap_or(policy.backoff);
    let after = delay.unwrap_or_else(|| backoff.delay(message.attempts().saturating_add(1)));
    let now_ms = (policy.now_ms)();
    let has_time = limits.time.is_none_or(|time| {
        let passed = now_ms.saturating_sub(message.first_failed_ms().unwrap_or(now_ms));
        Duration::from_millis(passed).saturating_add(after) <= time
    });
    if !has_time {
        return None;
    }
    let error = FailedAttempt::new(now_ms, outcome.reason(), outcome.detail());
    let next = Next {
        counts: true,
        error: Some(&error),
        first_failed_ms: limits.time.map(|_| now_ms),
        ..Next::default()
    };
    if after.is_zero() {
        return Some(Settlement::Retry { message: message.next(next) });
    }
    let id = message.id().unwrap_or_else(policy.new_id);
    // Jitter keeps calls that failed together from returning together. A delay that the task chose is kept.
    let delay = if delay.is_none() { Backoff::jittered(after, id.random()) } else { after };
    Some(Settlement::RetryLater { message: message.next(Next { id: Some(id), ..next }), id, delay })
}

/// Runs the message again after `delay`, without counting this attempt.
fn snooze(message: &Message<'_>, delay: Duration, policy: &Policy) -> Settlement {
    let id = message.id().unwrap_or_else(policy.new_id);
    let message = message.next(Next { id: Some(id), ..Next::default() });
    Settlement::RetryLater { message, id, delay }
}

#[cfg(test)]
mod tests;
