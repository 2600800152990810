//! What a task starts goes with it: its group, and those that left it.

use std::time::{Duration, Instant};

use super::{Case, assert_soon, task, task_with};
use crate::support::trial::{PATIENCE, count, open};
use crate::support::wait;

both! {
    nothing_that_it_started_outlives_a_kill
    family_with_open_standard_streams_does_not_delay_the_result
}

/// Each kind of family, and how many of its processes sleep.
pub(super) const KINDS: [(&str, usize); 5] =
    [("group", 2), ("session", 1), ("daemon", 2), ("nohup", 1), ("deaf", 2)];

/// Begins a run for each kind of family; waits until all of them sleep.
pub(super) fn begin(case: &mut Case, gate: &str) {
    let gate = case.trial.gate(gate);
    let gate = gate.to_str().unwrap();
    case.trial.push(&KINDS.map(|(kind, _)| task_with("family", &[kind.into(), kind.into(), gate.into()])));
    case.trial.wait_runs(KINDS.len());
    let expected: usize = KINDS.iter().map(|(_, sleeping)| sleeping).sum();
    wait::until("all families to be complete", PATIENCE, || sleeping(case) == expected);
}

pub(super) fn sleeping(case: &Case) -> usize {
    case.everybody().iter().filter(|process| process.name == "sleep" && process.is_alive()).count()
}

fn nothing_that_it_started_outlives_a_kill(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "3s", "--grace", "300ms", "--concurrency", "8"]);
    let gate = case.trial.gate("never");
    let gate = gate.to_str().unwrap();
    let began = Instant::now();
    case.trial.push(&KINDS.map(|(kind, _)| task_with("family", &[kind.into(), kind.into(), gate.into()])));
    case.trial.wait_runs(KINDS.len());
    wait::until("some to sleep", PATIENCE, || sleeping(&case) > 0 || case.trial.dead() > 0);
    case.wait_dead(KINDS.len());
    assert_soon(began, Duration::from_secs(30), "the end of all families");
    for letter in case.letters() {
        assert_eq!(letter.reason, "timed_out", "{letter:?}");
    }
    // While the worker runs, not only with it.
    case.wait_rest();
    wait::until("nobody to sleep", PATIENCE, || sleeping(&case) == 0);
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    assert!(KINDS.iter().all(|(kind, _)| executions[&format!("+{kind}")] == 1), "{executions:?}");
}

/// A fresh process takes all that it started with it, also when the task succeeds.
#[test]
fn nothing_that_it_started_outlives_a_fork() {
    let mut case = Case::new("fork", &["--concurrency", "8"]);
    begin(&mut case, "gate");
    open(&case.trial.gate("gate"));
    case.trial.wait_settled();
    case.wait_rest();
    assert_eq!(sleeping(&case), 0, "expected nobody to sleep");
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), KINDS.len() as u64, "{stopped}");
}

/// What a child of the pool started may go on until the child ends; no longer.
#[test]
fn nothing_that_it_started_outlives_the_pool() {
    let mut case = Case::new("prefork", &["--concurrency", "8"]);
    begin(&mut case, "gate");
    open(&case.trial.gate("gate"));
    case.trial.wait_settled();
    let stopped = case.trial.stop(&mut case.worker);
    assert_eq!(count(&stopped, "succeeded"), KINDS.len() as u64, "{stopped}");
    case.nobody();
    case.trial.assert_only(&[]);
}

fn family_with_open_standard_streams_does_not_delay_the_result(mode: &'static str) {
    let mut case = Case::new(mode, &["--concurrency", "1"]);
    let began = Instant::now();
    case.trial.push(&[task("holds_streams", "a"), task("holds_streams", "b")]);
    case.trial.wait_runs(2);
    case.trial.wait_settled();
    assert_soon(began, Duration::from_secs(30), "the results");
    let stopped = case.trial.stop(&mut case.worker);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    case.nobody();
    case.trial.assert_only(&[]);
    case.trial.ledger.assert_each_once(["a", "b"]);
}
