//! What uses more than it may is ended, and the letter says what there was too much of.

use std::time::{Duration, Instant};

use super::{Case, Letter, assert_soon, task, task_with};
use crate::support::trial::count;

both! {
    too_much_memory_is_called_so
    too_much_address_space_is_called_so
    too_much_cpu_time_is_called_so
    too_many_descriptors_are_called_so
    too_much_output_is_called_so
    each_run_has_all_of_its_limit
    what_exceeds_uses_up_an_attempt
}

#[track_caller]
fn assert_exceeded(letter: &Letter, text: &str) {
    assert_eq!(letter.reason, "exceeded", "{letter:?}");
    assert!(letter.detail.contains(text), "expected {text:?}: {letter:?}");
    let says = letter.detail.contains("s of CPU") && letter.detail.contains("MB of memory at its peak");
    assert!(says, "expected what it used: {letter:?}");
}

fn too_much_memory_is_called_so(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    let began = Instant::now();
    case.trial.push(&[task_with("eats", &["a".into(), 200.into()])]);
    case.wait_dead(1);
    assert_soon(began, Duration::from_secs(20), "its end");
    let letter = case.letter();
    assert_exceeded(&letter, "bytes of memory");
    assert!(letter.detail.contains("more than 67108864 bytes"), "{letter:?}");
    // What is below the limit is left alone.
    case.trial.push(&[task_with("eats", &["b".into(), 10.into()])]);
    wait_for(&case, "b has it");
    assert_eq!(case.trial.dead(), 1, "{:#?}", case.letters());
    for child in case.children() {
        child.signal(nix::sys::signal::Signal::SIGKILL);
    }
    case.wait_dead(2);
    case.goes_on();
    case.end_with(&["q_dead"]);
}

#[track_caller]
fn wait_for(case: &Case, line: &str) {
    crate::support::wait::until(line, crate::support::trial::PATIENCE, || {
        case.trial.ledger.lines().iter().any(|it| it == line)
    });
}

fn too_much_address_space_is_called_so(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    case.trial.push(&[task("reserves", "a")]);
    case.wait_dead(1);
    assert_exceeded(&case.letter(), "bytes of address space");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn too_much_cpu_time_is_called_so(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    let began = Instant::now();
    for (n, name) in ["burns", "burns_async", "burns_deaf"].into_iter().enumerate() {
        case.trial.push(&[task_with(name, &[name.into(), 600_000.into()])]);
        case.wait_dead(n + 1);
        assert_exceeded(&case.letters()[n], "used more than 1 s of CPU time");
    }
    assert_soon(began, Duration::from_secs(50), "their end");
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    let each = ["burns", "burns_async", "burns_deaf"].map(|name| executions[name]);
    assert_eq!(each, [1, 1, 1], "{executions:?}");
}

fn too_many_descriptors_are_called_so(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    case.trial.push(&[task("opens_too_many", "a")]);
    case.wait_dead(1);
    let letter = case.letter();
    // A child of the pool lives on: what it used is not known.
    assert_eq!(letter.reason, "exceeded", "{letter:?}");
    assert!(letter.detail.starts_with("opened more than 64 descriptors"), "{letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn too_much_output_is_called_so(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    case.trial.push(&[task_with("shouts", &["a".into(), (1_u64 << 30).into()])]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_exceeded(&letter, "bytes of output");
    assert!(letter.output.contains("xxxx"), "expected its end of what it wrote: {letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

/// Also in a process that had others before: what they used is not counted.
fn each_run_has_all_of_its_limit(mode: &'static str) {
    let pool: &[&str] = if mode == "prefork" { &["--children", "1"] } else { &[] };
    let mut case = Case::new(mode, &[&["--timeout", "1h", "--concurrency", "1"][..], pool].concat());
    let name = |n: u32| format!("n{n}").into();
    for n in 0..4 {
        case.trial.push(&[task_with("burns", &[name(n), 600.into()])]);
        case.trial.push(&[task_with("shouts", &[name(n + 10), 700_000.into()])]);
        // What one without limits leaves behind is not the next one's.
        case.trial.push(&[task_with("tastes", &[name(n + 20), 150.into()])]);
        case.trial.push(&[task("who", "next")]);
    }
    case.trial.wait_runs(24);
    case.trial.wait_settled();
    assert!(case.letters().is_empty(), "{:#?}", case.letters());
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 16, "{stopped}");
}

fn what_exceeds_uses_up_an_attempt(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h"]);
    let payload = rmp_serde::to_vec(&("a", 1_u64 << 30)).unwrap();
    let meta = delayed::__private::protocol::encode::Meta { retry: Some(1), ..Default::default() };
    case.trial.push(&[delayed::__private::protocol::encode::native("isolation.shouts", &payload, &meta)]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_exceeded(&letter, "bytes of output");
    assert_eq!(letter.attempt, "2", "{letter:?}");
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 2);
}
