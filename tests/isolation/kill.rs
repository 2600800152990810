//! Somebody may end a running call by hand, wherever it runs; its letter says who.

use std::time::{Duration, Instant};

use delayed::CallId;

use super::{Case, assert_soon, families, letters, nobody, task};
use crate::support::process::DELAYED;
use crate::support::trial::{PATIENCE, Trial, count, mark, open};
use crate::support::wait;

mod calls {
    #[delayed::task(name = "isolation.deaf", queue = "q")]
    pub(super) fn deaf(n: String) {
        drop(n);
    }

    #[delayed::task(name = "isolation.family", queue = "q")]
    pub(super) fn family(n: String, kind: String, gate: String) {
        let _ = (n, kind, gate);
    }

    #[delayed::task(name = "isolation.guarded", queue = "q")]
    pub(super) async fn guarded(n: String) {
        drop(n);
    }

    #[delayed::task(name = "isolation.gated", queue = "q")]
    pub(super) fn gated(n: String, gate: String) {
        let _ = (n, gate);
    }
}

both! {
    a_running_call_is_killed_for_good
    its_family_goes_with_it
    it_is_found_on_whichever_worker
}

/// Kills a call by its id: the exit code, and what was said.
fn kill(trial: &Trial, id: &str) -> (Option<i32>, String) {
    let url = trial.server.url();
    let output = trial.command(DELAYED).args(["tasks", "kill", id, "--redis", &url]).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

#[track_caller]
fn assert_killed(trial: &mut Trial, count: usize) {
    wait::until("a dead letter", PATIENCE, || trial.dead() == count);
    for letter in letters(trial) {
        assert_eq!((letter.reason.as_str(), letter.attempt.as_str()), ("killed", "1"), "{letter:?}");
        let by = letter.detail.strip_prefix("killed by ").unwrap_or_default();
        assert!(!by.trim().is_empty(), "expected who did it: {letter:?}");
    }
}

fn a_running_call_is_killed_for_good(mode: &'static str) {
    let mut case = Case::new(mode, &["--grace", "1h"]);
    // In a child that has waited for it, where there is a pool.
    case.goes_on();
    case.trial.wait_settled();
    let id = CallId::new();
    // It would be retried forever.
    let call = calls::deaf::call("a".into()).id(id).retry(-1);
    case.trial.push(&[call.encode().unwrap()]);
    case.trial.wait_runs(2);
    let began = Instant::now();
    let (code, said) = kill(&case.trial, &id.to_string());
    assert_eq!(code, Some(0), "{said}");
    assert_killed(&mut case.trial, 1);
    assert_soon(began, Duration::from_secs(20), "its end");
    let (code, said) = kill(&case.trial, &id.to_string());
    assert_ne!(code, Some(0), "expected nothing to be there to kill: {said}");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn its_family_goes_with_it(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h", "--concurrency", "8"]);
    let gate = case.trial.gate("never").to_str().unwrap().to_owned();
    let ids: Vec<CallId> = families::KINDS.iter().map(|_| CallId::new()).collect();
    for ((kind, _), id) in families::KINDS.iter().zip(&ids) {
        let call = calls::family::call((*kind).into(), (*kind).into(), gate.clone()).id(*id);
        case.trial.push(&[call.encode().unwrap()]);
    }
    wait::until("all families to be complete", PATIENCE, || families::sleeping(&case) == 8);
    for id in &ids {
        let (code, said) = kill(&case.trial, &id.to_string());
        assert_eq!(code, Some(0), "{said}");
    }
    assert_killed(&mut case.trial, ids.len());
    case.wait_rest();
    wait::until("nobody to sleep", PATIENCE, || families::sleeping(&case) == 0);
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.total() as usize, ids.len());
}

fn it_is_found_on_whichever_worker(mode: &'static str) {
    let mut trial = Trial::new();
    let words = ["--isolation", mode, "--concurrency", "1"];
    let mut workers = [trial.worker(&words), trial.worker(&words), trial.worker(&words)];
    let ids = [CallId::new(), CallId::new(), CallId::new()];
    let gate = trial.gate("gate");
    for (n, id) in ids.iter().enumerate() {
        let call = calls::gated::call(n.to_string(), gate.to_str().unwrap().into()).id(*id);
        trial.push(&[call.encode().unwrap()]);
    }
    trial.wait_runs(3);
    let (code, said) = kill(&trial, &ids[1].to_string());
    assert_eq!(code, Some(0), "{said}");
    assert_killed(&mut trial, 1);
    open(&gate);
    for worker in &mut workers {
        trial.stop(worker);
    }
    nobody(&trial);
    trial.ledger.assert_each_once(["+0", "-0", "+1", "+2", "-2"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_waits_for_a_child_is_killed_before_it_runs() {
    let mut case = Case::new("prefork", &["--concurrency", "3", "--children", "1"]);
    let gate = case.trial.gate("gate");
    let gated = |n: &str| calls::gated::call(n.into(), gate.to_str().unwrap().into());
    case.trial.push(&[gated("held").encode().unwrap()]);
    case.trial.wait_runs(1);
    let ids = [CallId::new(), CallId::new()];
    for id in ids {
        case.trial.push(&[gated(&id.to_string()).id(id).retry(-1).encode().unwrap()]);
    }
    wait::until("all to be claimed", PATIENCE, || case.trial.state().processing.len() == 3);
    let (code, said) = kill(&case.trial, &ids[0].to_string());
    assert_eq!(code, Some(0), "{said}");
    assert_killed(&mut case.trial, 1);
    open(&gate);
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (2, 1), "{stopped}");
    let other = ids[1].to_string();
    case.trial.ledger.assert_each_once(["+held", "-held", &format!("+{other}"), &format!("-{other}")]);
}

#[test]
fn a_future_is_cancelled() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let id = CallId::new();
    trial.push(&[calls::guarded::call("a".into()).id(id).retry(-1).encode().unwrap(), mark("other")]);
    trial.wait_runs(2);
    let (code, said) = kill(&trial, &id.to_string());
    assert_eq!(code, Some(0), "{said}");
    assert_killed(&mut trial, 1);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+a", "-a", "other"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_does_not_run_cannot_be_killed() {
    let mut trial = Trial::new();
    let mut case = trial.worker(&["--isolation", "fork"]);
    let (code, said) = kill(&trial, &CallId::new().to_string());
    assert_eq!(code, Some(6), "expected no such call: {said}");
    let (code, said) = kill(&trial, "no id");
    assert!(code.is_some_and(|code| code != 0), "{said}");
    trial.push(&[task("who", "a")]);
    trial.wait_runs(1);
    trial.stop(&mut case);
    nobody(&trial);
    trial.assert_only(&[]);
}
