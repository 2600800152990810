//! A child may do what it likes to what it reports through: the worker is not held up, not misled and not filled.

use std::time::{Duration, Instant};

use super::{Case, assert_soon, task, task_with};
use crate::support::process::Program;
use crate::support::trial::{QUEUE, Trial, WORKER, count};

both! {
    what_closes_its_pipe_and_runs_on_is_killed_on_time
    what_closes_its_pipe_and_ends_has_crashed
    garbage_is_not_a_report
    a_gigabyte_of_garbage_fills_nobody
    garbage_before_a_good_end_settles_the_run_once
    a_full_table_does_not_hold_up_the_report
}

fn what_closes_its_pipe_and_runs_on_is_killed_on_time(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1s", "--grace", "300ms"]);
    let began = Instant::now();
    case.trial.push(&[task("closes", "a")]);
    case.wait_dead(1);
    assert_soon(began, Duration::from_secs(20), "the end of what closed its pipe");
    let letter = case.letter();
    // It may be killed at once for what it did, or when its time is up.
    assert!(["timed_out", "crashed"].contains(&letter.reason.as_str()), "{letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn what_closes_its_pipe_and_ends_has_crashed(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "5s", "--grace", "300ms"]);
    case.trial.push(&[task("closes_and_ends", "a")]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "crashed", "{letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn garbage_is_not_a_report(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "10s", "--grace", "300ms"]);
    // All kinds of beginnings: text, zeros, lengths that are far too long; and one byte alone.
    let kinds = [(b'x', 100_000_u64), (0, 100_000), (0xff, 100_000), (0x7f, 1000), (1, 1000), (0xc1, 1000)];
    let soils =
        |(byte, bytes): (u8, u64)| task_with("soils", &[byte.to_string().into(), byte.into(), bytes.into()]);
    case.trial.push(&kinds.map(soils));
    case.wait_dead(kinds.len());
    for letter in case.letters() {
        assert!(["crashed", "timed_out"].contains(&letter.reason.as_str()), "{letter:?}");
    }
    let said = case.letters().iter().filter(|letter| letter.detail.contains("an invalid report")).count();
    assert!(said > 0, "expected garbage to be called by its name: {:#?}", case.letters());
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    assert!(kinds.iter().all(|(byte, _)| executions[&byte.to_string()] == 1), "{executions:?}");
}

fn a_gigabyte_of_garbage_fills_nobody(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "10s", "--grace", "300ms"]);
    let before: Vec<u64> = case.family.iter().map(|process| process.kilobytes("VmHWM")).collect();
    for (n, byte) in [0xff_u8, 0, b'x'].into_iter().enumerate() {
        let flood = task_with("soils", &[byte.to_string().into(), byte.into(), (1_u64 << 30).into()]);
        case.trial.push(&[flood]);
        case.wait_dead(n + 1);
    }
    for letter in case.letters() {
        assert!(["crashed", "timed_out", "exceeded"].contains(&letter.reason.as_str()), "{letter:?}");
    }
    for (process, before) in case.family.iter().zip(before) {
        let now = process.kilobytes("VmHWM");
        assert!(now < before + 200_000, "expected {process} to keep its size: {before} kB became {now} kB");
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn garbage_before_a_good_end_settles_the_run_once(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "10s", "--grace", "300ms"]);
    for byte in [b'x', 0, 0xff] {
        case.trial.push(&[task_with("soils_and_ends", &[byte.to_string().into(), byte.into(), 5.into()])]);
    }
    case.trial.wait_runs(3);
    case.trial.wait_settled();
    // A good report that was read before the process was killed for the garbage counts.
    let letters = case.letters();
    assert!(letters.iter().all(|letter| letter.reason == "crashed"), "{letters:#?}");
    case.goes_on();
    let stopped = case.end();
    assert_eq!(count(&stopped, "succeeded") + letters.len() as u64, 4, "{stopped} {letters:#?}");
    let executions = case.trial.ledger.executions();
    assert!([b'x', 0, 0xff].iter().all(|byte| executions[&byte.to_string()] == 1), "{executions:?}");
}

/// A worker, and so its children, may have 256 descriptors each.
fn narrow(mode: &'static str, words: &[&str]) -> Case {
    let trial = Trial::new();
    let mut command = trial.command("prlimit");
    command.args(["--nofile=256:256", WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE]);
    let worker = Program::spawn(command.args(["--isolation", mode]).args(words));
    worker.wait_for_line("\"serving\"");
    let family = super::family(&trial, &worker);
    Case { trial, worker, family, mode }
}

fn a_full_table_does_not_hold_up_the_report(mode: &'static str) {
    // Each in a child of its own: what is full stays full.
    let words = ["--timeout", "3s", "--grace", "300ms", "--concurrency", "4", "--max-tasks", "1"];
    let mut case = narrow(mode, &words);
    let names = ["fills", "fills_and_fails", "fills_and_hangs"];
    case.trial.push(&names.map(|name| task(name, name)));
    case.wait_dead(2);
    let mut letters = case.letters();
    letters.sort_by(|one, other| one.task.cmp(&other.task));
    let of = |i: usize| (letters[i].task.as_str(), letters[i].reason.as_str());
    assert_eq!(of(0), ("isolation.fills_and_fails", "failed"), "{letters:#?}");
    assert_eq!(of(1), ("isolation.fills_and_hangs", "timed_out"), "{letters:#?}");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    case.trial.ledger.assert_each_once(names);
}
