//! A process that ends without a word, of itself or by others, is a named outcome, and the worker goes on.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Case, Letter, assert_soon, pid, task, task_with, told};
use crate::support::tree::Process;
use crate::support::trial::{PATIENCE, count};
use crate::support::wait;

both! {
    each_end_without_a_word_has_its_name
    a_stack_that_overflows_is_a_crash
    a_crash_uses_up_an_attempt
    a_process_that_is_killed_from_outside_is_a_crash
    a_crash_of_which_the_news_is_late_is_told_as_it_was
    a_process_that_is_stopped_from_outside_is_killed_on_time
}

/// A letter says what the process used.
#[track_caller]
fn assert_usage(letter: &Letter) {
    let says = letter.detail.contains("s of CPU") && letter.detail.contains("MB of memory at its peak");
    assert!(says, "expected CPU time and peak memory: {letter:?}");
}

fn each_end_without_a_word_has_its_name(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let ends: [(Vec<u8>, &str); 6] = [
        (task("segfault", "segfault"), "its process was killed by SIGSEGV"),
        (task("abort", "abort"), "its process was killed by SIGABRT"),
        (task_with("exit", &["3".into(), 3.into()]), "its process ended with code 3 before the task did"),
        (task_with("exit", &["0".into(), 0.into()]), "its process ended with code 0 before the task did"),
        (
            task_with("exit", &["255".into(), 255.into()]),
            "its process ended with code 255 before the task did",
        ),
        (
            task_with("exit_async", &["4".into(), 4.into()]),
            "its process ended with code 4 before the task did",
        ),
    ];
    for (n, (message, detail)) in ends.iter().enumerate() {
        case.trial.push(&[message]);
        case.wait_dead(n + 1);
        let letter = case.letters().remove(n);
        assert_eq!(letter.reason, "crashed", "{letter:?}");
        assert!(letter.detail.starts_with(detail), "expected {detail:?}: {letter:?}");
        assert_usage(&letter);
    }
    case.goes_on();
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (1, 6), "{stopped}");
    let executions = case.trial.ledger.executions();
    assert!(
        ["segfault", "abort", "3", "0", "255", "4"].iter().all(|n| executions[*n] == 1),
        "{executions:?}"
    );
}

fn a_stack_that_overflows_is_a_crash(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    case.trial.push(&[task("overflow", "a")]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "crashed", "{letter:?}");
    let named = ["SIGSEGV", "SIGABRT", "SIGBUS"].iter().any(|name| letter.detail.contains(name));
    assert!(named, "expected the signal: {letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn a_crash_uses_up_an_attempt(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let payload = rmp_serde::to_vec("a").unwrap();
    let meta = delayed::__private::protocol::encode::Meta { retry: Some(2), ..Default::default() };
    case.trial.push(&[delayed::__private::protocol::encode::native("isolation.abort", &payload, &meta)]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!((letter.reason.as_str(), letter.attempt.as_str()), ("crashed", "3"), "{letter:?}");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "retried"), 2, "{stopped}");
    case.trial.ledger.assert_each_at_least_once(["a"], 2);
    assert_eq!(case.trial.ledger.total(), 3, "expected three runs");
}

/// The process of a run that waits for a file that never comes.
fn held(case: &mut Case, n: &str) -> Process {
    let gate = case.trial.gate("never");
    let before = told(&case.trial).len();
    case.trial.push(&[task_with("belongings", &[n.into(), gate.to_str().unwrap().into()])]);
    wait::until("the run to begin", PATIENCE, || told(&case.trial).len() > before);
    Process::of(pid(&told(&case.trial)[before], "pid")).expect("expected the process of a run")
}

fn a_process_that_is_killed_from_outside_is_a_crash(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    for (n, signal) in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGHUP].into_iter().enumerate() {
        let child = held(&mut case, signal.as_ref());
        child.signal(signal);
        case.wait_dead(n + 1);
        let letter = case.letters().remove(n);
        assert_eq!(letter.reason, "crashed", "{letter:?}");
        assert!(letter.detail.starts_with(&format!("its process was killed by {signal}")), "{letter:?}");
        assert_usage(&letter);
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.total(), 4, "expected a run each, and one more");
}

fn a_crash_of_which_the_news_is_late_is_told_as_it_was(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    let child = held(&mut case, "a");
    case.zygote().signal(Signal::SIGSTOP);
    child.signal(Signal::SIGHUP);
    // For longer than a process may run on that has closed its pipe.
    wait::pause(Duration::from_secs(1));
    case.zygote().signal(Signal::SIGCONT);
    case.wait_dead(1);
    let letter = case.letter();
    assert!(letter.detail.starts_with("its process was killed by SIGHUP"), "{letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn a_process_that_is_stopped_from_outside_is_killed_on_time(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "300ms"]);
    let began = Instant::now();
    let child = held(&mut case, "a");
    child.signal(Signal::SIGSTOP);
    case.wait_dead(1);
    assert_soon(began, Duration::from_secs(20), "the end of what was stopped");
    assert_eq!(case.letter().reason, "timed_out");
    assert_eq!(Process::of(child.pid), None, "expected nothing to be left of it");
    case.goes_on();
    case.end_with(&["q_dead"]);
}

/// SIGKILL of a child whose own children are in its group.
#[test]
fn the_children_of_what_is_killed_from_outside_die_too() {
    let mut case = Case::new("fork", &[]);
    let gate = case.trial.gate("never");
    let kinds = ["group", "session", "daemon", "nohup", "deaf"];
    let calls =
        kinds.map(|kind| task_with("family", &[kind.into(), kind.into(), gate.to_str().unwrap().into()]));
    case.trial.push(&calls);
    case.trial.wait_runs(kinds.len());
    let all = || case.everybody();
    wait::until("all to sleep", PATIENCE, || all().iter().filter(|p| p.name == "sleep").count() == 8);
    for child in case.children() {
        child.signal(Signal::SIGKILL);
    }
    case.wait_dead(kinds.len());
    for letter in case.letters() {
        assert_eq!(letter.reason, "crashed", "{letter:?}");
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
}
