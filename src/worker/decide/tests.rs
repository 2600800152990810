use std::time::Instant;

use super::*;
use crate::protocol::encode::{Meta, native};
use crate::protocol::message::{FailedAttempt, Next};
use crate::runner::{Exit, Resource, TimeLimit};
use crate::task::TaskError;
use crate::task::return_value::ReturnValue;
use crate::worker::executor::RunDeadline;

/// In milliseconds since 1970.
const NOW: u64 = 1_800_000_000_000;

/// The id of calls that had none.
fn id() -> CallId {
    "0190b5d2-7a3c-7e11-8f00-5c0ffee00001".parse().unwrap()
}

fn policy(unknown: Unknown, backoff: Backoff) -> Policy {
    Policy { unknown, limits: RetryLimits::default(), backoff, now_ms: || NOW, new_id: id }
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
        tracking: None,
        span: RunSpan::default(),
    };
    RunEnd { run, outcome, stats: None }
}

/// A settlement without the bytes of its message, and without what the log says of it.
fn bare(settlement: Settlement) -> Settlement {
    match settlement {
        Settlement::Retry { .. } => Settlement::Retry { message: Vec::new() },
        Settlement::RetryLater { id, delay, .. } => Settlement::RetryLater { message: Vec::new(), id, delay },
        Settlement::Bury { reason, detail, attempt, output, .. } => {
            Settlement::Bury { reason, detail, attempt, output, call: BuriedCall::default() }
        }
        other => other,
    }
}

fn decided(outcome: &Outcome, message: Vec<u8>, options: TaskOptions, policy: &Policy) -> Settlement {
    let end = end(Some(outcome.clone()), message, None);
    bare(
        decide(
            &end,
            message_of(&end, &RunInfo { options: &options, ..INFO }).as_ref(),
            &RunInfo { options: &options, ..INFO },
            policy,
        )
        .settlement,
    )
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
        (timed_out(TimeLimit::Soft, Some(15)), "timed_out", "timed out (soft) after 1.5s, ended by SIGTERM"),
        (timed_out(TimeLimit::Hard, Some(9)), "timed_out", "timed out (hard) after 1.5s, ended by SIGKILL"),
        (exceeded(Resource::Memory, 5), "exceeded", "used more than 5 bytes of memory"),
        (exceeded(Resource::Cpu, 5), "exceeded", "used more than 5 s of CPU time"),
        (Outcome::Crashed(Exit::Code(3)), "crashed", "its process ended with code 3 before the task did"),
        (Outcome::Crashed(Exit::Signal(11)), "crashed", "its process was killed by SIGSEGV"),
        (
            Outcome::Crashed(Exit::OutOfMemory),
            "crashed",
            "the kernel killed its process because memory was short",
        ),
        (Outcome::Crashed(Exit::Garbage), "crashed", "its process wrote an invalid report, and was killed"),
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
fn limits_of_retries_are_of_the_call_else_task_else_worker() {
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    let limits = |count, time| RetryLimits { count, time };
    let (none, worker) = (limits(None, None), limits(Some(5), Some(day)));
    for (call, task, worker, expected) in [
        (none, none, none, none),
        (none, none, worker, worker),
        (none, none, limits(None, Some(day)), limits(Some(-1), Some(day))),
        // The worker's are for tasks that say nothing: neither of them completes what another says.
        (none, limits(Some(0), None), worker, limits(Some(0), None)),
        (none, limits(Some(-1), None), worker, limits(Some(-1), None)),
        (none, limits(None, Some(hour)), worker, limits(Some(-1), Some(hour))),
        (limits(Some(2), None), none, worker, limits(Some(2), None)),
        (limits(None, Some(hour)), none, worker, limits(Some(-1), Some(hour))),
        // A time of the call allows any number of retries; its number keeps the time of the task.
        (limits(None, Some(hour)), limits(Some(3), Some(day)), worker, limits(Some(-1), Some(hour))),
        (limits(Some(2), Some(hour)), limits(Some(3), Some(day)), worker, limits(Some(2), Some(hour))),
        (limits(Some(2), None), limits(Some(3), Some(day)), none, limits(Some(2), Some(day))),
    ] {
        let retry_for_ms = call.time.map(|time| u64::try_from(time.as_millis()).unwrap());
        let bytes = native("f", b"\x05", &Meta { retry: call.count, retry_for_ms, ..Meta::default() });
        let message = Message::decode(&bytes).unwrap();
        let options = TaskOptions { retry: task.count, retry_for: task.time, ..TaskOptions::DEFAULT };
        let found = RetryLimits::of(&message, &options, worker);
        assert_eq!(found, expected, "{call:?}, {task:?}, {worker:?}");
    }
}

#[test]
fn time_of_retries_begins_with_the_first_failed_attempt() {
    let failed = Outcome::Failed(TaskError::retry("no"));
    let minute = Duration::from_secs(60);
    let of_worker = RetryLimits { count: None, time: Some(minute) };
    let policy = |limits| Policy { limits, ..policy(Unknown::Bury, Backoff::None) };
    let first_failed = |meta: &Meta, options: &TaskOptions, limits| {
        let end = end(Some(failed.clone()), native("f", b"\x05", meta), None);
        let info = RunInfo { options, ..INFO };
        match decide(&end, message_of(&end, &info).as_ref(), &info, &policy(limits)).settlement {
            Settlement::Retry { message } => Message::decode(&message).unwrap().first_failed_ms(),
            other => panic!("expected another attempt, not {other:?}"),
        }
    };
    let (plain, none) = (Meta::default(), RetryLimits::default());
    let of_call = Meta { retry_for_ms: Some(60_000), ..plain };
    let of_task = TaskOptions::DEFAULT.with_retry_for(minute);
    assert_eq!(first_failed(&of_call, &TaskOptions::DEFAULT, none), Some(NOW));
    assert_eq!(first_failed(&plain, &of_task, none), Some(NOW));
    assert_eq!(first_failed(&plain, &TaskOptions::DEFAULT, of_worker), Some(NOW));
    assert_eq!(first_failed(&plain, &TaskOptions::DEFAULT.with_retry(1), of_worker), None);
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
            "it expired 2.5s before it could begin",
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
    let lost = Outcome::Lost { problem: "no process could be created".into() };
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
        match decide(
            &end,
            message_of(&end, &info).as_ref(),
            &info,
            &policy(Unknown::Bury, Backoff::default()),
        )
        .settlement
        {
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
            decide(&end, message_of(&end, &info).as_ref(), &info, &policy(Unknown::Bury, Backoff::default()));
        (outcome.reason(), bare(settlement))
    };
    let passed = || {
        let mut deadline = RunDeadline::endless(Duration::ZERO);
        let now = Instant::now();
        deadline.end(now);
        deadline.on_timer(now, true, true);
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
    assert_eq!(decided(Some(Outcome::Succeeded(ReturnValue::default())), passed(), INFO).1, release);

    let killed = RunInfo { killed_by: Some("ann"), ..INFO };
    assert_eq!(reason(decided(failed(), None, killed)), "killed");
    assert_eq!(reason(decided(None, passed(), killed)), "killed");
    assert_eq!(decided(Some(Outcome::Succeeded(ReturnValue::default())), None, killed).1, release);

    let draining = RunInfo { is_stopping: true, is_draining: true, ..INFO };
    assert_eq!(decided(failed(), None, draining).1, PUT_BACK_FIRST);
    assert_eq!(decided(None, None, draining).1, PUT_BACK_FIRST);
    assert_eq!(decided(Some(Outcome::Succeeded(ReturnValue::default())), None, draining).1, release);
    let killed = RunInfo { killed_by: Some("ann"), ..draining };
    assert_eq!(reason(decided(failed(), None, killed)), "killed");
}
