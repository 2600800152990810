//! What is claimed ahead begins when something ends, in its order, and is nobody's secret: it can be killed, is put back
//! when its worker stops, and is run by others when that dies.

use delayed::CallId;
use nix::sys::signal::Signal;
use serde_json::Value;

use super::concurrency::most;
use super::kill::{kill, with_id};
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, Trial, call, count, gated, mark, marks, open};
use crate::support::wait;

/// A worker that runs one call and has claimed four more of six.
fn ahead() -> (Trial, Program, std::path::PathBuf) {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    trial.push(&[gated("held", &gate)]);
    trial.push(&marks(5));
    let worker = trial.worker(&["--concurrency", "1", "--prefetch", "4", "--lease", "1s", "--no-sweep"]);
    wait::until("five to be claimed", PATIENCE, || trial.left() == (1, 5));
    trial.wait_runs(1);
    (trial, worker, gate)
}

#[test]
fn prefetched_calls_begin_in_order_when_a_slot_is_free() {
    let (mut trial, mut worker, gate) = ahead();
    let seen = trial.command(DELAYED).args(["workers", "--redis", &trial.server.url()]).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("runs 1 of 1, 4 ahead"), "{seen}");
    // Time in which it would run what it has.
    wait::pause(std::time::Duration::from_millis(100));
    assert_eq!(trial.ledger.lines(), ["+held"], "expected one run at a time");
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 6, "{stopped}");
    assert_eq!(trial.ledger.lines(), ["+held", "-held", "0", "1", "2", "3", "4"]);
    trial.assert_only(&[]);
}

#[test]
fn no_more_run_at_a_time() {
    for (concurrency, prefetch) in [(1, 9), (3, 20), (6, 2)] {
        let mut trial = Trial::new();
        let tasks = ["trial.span", "trial.span_blocking"];
        let calls = (0..200).map(|n| call(tasks[n % 2], &[n.to_string().into(), (n % 7).into()]));
        let calls: Vec<Vec<u8>> = calls.collect();
        trial.push(&calls);
        let (slots, ahead) = (concurrency.to_string(), prefetch.to_string());
        let mut worker = trial.worker(&["--concurrency", &slots, "--prefetch", &ahead, "--burst"]);
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 200, "{stopped}");
        assert_eq!(most(&trial.ledger.lines()), concurrency);
        trial.ledger.assert_each_once((0..200).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
        trial.assert_only(&[]);
    }
}

#[test]
fn a_worker_that_stops_puts_it_back_at_once_and_in_its_order() {
    let (mut trial, mut worker, gate) = ahead();
    let all: Vec<Vec<u8>> = marks(5);
    worker.signal(Signal::SIGTERM);
    wait::until("it to be put back", PATIENCE, || trial.left() == (5, 1));
    assert_eq!(trial.state().waiting, all, "expected the order that they had");
    open(&gate);
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (1, 4), "{stopped}");
    assert_eq!(trial.ledger.lines(), ["+held", "-held"]);
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn a_worker_that_stops_at_once_puts_it_back_with_what_runs() {
    let (mut trial, mut worker, gate) = ahead();
    worker.signal(Signal::SIGTERM);
    wait::until("it to be put back", PATIENCE, || trial.left() == (5, 1));
    worker.signal(Signal::SIGTERM);
    trial.ended(&mut worker);
    assert_eq!(trial.state().waiting, [vec![gated("held", &gate)], marks(5)].concat());
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn what_is_quiet_runs_what_it_has() {
    let (mut trial, mut worker, gate) = ahead();
    worker.signal(Signal::SIGUSR1);
    worker.wait_for_line("claiming ended");
    open(&gate);
    trial.wait_runs(6);
    wait::until("all that it had to be released", PATIENCE, || trial.left() == (1, 0));
    trial.stop(&mut worker);
    assert_eq!(trial.state().waiting, [mark(4)]);
}

#[test]
fn others_run_it_when_its_worker_dies() {
    let (mut trial, mut worker, gate) = ahead();
    worker.kill9();
    let _sweeper = trial.sweeper(&["--interval", "100ms", "--queue", "q"]);
    open(&gate);
    let mut heir = trial.worker(&["--concurrency", "2", "--prefetch", "1"]);
    trial.wait_settled();
    trial.stop(&mut heir);
    // Only what had begun runs twice.
    assert_eq!(trial.ledger.lines().iter().filter(|line| *line == "+held").count(), 2);
    trial.ledger.assert_each_at_least_once(["+held", "-held", "0", "1", "2", "3", "4"], 1);
}

#[test]
fn what_others_took_from_a_worker_that_stood_still_runs_once() {
    let (mut trial, mut first, gate) = ahead();
    first.signal(Signal::SIGSTOP);
    let mut second = trial.worker(&["--concurrency", "2"]);
    trial.wait_runs(7);
    first.signal(Signal::SIGCONT);
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut first);
    assert_eq!(count(&stopped, "lost"), 5, "{stopped}");
    trial.stop(&mut second);
    // What had begun before is the exception.
    let names = ["+held", "-held", "0", "1", "2", "3", "4"];
    assert!(names[2..].iter().all(|name| trial.ledger.executions()[*name] == 1));
    trial.ledger.assert_each_at_least_once(names, 2);
    trial.assert_only(&[]);
}

#[test]
fn it_is_killed_before_it_begins() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let ids = [CallId::new(), CallId::new()];
    trial.push(&[gated("held", &gate)]);
    for id in ids {
        trial.push(&[with_id("trial.mark", &Value::from(id.to_string()), id)]);
    }
    let mut worker = trial.worker(&["--concurrency", "1", "--prefetch", "2"]);
    wait::until("all to be claimed", PATIENCE, || trial.left() == (0, 3));
    kill(&trial, &ids[0].to_string()).unwrap();
    assert_eq!(trial.reasons(), ["killed"]);
    // Another takes its place, in the slot that it had.
    trial.push(&[mark("late")]);
    wait::until("it to be claimed", PATIENCE, || trial.left() == (0, 3));
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (3, 1), "{stopped}");
    assert_eq!(trial.ledger.lines(), ["+held", "-held", &ids[1].to_string(), "late"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn prefetched_quick_calls_go_to_others_when_one_takes_long() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    trial.push(&marks(1000));
    trial.push(&[gated("held", &gate)]);
    let behind: Vec<Vec<u8>> = (1000..1100).map(mark).collect();
    trial.push(&behind);
    let mut worker = trial.worker(&["--concurrency", "1"]);
    wait::until("all but one to be put back", PATIENCE, || trial.left() == (100, 1));
    assert_eq!(trial.state().waiting, behind, "expected the order that they had");
    let mut other = trial.worker(&["--concurrency", "1", "--burst"]);
    let stopped = trial.ended(&mut other);
    assert_eq!(count(&stopped, "succeeded"), 100, "{stopped}");
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 1001, "{stopped}");
    assert!(count(&stopped, "put_back") > 0, "expected something to be claimed ahead: {stopped}");
    let all = (0..1100).map(|n| n.to_string()).chain(["+held".into(), "-held".into()]);
    trial.ledger.assert_each_once(all);
    trial.assert_only(&[]);
}

#[test]
fn by_itself_a_worker_asks_once_for_many_quick_calls() {
    let claims = |words: &[&str]| {
        let mut trial = Trial::new();
        trial.push(&marks(3000));
        trial.commands();
        let mut worker = trial.worker(&[&["--concurrency", "1", "--burst", "--no-sweep"], words].concat());
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 3000, "{stopped}");
        trial.commands()["evalsha"]
    };
    let (with, without) = (claims(&[]), claims(&["--prefetch", "0"]));
    assert!(without > 3000 && with < 1000, "{with} calls of scripts, and {without} without prefetch");
}

#[test]
fn by_itself_a_worker_claims_nothing_ahead_of_what_takes_long() {
    let mut trial = Trial::new();
    let gates: Vec<_> = (0..8).map(|n| trial.gate(&format!("gate{n}"))).collect();
    let calls: Vec<Vec<u8>> = gates.iter().enumerate().map(|(n, gate)| gated(n, gate)).collect();
    trial.push(&calls);
    let mut worker = trial.worker(&["--concurrency", "2"]);
    for (n, gate) in gates.iter().enumerate() {
        let left = (6_u64.saturating_sub(n as u64), 2.min(8 - n as u64));
        wait::until("two to be owned", PATIENCE, || trial.left() == left);
        // Time in which more could be claimed, and longer than what is claimed ahead.
        wait::pause(std::time::Duration::from_millis(30));
        assert_eq!(trial.left(), left);
        open(gate);
    }
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (8, 0), "{stopped}");
    trial.assert_only(&[]);
}

#[test]
fn slots_that_are_held_do_not_make_it_claim_and_put_back() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let held: Vec<Vec<u8>> = (0..15).map(|n| gated(n, &gate)).collect();
    trial.push(&held);
    let mut worker = trial.worker(&["--concurrency", "16"]);
    trial.wait_runs(15);
    // One slot is left, and a call on a thread takes it until it has ended.
    let quick = |n: u32| call("trial.mark_blocking", &[n.to_string().into()]);
    let calls: Vec<Vec<u8>> = (0..3000).map(quick).collect();
    trial.push(&calls);
    trial.wait_runs(15 + 3000);
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 3015, "{stopped}");
    // Before it knows better, it may claim all that it can.
    let put_back = count(&stopped, "put_back");
    assert!(put_back < 1500, "{put_back} of 3000 were put back");
    trial.assert_only(&[]);
}
