//! A run in the worker's own process can only be asked to end.

use std::time::{Duration, Instant};

use super::{assert_soon, letters, task, task_with};
use crate::support::trial::{PATIENCE, Trial, count, mark, open};
use crate::support::wait;

#[test]
fn a_future_is_dropped_when_its_time_and_grace_are_up() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--timeout", "200ms", "--grace", "100ms"]);
    let began = Instant::now();
    trial.push(&[task("guarded", "a"), mark("other")]);
    wait::until("a dead letter", PATIENCE, || trial.dead() == 1);
    assert_soon(began, Duration::from_secs(20), "the end of a future");
    trial.wait_settled();
    let letter = letters(&mut trial).remove(0);
    assert_eq!(letter.reason, "timed_out", "{letter:?}");
    assert!(letter.detail.starts_with("timed out ("), "{letter:?}");
    assert!(!letter.detail.contains("SIG"), "expected no signal where no process died: {letter:?}");
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+a", "-a", "other"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_future_that_hears_may_end_with_its_effect_or_without() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--timeout", "200ms", "--grace", "10m"]);
    trial.push(&[task("in_time", "a"), task("gives_up", "b"), task("in_time_blocking", "c")]);
    wait::until("a dead letter", PATIENCE, || trial.dead() == 1);
    trial.wait_settled();
    let letter = letters(&mut trial).remove(0);
    assert_eq!(
        (letter.task.as_str(), letter.reason.as_str()),
        ("isolation.gives_up", "timed_out"),
        "{letter:?}"
    );
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    trial.ledger.assert_each_once(["+a", "-a", "+b", "-b", "+c", "-c"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_function_that_overruns_keeps_its_slot_and_is_reported() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--timeout", "200ms", "--grace", "100ms", "--concurrency", "1"]);
    let gate = trial.gate("gate");
    trial.push(&[task_with("gated", &["held".into(), gate.to_str().unwrap().into()]), mark("behind")]);
    let line = worker.wait_for_line("isolation.gated");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["level"], "WARN", "{line}");
    assert!(line.contains("keeps its slot"), "expected the worker to say so: {line}");
    let state = trial.state();
    assert_eq!((state.processing.len(), state.waiting.len(), state.dead.len()), (1, 1, 0), "{state:#?}");
    trial.ledger.assert_each_once(["+held"]);
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    // Its result counts, late as it is: it has had its effect.
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    trial.ledger.assert_each_once(["+held", "-held", "behind"]);
    trial.assert_only(&[]);
}

#[test]
fn a_timeout_inline_uses_up_an_attempt() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--timeout", "200ms", "--grace", "50ms"]);
    trial.push(&[task("hangs_once", "a")]);
    trial.wait_runs(2);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (1, 1), "{stopped}");
    trial.ledger.assert_each_once(["a 1", "a 2"]);
    trial.assert_only(&[]);
}

#[test]
fn what_says_inline_runs_inline_and_what_says_fork_forks() {
    for of_worker in ["inline", "fork", "prefork"] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", of_worker]);
        let inline = worker.pid().as_raw();
        let names = ["who", "who_inline", "who_fork", "who_prefork"];
        trial.push(&names.map(|name| task(name, name)));
        trial.wait_runs(4);
        trial.wait_settled();
        for told in super::told(&trial) {
            let is_inline = super::pid(&told, "pid") == inline;
            let expected = match told["n"].as_str().unwrap() {
                "who" => of_worker == "inline",
                name => name == "who_inline",
            };
            assert_eq!(is_inline, expected, "of a worker with --isolation {of_worker}: {told}");
        }
        trial.stop(&mut worker);
        super::nobody(&trial);
        trial.assert_only(&[]);
    }
}
