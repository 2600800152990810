//! Children of the pool are used again, one call at a time, until one is killed, has run often or has grown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Case, assert_soon, pid, task, task_with, told};
use crate::support::tree::Process;
use crate::support::trial::{PATIENCE, call, count, open};
use crate::support::wait;

/// How often each process told something.
fn runs(case: &Case) -> BTreeMap<i32, usize> {
    let mut runs = BTreeMap::new();
    for told in told(&case.trial) {
        *runs.entry(pid(&told, "pid")).or_default() += 1;
    }
    runs
}

fn calls(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| task(["who", "who_blocking"][n % 2], &n.to_string())).collect()
}

#[test]
fn a_fork_is_used_once_and_a_child_of_the_pool_again() {
    for (mode, most, least) in [("fork", 60, 60), ("prefork", 2, 1)] {
        let words: &[&str] = if mode == "fork" { &[] } else { &["--children", "2"] };
        let mut case = Case::new(mode, words);
        case.trial.push(&calls(60));
        case.trial.wait_runs(60);
        case.trial.wait_settled();
        let runs = runs(&case);
        assert!(
            (least..=most).contains(&runs.len()),
            "{mode}: expected {least} to {most} processes: {runs:?}"
        );
        case.end_with(&[]);
    }
}

#[test]
fn a_child_is_replaced_after_so_many_tasks() {
    let mut case = Case::new("prefork", &["--children", "2", "--max-tasks", "5"]);
    case.trial.push(&calls(60));
    case.trial.wait_runs(60);
    case.trial.wait_settled();
    let runs = runs(&case);
    assert!(runs.values().all(|runs| *runs <= 5), "expected at most 5 runs of each process: {runs:?}");
    assert!(runs.len() >= 12, "{runs:?}");
    assert!(case.children().len() <= 2, "expected those before to be gone: {:?}", case.children());
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 60, "{stopped}");
}

#[test]
fn a_child_that_has_grown_is_replaced() {
    let mut case = Case::new("prefork", &["--children", "1", "--max-memory", "100MB"]);
    let grow = |name: &str, n: usize| task_with(name, &[format!("{name}{n}").into(), 150.into()]);
    case.trial.push(&[grow("hoards", 0), grow("hoards", 1)]);
    case.trial.wait_runs(2);
    case.trial.wait_settled();
    let ledger = case.trial.ledger.clone();
    let line = |n: usize| ledger.lines()[n].split(' ').next_back().unwrap().to_owned();
    assert_ne!(line(0), line(1), "expected a process that keeps 150 MB to be replaced");
    case.trial.push(&[task_with("hoards", &["small".into(), 1.into()])]);
    case.trial.push(&[task_with("hoards", &["small".into(), 1.into()])]);
    case.trial.wait_runs(4);
    case.trial.wait_settled();
    assert_eq!(line(2), line(3), "expected a small process to be used again");
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (4, 0), "{stopped}");
}

#[test]
fn a_child_is_replaced_after_a_kill_and_after_a_crash() {
    let mut case = Case::new(
        "prefork",
        &["--children", "1", "--concurrency", "1", "--timeout", "300ms", "--grace", "100ms"],
    );
    let bad = ["deaf", "sleep", "abort", "segfault", "stopped_and_deaf"];
    let mut before = BTreeSet::new();
    for (n, name) in bad.iter().enumerate() {
        case.trial.push(&[task("who", name)]);
        wait::until("a run", PATIENCE, || told(&case.trial).len() == n + 1);
        let now = pid(&told(&case.trial)[n], "pid");
        assert!(before.insert(now), "expected a process that nobody had before: {now} among {before:?}");
        case.trial.push(&[task(name, name)]);
        case.wait_dead(n + 1);
    }
    case.goes_on();
    assert_eq!(case.children().len(), 1, "{:?}", case.children());
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), bad.len() as u64 + 1, "{stopped}");
}

#[test]
fn what_hangs_does_not_hold_up_what_is_quick() {
    let mut case = Case::new("prefork", &["--children", "2", "--concurrency", "8", "--timeout", "1h"]);
    let gate = case.trial.gate("gate");
    case.trial.push(&[task_with("gated", &["held".into(), gate.to_str().unwrap().into()])]);
    case.trial.wait_runs(1);
    case.trial.push(&calls(200));
    case.trial.wait_runs(201);
    wait::until("all but one to be settled", PATIENCE, || {
        let state = case.trial.state();
        state.waiting.is_empty() && state.processing.len() == 1
    });
    assert_eq!(runs(&case).len(), 1, "expected them to run beside what hangs, not in its process");
    open(&gate);
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 201, "{stopped}");
}

#[test]
fn one_child_runs_one_call_at_a_time() {
    let mut case = Case::new("prefork", &["--children", "1", "--concurrency", "8"]);
    let lasts = |n: usize| task_with("lasts", &[n.to_string().into(), 20.into()]);
    case.trial.push(&(0..20).map(lasts).collect::<Vec<_>>());
    case.trial.wait_runs(40);
    case.trial.wait_settled();
    for pair in case.trial.ledger.lines().chunks(2) {
        assert_eq!(pair[0][1..], pair[1][1..], "expected each to end before another begins: {pair:?}");
    }
    case.end_with(&[]);
}

/// Also when nobody has to look at a clock while it runs, and others are idle that could run it again.
#[test]
fn a_call_that_takes_its_child_down_runs_once() {
    let mut case = Case::new("prefork", &["--children", "4", "--concurrency", "4"]);
    let gate = case.trial.gate("gate");
    let gated = |n: usize| task_with("gated", &[n.to_string().into(), gate.to_str().unwrap().into()]);
    case.trial.push(&(0..4).map(gated).collect::<Vec<_>>());
    case.trial.wait_runs(4);
    open(&gate);
    case.trial.wait_settled();
    let bad = ["abort", "segfault", "closes", "closes_and_ends", "abort"];
    for (n, name) in bad.iter().enumerate() {
        let before = case.children();
        assert!(before.len() + n >= 4, "expected one child less at the most: {before:?}");
        case.trial.push(&[task(name, &format!("{name} {n}"))]);
        case.wait_dead(n + 1);
    }
    case.goes_on();
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "put_back")), (5, 0), "{stopped}");
    let executions = case.trial.ledger.executions();
    assert!(executions.values().all(|runs| *runs == 1), "expected one run each: {executions:?}");
}

#[test]
fn an_idle_child_that_dies_costs_no_call() {
    let mut case = Case::new("prefork", &["--children", "2"]);
    for round in 0..10 {
        case.goes_on();
        let children = case.children();
        assert!(!children.is_empty(), "expected children to stay");
        for child in &children {
            child.signal(Signal::SIGKILL);
        }
        wait::until("them to be dead", PATIENCE, || {
            children.iter().all(|child| Process::of(child.pid).is_none_or(|now| !now.is_alive()))
        });
        assert_eq!(case.trial.dead(), 0, "round {round}: {:#?}", case.letters());
    }
    case.goes_on();
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (11, 0), "{stopped}");
}

/// One that dies with a call that it has not begun leaves it to another one that is idle.
#[test]
fn a_call_is_not_stuck_with_a_child_that_dies_before_it() {
    let mut case = Case::new("prefork", &["--children", "2", "--concurrency", "2"]);
    let gates = ["one", "two"].map(|name| case.trial.gate(name));
    let calls = ["a", "b"].into_iter().zip(&gates);
    let call =
        |(n, gate): (&str, &PathBuf)| task_with("belongings", &[n.into(), gate.to_str().unwrap().into()]);
    case.trial.push(&calls.map(call).collect::<Vec<_>>());
    wait::until("both to run", PATIENCE, || told(&case.trial).len() == 2);
    let child = |n: &str| {
        let told = told(&case.trial).into_iter().find(|told| told["n"] == n).unwrap();
        Process::of(pid(&told, "pid")).unwrap()
    };
    let (first, last) = (child("a"), child("b"));
    // Who was idle last is the next to be given a call.
    open(&gates[0]);
    wait::until("one to be idle", PATIENCE, || case.trial.state().processing.len() == 1);
    open(&gates[1]);
    case.trial.wait_settled();
    last.signal(Signal::SIGSTOP);
    wait::until("it to stop", PATIENCE, || Process::of(last.pid).is_some_and(|now| now.state == 'T'));
    case.trial.push(&[task("who", "c")]);
    wait::until("the call to be claimed", PATIENCE, || case.trial.state().processing.len() == 1);
    last.signal(Signal::SIGKILL);
    case.trial.wait_settled();
    let told = told(&case.trial);
    assert_eq!((told.len(), pid(&told[2], "pid")), (3, first.pid), "{told:#?}");
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (3, 0), "{stopped}");
}

#[test]
fn a_panic_or_an_error_does_not_spoil_a_child() {
    let mut case = Case::new("prefork", &["--children", "1"]);
    let began = Instant::now();
    for n in 0..20 {
        let bad = ["panics", "panics_async", "fatal"][n % 3];
        case.trial.push(&[task(bad, bad), task("who", &n.to_string())]);
    }
    case.wait_dead(20);
    assert_soon(began, Duration::from_secs(30), "all of them");
    assert_eq!(told(&case.trial).len(), 20, "expected all others to run");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), 20, "{stopped}");
}

#[test]
fn both_kinds_serve_side_by_side() {
    let mut case = Case::new("prefork", &["--children", "2", "--concurrency", "16"]);
    let names = ["who", "who_inline", "who_fork", "who_prefork"];
    let all: Vec<Vec<u8>> = (0..100).map(|n| task(names[n % 4], &format!("{n}"))).collect();
    case.trial.push(&all);
    case.trial.push(&[call("trial.mark", &["last".into()])]);
    case.trial.wait_runs(101);
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 101, "{stopped}");
}
