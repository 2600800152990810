//! Decides what happens to a message after its run. Pure: everything that it depends on is passed to it.

use std::time::Duration;

use crate::broker::Place;
use crate::config::{Backoff, Unknown};
use crate::excerpt::shortened;
use crate::protocol::call_id::CallId;
use crate::protocol::message::{FailedAttempt, Message, Next};
use crate::runner::{Outcome, Traces};
use crate::task::{Again, TaskOptions};
use crate::worker::executor::{FinishedRun, RunEnd};
use crate::worker::settlement::{BuriedCall, Settlement};

/// The worker's settings, and where time and chance come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) unknown: Unknown,
    /// For calls and tasks that have none of their own.
    pub(super) backoff: Backoff,
    /// Milliseconds since 1970.
    pub(super) now_ms: fn() -> u64,
    pub(super) new_id: fn() -> CallId,
}

/// What a decision depends on beside the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunInfo<'a> {
    /// The task's own, if it is known.
    pub(super) options: &'a TaskOptions,
    /// Who asked for the run to be killed, if somebody did.
    pub(super) killed_by: Option<&'a str>,
    /// Whether the worker was told to stop: its processes may have been too.
    pub(super) is_stopping: bool,
    /// Whether the worker has cancelled its runs, to put their messages back.
    pub(super) is_draining: bool,
}

/// What was decided about a message.
#[derive(Debug)]
pub(super) struct Decision {
    /// How its run ended, in the end.
    pub(super) outcome: Outcome,
    pub(super) settlement: Settlement,
}

/// Decides about the message of a run that has ended.
pub(super) fn decide(end: &RunEnd, info: &RunInfo<'_>, policy: &Policy) -> Decision {
    let RunEnd { run, outcome, traces } = end;
    let traces = traces.as_deref();
    let outcome = judge(run, outcome.as_ref(), traces, info);
    let settlement = match &outcome {
        Outcome::Succeeded => Settlement::Release { clears_suspect: run.is_suspect },
        // It heard that it was cancelled, and no attempt is counted.
        Outcome::Failed(_) | Outcome::Lost { .. } if info.is_draining => PUT_BACK_FIRST,
        other => settle(run, other, traces, info.options, policy),
    };
    Decision { outcome, settlement }
}

/// To the head of its queue, to be tried again soon.
const PUT_BACK_FIRST: Settlement = Settlement::PutBack { place: Place::Head };

/// How a run ended, in view of what was done to it.
fn judge(
    run: &FinishedRun,
    outcome: Option<&Outcome>,
    traces: Option<&Traces>,
    info: &RunInfo<'_>,
) -> Outcome {
    let deadline_passed = run.deadline.as_ref().filter(|deadline| deadline.is_up());
    let outcome = match (outcome, deadline_passed) {
        // It failed because it was asked to end.
        (Some(Outcome::Failed(error)), Some(deadline))
            if error.is_retryable() && !error.is_snooze() && run.listens =>
        {
            deadline.timed_out()
        }
        (Some(outcome), _) => outcome.clone(),
        (None, Some(deadline)) => deadline.timed_out(),
        (None, None) => Outcome::Lost { problem: "its run was dropped".into() },
    };
    let outcome = match info.killed_by {
        Some(by) if outcome != Outcome::Succeeded => Outcome::Killed { by: by.to_owned() },
        _ => outcome,
    };
    if info.is_stopping { outcome.while_stopping(traces) } else { outcome }
}

/// What is done about an outcome other than success.
fn settle(
    run: &FinishedRun,
    outcome: &Outcome,
    traces: Option<&Traces>,
    options: &TaskOptions,
    policy: &Policy,
) -> Settlement {
    let message = Message::decode(&run.message).ok();
    let attempt = message.map_or(1, |message| message.attempts().saturating_add(1));
    let bury = |reason, detail| {
        let output = traces.map_or_else(String::new, |traces| traces.output.clone());
        let usage = traces.and_then(|traces| traces.usage);
        // The path of an unknown task may be long.
        let detail = shortened(detail);
        let detail = usage.map_or_else(|| detail.clone(), |usage| format!("{detail} ({usage})"));
        // The path of an unknown task may be long.
        let task = shortened(message.map_or("", |message| message.task()).to_owned());
        let call = BuriedCall { task, id: message.and_then(|message| message.id()), duration: run.took };
        Settlement::Bury { reason, detail, attempt, output, call }
    };
    let retry = |delay| message.and_then(|message| retry(&message, outcome, options, policy, delay));
    match outcome {
        Outcome::Succeeded => Settlement::Release { clears_suspect: run.is_suspect },
        Outcome::Failed(error) => match (error.again(), message) {
            (Again::Never, _) | (_, None) => bury("failed", error.to_string()),
            (Again::Snoozed(delay), Some(message)) => snooze(&message, delay, policy),
            (Again::After(delay), _) => {
                retry(Some(delay)).unwrap_or_else(|| bury("failed", error.to_string()))
            }
            (Again::AfterBackoff, _) => retry(None).unwrap_or_else(|| bury("failed", error.to_string())),
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
            Unknown::Ignore => Settlement::Release { clears_suspect: run.is_suspect },
        },
    }
}

/// Another attempt, if there may be one: after `delay`, or after the back-off of the call, else its task's, else the
/// worker's.
fn retry(
    message: &Message<'_>,
    outcome: &Outcome,
    options: &TaskOptions,
    policy: &Policy,
    delay: Option<Duration>,
) -> Option<Settlement> {
    let limit = message.retry().unwrap_or(options.retry);
    if limit >= 0 && i64::from(message.attempts()) >= limit {
        return None;
    }
    let backoff = message.backoff().or(options.backoff).unwrap_or(policy.backoff);
    let after = delay.unwrap_or_else(|| backoff.delay(message.attempts().saturating_add(1)));
    let now_ms = (policy.now_ms)();
    let has_time = options.retry_for.is_none_or(|time| {
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
        first_failed_ms: options.retry_for.map(|_| now_ms),
        ..Next::default()
    };
    if after.is_zero() {
        return Some(Settlement::Retry { message: message.next(next) });
    }
    let id = message.id().unwrap_or_else(policy.new_id);
    // Calls which failed together should not come back together; a time that the task named is kept.
    let delay = if delay.is_none() { Backoff::jittered(after, id.random()) } else { after };
    Some(Settlement::RetryLater { message: message.next(Next { id: Some(id), ..next }), id, delay })
}

/// It runs again after that time, and this attempt does not count.
fn snooze(message: &Message<'_>, delay: Duration, policy: &Policy) -> Settlement {
    let id = message.id().unwrap_or_else(policy.new_id);
    let message = message.next(Next { id: Some(id), ..Next::default() });
    Settlement::RetryLater { message, id, delay }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::protocol::encode::{Meta, native};
    use crate::protocol::message::{FailedAttempt, Next};
    use crate::runner::{Exit, Resource, TimeLimit};
    use crate::task::TaskError;
    use crate::worker::executor::RunDeadline;

    /// In milliseconds since 1970.
    const NOW: u64 = 1_800_000_000_000;

    /// The id of calls that had none.
    fn id() -> CallId {
        "0190b5d2-7a3c-7e11-8f00-5c0ffee00001".parse().unwrap()
    }

    fn policy(unknown: Unknown, backoff: Backoff) -> Policy {
        Policy { unknown, backoff, now_ms: || NOW, new_id: id }
    }

    const INFO: RunInfo<'static> =
        RunInfo { options: &TaskOptions::DEFAULT, killed_by: None, is_stopping: false, is_draining: false };

    /// A run that has just ended; `deadline` is its own.
    fn end(outcome: Option<Outcome>, message: Vec<u8>, deadline: Option<RunDeadline>) -> RunEnd {
        let run = FinishedRun {
            slot: 0,
            queue: 0,
            message: message.into(),
            task: None,
            is_suspect: false,
            order: 1,
            took: None,
            deadline,
            listens: true,
        };
        RunEnd { run, outcome, traces: None }
    }

    /// A settlement without the bytes of its message, and without what the log says of it.
    fn bare(settlement: Settlement) -> Settlement {
        match settlement {
            Settlement::Retry { .. } => Settlement::Retry { message: Vec::new() },
            Settlement::RetryLater { id, delay, .. } => {
                Settlement::RetryLater { message: Vec::new(), id, delay }
            }
            Settlement::Bury { reason, detail, attempt, output, .. } => {
                Settlement::Bury { reason, detail, attempt, output, call: BuriedCall::default() }
            }
            other => other,
        }
    }

    fn decided(outcome: &Outcome, message: Vec<u8>, options: TaskOptions, policy: &Policy) -> Settlement {
        let end = end(Some(outcome.clone()), message, None);
        bare(decide(&end, &RunInfo { options: &options, ..INFO }, policy).settlement)
    }

    fn verdict(outcome: &Outcome, meta: Meta, retry: i64) -> Settlement {
        let options = TaskOptions::DEFAULT.with_retry(retry);
        decided(outcome, native("f", b"\x05", &meta), options, &policy(Unknown::Bury, Backoff::default()))
    }

    fn buried(reason: &'static str, detail: &str, attempt: u32) -> Settlement {
        let call = BuriedCall::default();
        Settlement::Bury { reason, detail: detail.into(), attempt, output: String::new(), call }
    }

    /// Another attempt after a back-off.
    fn after_backoff(backoff: Duration) -> Settlement {
        after_exactly(Backoff::jittered(backoff, id().random()))
    }

    fn after_exactly(delay: Duration) -> Settlement {
        Settlement::RetryLater { message: Vec::new(), id: id(), delay }
    }

    /// Outcomes of runs that came to no good end, with the reason and the detail of their dead letters.
    fn failures() -> Vec<(Outcome, &'static str, &'static str)> {
        let after = Duration::from_millis(1500);
        let timed_out = |limit, signal| Outcome::TimedOut { limit, after, signal };
        let exceeded = |resource, limit| Outcome::Exceeded { resource, limit };
        vec![
            (Outcome::Failed(TaskError::retry("no")), "failed", "no"),
            (Outcome::Panicked { message: "ouch".into() }, "panicked", "ouch"),
            (timed_out(TimeLimit::Soft, None), "timed_out", "timed out (soft) after 1.5s"),
            (
                timed_out(TimeLimit::Soft, Some(15)),
                "timed_out",
                "timed out (soft) after 1.5s, ended by SIGTERM",
            ),
            (
                timed_out(TimeLimit::Hard, Some(9)),
                "timed_out",
                "timed out (hard) after 1.5s, ended by SIGKILL",
            ),
            (exceeded(Resource::Memory, 5), "exceeded", "used more than 5 bytes of memory"),
            (exceeded(Resource::Cpu, 5), "exceeded", "used more than 5 s of CPU time"),
            (Outcome::Crashed(Exit::Code(3)), "crashed", "its process ended with code 3 before the task did"),
            (Outcome::Crashed(Exit::Signal(11)), "crashed", "its process died of SIGSEGV"),
            (
                Outcome::Crashed(Exit::OutOfMemory),
                "crashed",
                "the kernel killed its process for want of memory",
            ),
            (
                Outcome::Crashed(Exit::Garbage),
                "crashed",
                "its process wrote what is no report, and was killed",
            ),
        ]
    }

    #[test]
    fn failed_run_is_retried_as_often_as_it_may_be() {
        for (outcome, reason, detail) in failures() {
            let again = |seconds| after_backoff(Duration::from_secs(seconds));
            let attempts = |attempts| Meta { attempts, ..Meta::default() };
            assert_eq!(verdict(&outcome, attempts(0), 0), buried(reason, detail, 1));
            assert_eq!(verdict(&outcome, attempts(0), 2), again(1), "{outcome}");
            assert_eq!(verdict(&outcome, attempts(1), 2), again(2), "{outcome}");
            assert_eq!(verdict(&outcome, attempts(2), 2), buried(reason, detail, 3));
            assert_eq!(verdict(&outcome, attempts(999), -1), again(600), "{outcome}");
            // What the call says comes before what its task says.
            let meta = Meta { retry: Some(1), ..Meta::default() };
            assert_eq!(verdict(&outcome, meta, 0), again(1), "{outcome}");
            assert_eq!(verdict(&outcome, Meta { retry: Some(0), ..meta }, 5), buried(reason, detail, 1));
        }
    }

    #[test]
    fn a_retry_without_back_off_is_at_once() {
        let options = TaskOptions::DEFAULT.with_retry(1);
        let failed = Outcome::Failed(TaskError::retry("no"));
        let message = native("f", b"\x05", &Meta::default());
        let verdict = decided(&failed, message, options, &policy(Unknown::Bury, Backoff::None));
        assert_eq!(verdict, Settlement::Retry { message: Vec::new() });
    }

    #[test]
    fn back_off_is_of_the_call_else_its_task_else_the_worker() {
        let seconds = Duration::from_secs;
        let failed = Outcome::Failed(TaskError::retry("no"));
        let of_task = TaskOptions::DEFAULT.with_retry(1).with_backoff(Backoff::Fixed(seconds(5)));
        for (meta, options, expected) in [
            (Meta { backoff: Some(Backoff::Fixed(seconds(7))), ..Meta::default() }, of_task, seconds(7)),
            (Meta::default(), of_task, seconds(5)),
            (Meta::default(), TaskOptions::DEFAULT.with_retry(1), seconds(3)),
        ] {
            let worker = policy(Unknown::Bury, Backoff::Fixed(seconds(3)));
            let verdict = decided(&failed, native("f", b"\x05", &meta), options, &worker);
            assert_eq!(verdict, after_backoff(expected));
        }
    }

    #[test]
    fn a_time_that_the_task_names_comes_before_any_back_off() {
        let minute = Duration::from_secs(60);
        let named = Outcome::Failed(TaskError::retry_after(minute, "busy"));
        assert_eq!(verdict(&named, Meta::default(), 1), after_exactly(minute));
        assert_eq!(verdict(&named, Meta::default(), 0), buried("failed", "busy", 1));
        let snoozed = Outcome::Failed(TaskError::snooze(minute));
        for (attempts, retry) in [(0, 0), (7, 3)] {
            let meta = Meta { attempts, ..Meta::default() };
            assert_eq!(verdict(&snoozed, meta, retry), after_exactly(minute));
        }
    }

    #[test]
    fn a_call_is_retried_while_its_next_attempt_is_within_its_time() {
        let (failed, hour) = (Outcome::Failed(TaskError::retry("no")), Duration::from_secs(3600));
        let options = TaskOptions::DEFAULT.with_retry(-1).with_retry_for(hour);
        let decided = |passed_ms: Option<u64>| {
            let error = FailedAttempt::new(0, "failed", String::new());
            let bytes = native("f", b"\x05", &Meta::default());
            let bytes = match passed_ms {
                None => bytes,
                Some(passed) => Message::decode(&bytes).unwrap().next(Next {
                    counts: true,
                    error: Some(&error),
                    first_failed_ms: Some(NOW - passed),
                    ..Next::default()
                }),
            };
            let minute = Backoff::Fixed(Duration::from_secs(60));
            decided(&failed, bytes, options, &policy(Unknown::Bury, minute))
        };
        let again = after_backoff(Duration::from_secs(60));
        assert_eq!((decided(None), decided(Some(3_540_000))), (again.clone(), again));
        assert_eq!(decided(Some(3_540_001)), buried("failed", "no", 2));
    }

    #[test]
    fn what_is_of_no_use_any_more_is_never_tried_again() {
        for (outcome, reason, detail) in [
            (
                Outcome::Expired { late: Duration::from_millis(2500) },
                "expired",
                "its deadline had passed 2.5s before it could begin",
            ),
            (Outcome::Killed { by: "ann@host".into() }, "killed", "killed by ann@host"),
            (Outcome::Failed(TaskError::fatal("no")), "failed", "no"),
            (Outcome::Arguments { problem: "no".into() }, "arguments", "`f`: no"),
            (Outcome::Malformed { problem: "no".into() }, "malformed", "no"),
        ] {
            let meta = Meta { attempts: 1, retry: Some(-1), ..Meta::default() };
            assert_eq!(verdict(&outcome, meta, -1), buried(reason, detail, 2));
        }
    }

    #[test]
    fn call_that_got_no_process_is_put_back_without_an_attempt() {
        let lost = Outcome::Lost { problem: "no process could be had".into() };
        for attempts in [0, 5] {
            assert_eq!(verdict(&lost, Meta { attempts, ..Meta::default() }, 0), PUT_BACK_FIRST);
        }
    }

    #[test]
    fn an_unknown_task_is_what_the_worker_was_told() {
        for (unknown, verdict) in [
            (Unknown::Ignore, Settlement::Release { clears_suspect: false }),
            (Unknown::Requeue, Settlement::PutBack { place: Place::Tail }),
            (
                Unknown::Bury,
                buried(
                    "unknown",
                    "no task `f` is registered in this worker: link its crate, or use --unknown requeue",
                    1,
                ),
            ),
        ] {
            let bytes = native("f", b"", &Meta::default());
            let policy = policy(unknown, Backoff::None);
            assert_eq!(decided(&Outcome::Unknown, bytes, TaskOptions::DEFAULT, &policy), verdict);
        }
    }

    #[test]
    fn snoozed_attempt_does_not_count_and_failed_one_does() {
        let attempts = |error: TaskError| {
            let message = native("f", b"\x05", &Meta { attempts: 2, ..Meta::default() });
            let options = TaskOptions::DEFAULT.with_retry(9);
            let info = RunInfo { options: &options, ..INFO };
            let end = end(Some(Outcome::Failed(error)), message, None);
            match decide(&end, &info, &policy(Unknown::Bury, Backoff::default())).settlement {
                Settlement::RetryLater { message, .. } => Message::decode(&message).unwrap().attempts(),
                other => panic!("expected another attempt, not {other:?}"),
            }
        };
        assert_eq!(attempts(TaskError::snooze(Duration::from_secs(1))), 2);
        assert_eq!(attempts(TaskError::retry("no")), 3);
    }

    #[test]
    fn kill_deadline_stop_and_drain_change_what_an_end_means() {
        let failed = || Some(Outcome::Failed(TaskError::retry("no")));
        let decided = |outcome, deadline, info: RunInfo<'_>| {
            let end = end(outcome, native("f", b"\x05", &Meta::default()), deadline);
            let Decision { outcome, settlement } =
                decide(&end, &info, &policy(Unknown::Bury, Backoff::default()));
            (outcome.reason(), bare(settlement))
        };
        let passed = || {
            let mut deadline = RunDeadline::endless(Duration::ZERO);
            let now = Instant::now();
            deadline.end(now);
            deadline.ring(now, true, true);
            Some(deadline)
        };
        let reason = |decided: (&'static str, Settlement)| match decided.1 {
            Settlement::Bury { reason, .. } => reason,
            other => panic!("expected a dead letter, not {other:?}"),
        };
        assert_eq!(reason(decided(failed(), passed(), INFO)), "timed_out");
        assert_eq!(reason(decided(None, passed(), INFO)), "timed_out");
        let fatal = Some(Outcome::Failed(TaskError::fatal("no")));
        assert_eq!(reason(decided(fatal, passed(), INFO)), "failed", "its error is its own");
        let release = Settlement::Release { clears_suspect: false };
        assert_eq!(decided(Some(Outcome::Succeeded), passed(), INFO).1, release);

        let killed = RunInfo { killed_by: Some("ann"), ..INFO };
        assert_eq!(reason(decided(failed(), None, killed)), "killed");
        assert_eq!(reason(decided(None, passed(), killed)), "killed");
        assert_eq!(decided(Some(Outcome::Succeeded), None, killed).1, release);

        let draining = RunInfo { is_stopping: true, is_draining: true, ..INFO };
        assert_eq!(decided(failed(), None, draining).1, PUT_BACK_FIRST);
        assert_eq!(decided(None, None, draining).1, PUT_BACK_FIRST);
        assert_eq!(decided(Some(Outcome::Succeeded), None, draining).1, release);
        let killed = RunInfo { killed_by: Some("ann"), ..draining };
        assert_eq!(reason(decided(failed(), None, killed)), "killed");
    }
}
