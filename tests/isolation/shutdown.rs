//! A worker that is told to end lets isolated runs end, and does not wait for ever.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Case, assert_soon, families, task, task_with};
use crate::support::trial::{PATIENCE, Trial, count, open};
use crate::support::wait;

both! {
    runs_may_end
    at_the_deadline_they_are_killed_and_put_back
    a_second_signal_does_not_wait
    a_run_that_hears_ends_before_the_deadline
    a_burst_ends_when_all_is_settled
    a_signal_to_all_of_a_service_is_no_fault_of_its_tasks
    a_worker_ends_whose_zygote_is_stopped
    an_idle_worker_ends_at_once
}

fn gated(case: &Case, n: &str) -> Vec<u8> {
    task_with("gated", &[n.into(), case.trial.gate("gate").to_str().unwrap().into()])
}

fn runs_may_end(mode: &'static str) {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut case = Case::new(mode, &[]);
        let calls = [gated(&case, "a"), gated(&case, "b")];
        case.trial.push(&calls);
        case.trial.wait_runs(2);
        case.worker.signal(signal);
        case.worker.wait_for_line("send the signal again to stop immediately");
        assert!(!case.worker.has_ended(), "expected it to wait for its runs: {}", case.worker.printed());
        open(&case.trial.gate("gate"));
        let stopped = case.trial.ended(&mut case.worker);
        assert_eq!(
            (count(&stopped, "succeeded"), count(&stopped, "put_back")),
            (2, 0),
            "{signal}: {stopped}"
        );
        case.nobody();
        case.trial.ledger.assert_each_once(["+a", "-a", "+b", "-b"]);
        case.trial.assert_only(&[]);
    }
}

/// Calls that end by a kill alone, begun one after another.
fn begin_deaf(case: &mut Case) -> Vec<Vec<u8>> {
    let gate = case.trial.gate("never");
    let family = |kind: &str| task_with("family", &[kind.into(), kind.into(), gate.to_str().unwrap().into()]);
    let calls = [
        task("deaf", "deaf"),
        task("stopped_and_deaf", "stopped"),
        task("spin", "spin"),
        family("daemon"),
        family("deaf"),
    ];
    for (n, call) in calls.iter().enumerate() {
        case.trial.push(&[call]);
        case.trial.wait_runs(n + 1);
    }
    calls.to_vec()
}

#[track_caller]
fn assert_put_back(case: &mut Case, stopped: &serde_json::Value, calls: &[Vec<u8>]) {
    case.nobody();
    assert_eq!(families::sleeping(case), 0);
    assert_eq!(count(stopped, "put_back"), calls.len() as u64, "{stopped}");
    let state = case.trial.state();
    assert_eq!(state.waiting, calls, "expected them at the head, in the order of their claims");
    assert!(state.deaths.is_empty() && state.dead.is_empty(), "{state:#?}");
    case.trial.assert_only(&["q", "q_noti"]);
}

fn at_the_deadline_they_are_killed_and_put_back(mode: &'static str) {
    let mut case = Case::new(mode, &["--shutdown", "300ms", "--timeout", "1h"]);
    let calls = begin_deaf(&mut case);
    let began = Instant::now();
    let stopped = case.trial.stop(&mut case.worker);
    assert_soon(began, Duration::from_secs(20), "the worker's end");
    assert_put_back(&mut case, &stopped, &calls);
    assert_eq!(case.trial.ledger.total() as usize, calls.len(), "expected one run each");
}

fn a_second_signal_does_not_wait(mode: &'static str) {
    let mut case = Case::new(mode, &["--shutdown", "1h"]);
    let calls = begin_deaf(&mut case);
    case.worker.signal(Signal::SIGTERM);
    case.worker.wait_for_line("send the signal again to stop immediately");
    let began = Instant::now();
    let stopped = case.trial.stop(&mut case.worker);
    assert_soon(began, Duration::from_secs(20), "the worker's end");
    assert_put_back(&mut case, &stopped, &calls);
    assert_eq!(case.trial.ledger.total() as usize, calls.len(), "expected one run each");
}

fn a_run_that_hears_ends_before_the_deadline(mode: &'static str) {
    let mut case = Case::new(mode, &["--shutdown", "10s"]);
    case.trial.push(&[task("in_time", "a"), task("in_time_blocking", "b")]);
    case.trial.wait_runs(2);
    let stopped = case.trial.stop(&mut case.worker);
    case.nobody();
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (2, 0), "{stopped}");
    case.trial.ledger.assert_each_once(["+a", "-a", "+b", "-b"]);
    case.trial.assert_only(&[]);
}

fn a_burst_ends_when_all_is_settled(mode: &'static str) {
    let mut trial = Trial::new();
    trial.push(&[task("who", "a"), task("deaf", "b"), task("abort", "c"), task("who_blocking", "d")]);
    let words = ["--isolation", mode, "--burst", "--timeout", "500ms", "--grace", "100ms"];
    let mut worker = trial.start(&words);
    let stopped = trial.ended(&mut worker);
    super::nobody(&trial);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (2, 2), "{stopped}");
    trial.assert_only(&["q_dead"]);
    assert_eq!(trial.ledger.total(), 4, "expected one run each: {:?}", trial.ledger.lines());
}

fn an_idle_worker_ends_at_once(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    case.goes_on();
    let began = Instant::now();
    case.end_with(&[]);
    assert_soon(began, Duration::from_secs(10), "the end of an idle worker");
}

/// As a supervisor does that tells all processes of a service to end, in whatever order.
fn a_signal_to_all_of_a_service_is_no_fault_of_its_tasks(mode: &'static str) {
    let mut case = Case::new(mode, &["--concurrency", "4", "--timeout", "1h"]);
    let mut calls =
        [task("sleep", "a"), task("gives_up", "b"), task("sleep_blocking", "c"), task("gives_up", "d")];
    case.trial.push(&calls);
    case.trial.wait_runs(4);
    let children = case.children();
    assert_eq!(children.len(), 4, "{children:?}");
    children.iter().for_each(|child| child.signal(Signal::SIGTERM));
    let stopped = case.trial.stop(&mut case.worker);
    case.nobody();
    assert_eq!((count(&stopped, "put_back"), count(&stopped, "failed")), (4, 0), "{stopped}");
    let mut waiting = case.trial.state().waiting;
    waiting.sort();
    calls.sort();
    assert_eq!(waiting, calls, "expected all to be there as they came");
    case.trial.assert_only(&["q", "q_noti"]);
    case.trial.ledger.assert_each_once(["a", "+b", "-b", "c", "+d", "-d"]);
}

/// Whoever stopped it does not keep the worker, and what it forked does not outlive that.
fn a_worker_ends_whose_zygote_is_stopped(mode: &'static str) {
    for stopped in [1, 2] {
        let mut case = Case::new(mode, &["--shutdown", "300ms"]);
        case.trial.push(&[task("deaf", "a")]);
        case.trial.wait_runs(1);
        case.family[stopped].signal(Signal::SIGSTOP);
        let end = case.trial.stop(&mut case.worker);
        assert_eq!(count(&end, "put_back"), 1, "{end}");
        let printed = case.worker.printed();
        assert!(!printed.contains("functions that block"), "expected none to be told of: {printed}");
        case.nobody();
        case.trial.assert_only(&["q", "q_noti"]);
        case.trial.ledger.assert_each_once(["a"]);
    }
}

#[test]
fn what_waits_for_a_child_is_put_back_before_it_runs() {
    let mut case = Case::new("prefork", &["--concurrency", "2", "--children", "1", "--shutdown", "300ms"]);
    let calls = [task("deaf", "a"), task("who", "b")];
    case.trial.push(&[&calls[0]]);
    case.trial.wait_runs(1);
    case.trial.push(&[&calls[1]]);
    wait::until("both to be claimed", PATIENCE, || case.trial.state().processing.len() == 2);
    let stopped = case.trial.stop(&mut case.worker);
    assert_put_back(&mut case, &stopped, &calls);
    case.trial.ledger.assert_each_once(["a"]);
}
