//! Worker, subreaper, zygote, children: whichever of them is killed, no orphan survives.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use redis::Commands;

use super::{Case, assert_soon, everybody, exit_code, families, nobody, task, task_with};
use crate::support::tree::Process;
use crate::support::trial::{PATIENCE, Trial, count, open};
use crate::support::wait;

both! {
    a_worker_that_is_killed_with_16_children_leaves_nobody
    a_zygote_that_is_killed_ends_the_worker_and_loses_what_ran
    subreaper_that_is_killed_ends_the_worker_and_loses_what_ran
    a_worker_whose_zygote_died_while_idle_ends_too
    inline_run_may_end_though_the_zygote_dies_during_the_stop
    a_worker_that_is_stopped_and_killed_leaves_nobody
    a_worker_that_is_killed_with_its_group_leaves_nobody
    a_group_that_is_interrupted_lets_its_children_end
}

/// Sixteen runs that hang in all ways there are.
fn hang(case: &mut Case) -> Vec<Vec<u8>> {
    let gate = case.trial.gate("never");
    let gate = gate.to_str().unwrap();
    let family = |kind: &str| task_with("family", &[format!("{kind} 1").into(), kind.into(), gate.into()]);
    let mut calls: Vec<Vec<u8>> = families::KINDS.iter().map(|(kind, _)| family(kind)).collect();
    let names = ["sleep", "sleep_blocking", "spin", "deaf", "stopped", "stopped_and_deaf", "deaf", "sleep"];
    calls.extend(names.iter().enumerate().map(|(n, name)| task(name, &format!("{name} {n}"))));
    calls.extend(
        ["group", "daemon", "deaf"]
            .map(|kind| task_with("family", &[format!("{kind} 2").into(), kind.into(), gate.into()])),
    );
    assert_eq!(calls.len(), 16);
    case.trial.push(&calls);
    case.trial.wait_runs(16);
    wait::until("all families to be complete", PATIENCE, || families::sleeping(case) == 14);
    assert!(case.children().len() >= 16, "expected 16 children: {:#?}", case.children());
    calls
}

const WORDS: [&str; 4] = ["--concurrency", "16", "--lease", "1s"];

fn words(mode: &str) -> Vec<&'static str> {
    let mut words = WORDS.to_vec();
    if mode == "prefork" {
        words.extend(["--children", "16"]);
    }
    words
}

/// What was owned by a worker that died runs again elsewhere, where its time is up after a while.
#[track_caller]
fn runs_again(trial: Trial, mode: &'static str, calls: usize) {
    let words = [&words(mode)[..], &["--timeout", "4s", "--grace", "300ms"]].concat();
    let mut case = Case::of(trial, mode, &words);
    case.wait_dead(calls);
    case.end_with(&["q_dead"]);
    let letters = case.letters();
    assert!(
        letters.iter().all(|letter| letter.reason == "timed_out" && letter.attempt == "1"),
        "{letters:#?}"
    );
    let executions = case.trial.ledger.executions();
    assert!(executions.values().all(|runs| *runs == 2), "expected each to run twice: {executions:?}");
    assert_eq!(executions.len(), calls, "{executions:?}");
}

fn a_worker_that_is_killed_with_16_children_leaves_nobody(mode: &'static str) {
    let mut case = Case::new(mode, &words(mode));
    let calls = hang(&mut case);
    let began = Instant::now();
    case.worker.kill9();
    case.nobody();
    println!("{mode}: nobody was left {:?} after the kill", began.elapsed());
    let state = case.trial.state();
    assert_eq!((state.processing.len(), state.waiting.len(), state.dead.len()), (16, 0, 0), "{state:#?}");
    assert_eq!(case.trial.ledger.total(), 16, "expected one run each so far");
    runs_again(case.trial, mode, calls.len());
}

/// A worker that lost its zygote or its subreaper: it says so and ends, and what ran isolated is lost with it, so that a
/// task of which zygotes die is found out. Somebody else runs it again.
#[track_caller]
fn ends_and_loses_what_ran(mut case: Case, calls: &[Vec<u8>], began: Instant) {
    let code = exit_code(&mut case.worker);
    assert!(
        code.is_some_and(|code| code != 0),
        "expected a bad end, not {code:?}: {}",
        case.worker.printed()
    );
    assert_soon(began, Duration::from_secs(20), "the worker's end");
    case.worker.wait_for_line("\"ERROR\"");
    case.nobody();
    let state = case.trial.state();
    assert!(state.dead.is_empty(), "{state:#?}");
    let mut left: Vec<Vec<u8>> = state.waiting.into_iter().chain(state.processing.into_values()).collect();
    let mut expected = calls.to_vec();
    left.sort();
    expected.sort();
    assert_eq!(left, expected, "expected all to be there as they came");
    assert_eq!(case.trial.ledger.total() as usize, calls.len(), "expected one run each");
    runs_again(case.trial, case.mode, calls.len());
}

fn a_zygote_that_is_killed_ends_the_worker_and_loses_what_ran(mode: &'static str) {
    let mut case = Case::new(mode, &words(mode));
    let calls = hang(&mut case);
    let began = Instant::now();
    case.zygote().signal(Signal::SIGKILL);
    ends_and_loses_what_ran(case, &calls, began);
}

fn subreaper_that_is_killed_ends_the_worker_and_loses_what_ran(mode: &'static str) {
    let mut case = Case::new(mode, &words(mode));
    let calls = hang(&mut case);
    let began = Instant::now();
    case.subreaper().signal(Signal::SIGKILL);
    ends_and_loses_what_ran(case, &calls, began);
}

fn a_worker_whose_zygote_died_while_idle_ends_too(mode: &'static str) {
    for victim in [1, 2] {
        let mut case = Case::new(mode, &words(mode));
        case.goes_on();
        let began = Instant::now();
        case.family[victim].signal(Signal::SIGKILL);
        let code = exit_code(&mut case.worker);
        assert!(code.is_some_and(|code| code != 0), "expected a bad end: {}", case.worker.printed());
        assert_soon(began, Duration::from_secs(20), "the worker's end");
        case.nobody();
        case.trial.assert_only(&[]);
    }
}

fn inline_run_may_end_though_the_zygote_dies_during_the_stop(mode: &'static str) {
    let mut case = Case::new(mode, &["--lease", "1s"]);
    let gate = case.trial.gate("gate");
    let gated = |name: &str, n: &str| task_with(name, &[n.into(), gate.to_str().unwrap().into()]);
    case.trial.push(&[gated("gated_inline", "inline"), gated("gated", "isolated")]);
    case.trial.wait_runs(2);
    case.worker.signal(Signal::SIGTERM);
    case.worker.wait_for_line("send the signal again to stop immediately");
    case.zygote().signal(Signal::SIGKILL);
    case.worker.wait_for_line("message left to the sweeper");
    let mut beats = HashSet::new();
    wait::until("signs of life", PATIENCE, || {
        beats
            .extend(case.trial.redis.zrange_withscores::<_, Vec<(String, u64)>>("q_workers", 0, -1).unwrap());
        beats.len() > 2 || case.worker.has_ended()
    });
    assert!(!case.worker.has_ended(), "expected it to wait: {}", case.worker.printed());
    open(&gate);
    let code = exit_code(&mut case.worker);
    assert!(code.is_some_and(|code| code != 0), "expected a bad end: {}", case.worker.printed());
    case.nobody();
    let stopped: serde_json::Value = serde_json::from_str(&case.worker.wait_for_line("\"stopped\"")).unwrap();
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (1, 0), "{stopped}");
    assert_eq!(case.trial.left().1, 1, "expected the isolated one to be left");
}

fn a_worker_that_is_stopped_and_killed_leaves_nobody(mode: &'static str) {
    let mut case = Case::new(mode, &words(mode));
    hang(&mut case);
    case.worker.signal(Signal::SIGSTOP);
    let worker = case.worker.pid().as_raw();
    wait::until("the worker to stop", PATIENCE, || Process::of(worker).is_some_and(|it| it.state == 'T'));
    case.worker.kill9();
    case.nobody();
    assert_eq!(case.trial.state().processing.len(), 16, "expected all to be owned by the dead");
}

fn a_worker_that_is_killed_with_its_group_leaves_nobody(mode: &'static str) {
    let mut case = Case::new(mode, &words(mode));
    hang(&mut case);
    killpg(case.worker.pid(), Signal::SIGKILL).unwrap();
    let _ = exit_code(&mut case.worker);
    case.nobody();
    assert_eq!(case.trial.state().processing.len(), 16, "expected all to be owned by the dead");
}

/// As Ctrl-C does at a terminal.
fn a_group_that_is_interrupted_lets_its_children_end(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let gate = case.trial.gate("gate");
    case.trial.push(&["a", "b"].map(|n| task_with("gated", &[n.into(), gate.to_str().unwrap().into()])));
    case.trial.wait_runs(2);
    killpg(case.worker.pid(), Signal::SIGINT).unwrap();
    case.worker.wait_for_line("send the signal again to stop immediately");
    assert!(case.family.iter().all(|known| Process::of(known.pid).is_some_and(|now| now.is_alive())));
    open(&gate);
    let stopped = case.trial.ended(&mut case.worker);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    nobody(&case.trial);
    assert!(everybody(&case.trial).is_empty());
    case.trial.ledger.assert_each_once(["+a", "-a", "+b", "-b"]);
    case.trial.assert_only(&[]);
}
