//! What a run leaves behind in a child of the pool is nothing that a later run has to do with.

use std::fmt::Write;

use super::{Case, pid, task, task_with, told};
use crate::support::trial::count;

/// Everything that a run may leave.
const KINDS: &[&str] = &[
    "thread",
    "thread_aborts",
    "thread_exits",
    "thread_panics",
    "thread_prints",
    "thread_eats",
    "alarm",
    "profiler",
    "posix_timer",
    "ignored",
    "blocked",
    "directory",
    "umask",
    "limit",
    "descriptors_limit",
    "descriptor",
    "replaced_descriptor",
    "group",
    "orphans",
    "variable",
    "nice",
    "nonblocking",
    "output",
];

fn one_child(words: &[&str]) -> Case {
    Case::new("prefork", &[&["--children", "1"][..], words].concat())
}

fn leaves(kind: &str) -> Vec<u8> {
    task_with("leaves", &[kind.into(), kind.into()])
}

/// The processes in which the runs took place, in their order.
fn pids(case: &Case) -> Vec<i32> {
    told(&case.trial).iter().map(|told| pid(told, "pid")).collect()
}

/// However often a task has left nothing, the run after the one that leaves something sees nothing of it.
#[test]
fn a_child_that_is_not_as_before_is_replaced() {
    const CLEAN: usize = 8;
    let mut case = one_child(&["--concurrency", "1"]);
    let mut calls = Vec::new();
    for kind in KINDS {
        calls.extend((0..CLEAN).map(|_| leaves("nothing")));
        calls.push(leaves(kind));
    }
    calls.extend((0..CLEAN).map(|_| leaves("nothing")));
    calls.extend([task("leaves_a_future", "future"), leaves("nothing")]);
    case.trial.push(&calls);
    case.trial.wait_runs(calls.len());
    case.trial.wait_settled();
    let pids = pids(&case);
    for (n, pair) in pids.windows(2).enumerate() {
        let (is_same, kind) = (pair[0] == pair[1], KINDS.get(n / (CLEAN + 1)).unwrap_or(&"future"));
        let is_clean = n % (CLEAN + 1) != CLEAN;
        assert_eq!(is_same, is_clean, "{kind}, run {n}: expected a new process after it alone: {pids:?}");
    }
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), calls.len() as u64, "{stopped}");
}

#[test]
fn no_call_is_buried_for_the_one_before_it() {
    let mut case = one_child(&["--concurrency", "8"]);
    let dangers = ["thread_aborts", "alarm", "thread_exits", "posix_timer", "thread_eats"];
    let mut calls = Vec::new();
    for kind in dangers {
        calls.extend([leaves(kind), task_with("lasts", &[kind.into(), 100.into()])]);
        calls.push(task("leaves_a_future", "future"));
        calls.push(task_with("leaks", &["small".into(), 0.into(), 2.into()]));
    }
    case.trial.push(&calls);
    case.trial.wait_settled();
    let letters = case.letters();
    assert!(letters.is_empty(), "expected nothing to be buried: {letters:#?}");
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), calls.len() as u64, "{stopped}");
    // A run that lasts notes two lines.
    assert_eq!(case.trial.ledger.total() as usize, calls.len() + dangers.len());
}

#[test]
fn what_a_thread_prints_is_nobody_elses() {
    let mut case = one_child(&["--concurrency", "4"]);
    for n in 0..5 {
        case.trial.push(&[leaves("thread_prints"), task_with("lasts", &[n.to_string().into(), 20.into()])]);
    }
    case.trial.wait_settled();
    case.end_with(&[]);
    let printed = case.worker.printed();
    let mut wrong = String::new();
    for line in printed.lines().filter(|line| line.contains("printed by a thread")) {
        if line.contains("isolation.lasts") {
            let _ = writeln!(wrong, "{line}");
        }
    }
    assert!(wrong.is_empty(), "expected it under no other task's name:\n{wrong}");
}

#[test]
fn a_child_whose_client_has_connected_is_used_again() {
    for name in ["who_enqueues", "who_enqueues_blocking"] {
        let mut case = one_child(&["--concurrency", "1"]);
        let calls: Vec<_> = (0..20).map(|n| task(name, &n.to_string())).collect();
        case.trial.push(&calls);
        case.trial.wait_runs(calls.len());
        case.trial.wait_settled();
        let pids = pids(&case);
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{name}: expected one process for all: {pids:?}");
        case.end_with(&["other", "other_noti"]);
    }
}

#[test]
fn a_child_that_is_as_before_is_used_again() {
    let mut case = one_child(&["--concurrency", "1"]);
    let names = ["cleans_up", "cleans_up_async", "uses_files", "who_blocking", "who"];
    let calls: Vec<_> = (0..40).map(|n| task(names[n % names.len()], &n.to_string())).collect();
    case.trial.push(&calls);
    case.trial.wait_runs(calls.len());
    case.trial.wait_settled();
    let pids = pids(&case);
    // A thread that ends late on a busy machine may cost a process once, not after each run of its task.
    for (first, name) in names.iter().enumerate() {
        let mut runs = (first..calls.len() - 1).step_by(names.len());
        assert!(runs.any(|n| pids[n] == pids[n + 1]), "expected a process to be used after {name}: {pids:?}");
    }
    case.end_with(&[]);
}
