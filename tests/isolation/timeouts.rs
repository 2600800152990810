//! When a run's time is up it is asked to end, and then made to.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Case, Letter, assert_soon, task, task_with};
use crate::support::trial::{QUEUE, WORKER, count};
use crate::support::wait;

mod calls {
    #[delayed::task(name = "isolation.sleep", queue = "q")]
    pub(super) async fn sleep(n: String) {
        drop(n);
    }

    #[delayed::task(name = "isolation.short", queue = "q")]
    pub(super) fn short(n: String, ms: u64) {
        let _ = (n, ms);
    }

    #[delayed::task(name = "isolation.long", queue = "q")]
    pub(super) fn long(n: String, ms: u64) {
        let _ = (n, ms);
    }
}

both! {
    a_hanging_task_ends_when_it_is_asked
    a_deaf_task_is_killed_after_its_grace
    a_stopped_process_is_killed_on_time
    what_was_asked_late_is_told_as_it_ended
    a_task_that_hears_may_give_up
    a_result_that_came_before_the_kill_counts
    timeout_of_the_call_wins_over_the_tasks_and_the_workers
    grace_is_the_tasks_own
    a_timeout_uses_up_an_attempt
    the_second_attempt_may_succeed
}

/// How long a letter says that its run went on.
#[track_caller]
pub(super) fn after(letter: &Letter) -> Duration {
    let rest = letter.detail.split_once(" after ").map(|(_, rest)| rest);
    let text = rest.and_then(|rest| rest.split([',', ' ', ';']).next());
    let unit = text.and_then(|text| Some(text.split_at(text.find(char::is_alphabetic)?)));
    let seconds = unit.and_then(|(number, unit)| {
        let number: f64 = number.parse().ok()?;
        match unit {
            "s" => Some(number),
            "ms" => Some(number / 1e3),
            _ => None,
        }
    });
    Duration::from_secs_f64(seconds.unwrap_or_else(|| panic!("expected a time in {letter:?}")))
}

#[track_caller]
pub(super) fn assert_timed_out(letter: &Letter, limit: &str, signal: &str) {
    assert_eq!(letter.reason, "timed_out", "{letter:?}");
    let begins = format!("timed out ({limit}) after ");
    assert!(letter.detail.starts_with(&begins), "expected {begins:?}: {letter:?}");
    assert!(letter.detail.contains(&format!("ended by {signal}")), "expected {signal}: {letter:?}");
}

fn a_hanging_task_ends_when_it_is_asked(mode: &'static str) {
    // A grace that nobody waits for.
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "10m"]);
    let tasks = ["sleep", "sleep_blocking", "spin", "spin_async"];
    let began = Instant::now();
    case.trial.push(&tasks.map(|name| task(name, name)));
    case.wait_dead(tasks.len());
    assert_soon(began, Duration::from_secs(30), "the end of what hangs");
    for letter in case.letters() {
        assert_timed_out(&letter, "soft", "SIGTERM");
        assert!(after(&letter) >= Duration::from_secs(1), "{letter:?}");
        assert_eq!(letter.attempt, "1", "{letter:?}");
    }
    case.goes_on();
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    let executions = case.trial.ledger.executions();
    assert!(tasks.iter().all(|name| executions[*name] == 1), "{executions:?}");
}

fn a_deaf_task_is_killed_after_its_grace(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "400ms"]);
    let began = Instant::now();
    case.trial.push(&[task("deaf", "a"), task("deaf", "b")]);
    case.wait_dead(2);
    assert_soon(began, Duration::from_secs(20), "the end of what is deaf");
    for letter in case.letters() {
        assert_timed_out(&letter, "hard", "SIGKILL");
        assert!(after(&letter) >= Duration::from_millis(1400), "{letter:?}");
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn a_stopped_process_is_killed_on_time(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "300ms"]);
    let began = Instant::now();
    case.trial.push(&[task("stopped", "a"), task("stopped_and_deaf", "b")]);
    case.wait_dead(2);
    assert_soon(began, Duration::from_secs(20), "the end of what is stopped");
    for letter in case.letters() {
        assert_eq!(letter.reason, "timed_out", "{letter:?}");
        if letter.task == "isolation.stopped_and_deaf" {
            assert_timed_out(&letter, "hard", "SIGKILL");
        }
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    assert_eq!((executions["a"], executions["b"]), (1, 1), "{executions:?}");
}

/// Both signals come at once when the zygote goes on; which of them ends a process is not for us to say.
fn what_was_asked_late_is_told_as_it_ended(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "2s", "--grace", "100ms"]);
    case.trial.push(&["a", "b", "c", "d"].map(|n| task("sleep", n)));
    case.trial.wait_runs(4);
    case.zygote().signal(Signal::SIGSTOP);
    wait::pause(Duration::from_millis(2500));
    case.zygote().signal(Signal::SIGCONT);
    case.wait_dead(4);
    for letter in case.letters() {
        let (is_hard, is_killed) = (letter.detail.contains("(hard)"), letter.detail.contains("SIGKILL"));
        assert_eq!((letter.reason.as_str(), is_hard), ("timed_out", is_killed), "{letter:?}");
    }
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["a", "b", "c", "d"]);
}

fn a_task_that_hears_may_give_up(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "10m"]);
    let began = Instant::now();
    case.trial.push(&[task("gives_up", "a")]);
    case.wait_dead(1);
    assert_soon(began, Duration::from_secs(20), "the end of what heard");
    let letter = case.letter();
    // What it says when it was told to end is no failure of its own.
    assert_eq!(letter.reason, "timed_out", "{letter:?}");
    assert!(letter.detail.starts_with("timed out (soft) after "), "{letter:?}");
    assert!(!letter.detail.contains("SIGKILL"), "{letter:?}");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["+a", "-a"]);
}

fn a_result_that_came_before_the_kill_counts(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "10m"]);
    case.trial.push(&[task("in_time", "a"), task("in_time_blocking", "b")]);
    case.trial.wait_runs(4);
    case.trial.wait_settled();
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    case.trial.ledger.assert_each_once(["+a", "-a", "+b", "-b"]);
}

fn timeout_of_the_call_wins_over_the_tasks_and_the_workers(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "400ms", "--grace", "100ms", "--concurrency", "16"]);
    let encode = |call: delayed::Call| call.encode().unwrap();
    let ms = Duration::from_millis;
    case.trial.push(&[
        // Longer than the worker's, since the task says so; longer than the task's, since the call says so.
        task_with("long", &["task".into(), 1500.into()]),
        encode(calls::short::call("call".into(), 1500).timeout(ms(60_000))),
        encode(calls::sleep::call("worker".into())),
        // Ended, by the worker's, the task's, and the call's.
        task_with("short", &["task's".into(), 600_000.into()]),
        encode(calls::long::call("call's".into(), 600_000).timeout(ms(300))),
    ]);
    case.trial.wait_runs(7);
    case.wait_dead(3);
    let mut ended: Vec<String> = case.letters().into_iter().map(|letter| letter.task).collect();
    ended.sort();
    assert_eq!(ended, ["isolation.long", "isolation.short", "isolation.sleep"]);
    for letter in case.letters() {
        assert_timed_out(&letter, "soft", "SIGTERM");
    }
    // On the command line too; it stands before the worker's as a call's own.
    let url = case.trial.server.url();
    let words = [
        "enqueue",
        "isolation.sleep",
        r#"["line"]"#,
        "--queue",
        QUEUE,
        "--timeout",
        "300ms",
        "--redis",
        &url,
    ];
    let sent = case.trial.command(WORKER).args(words).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    case.wait_dead(4);
    let last = case.letters().remove(3);
    assert_timed_out(&last, "soft", "SIGTERM");
    case.end_with(&["q_dead"]);
    let expected = ["+task", "-task", "+call", "-call", "worker", "+task's", "+call's", "line"];
    case.trial.ledger.assert_each_once(expected);
}

fn grace_is_the_tasks_own(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h", "--grace", "1ms"]);
    case.trial.push(&[task("own_grace", "a")]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_timed_out(&letter, "hard", "SIGKILL");
    assert!(after(&letter) >= Duration::from_millis(1200), "{letter:?}");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["a"]);
}

fn a_timeout_uses_up_an_attempt(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "300ms", "--grace", "100ms"]);
    case.trial.push(&[task("attempts", "a")]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_timed_out(&letter, "hard", "SIGKILL");
    assert_eq!(letter.attempt, "2", "{letter:?}");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["a 1", "a 2"]);
}

fn the_second_attempt_may_succeed(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "300ms", "--grace", "100ms"]);
    case.trial.push(&[task("hangs_once", "a")]);
    case.trial.wait_runs(2);
    case.trial.wait_settled();
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (1, 1), "{stopped}");
    case.trial.ledger.assert_each_once(["a 1", "a 2"]);
}
