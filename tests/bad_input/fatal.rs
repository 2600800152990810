//! Tasks that take their process down, and tasks that never end.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::trial::{PATIENCE, Trial, call, count, mark, marks};
use crate::support::wait;

#[test]
fn double_panic_takes_five_workers_down_and_is_then_buried() {
    let mut trial = Trial::new();
    let poison = call("trial.double_panic", &["poison".into()]);
    let words = ["--concurrency", "1", "--lease", "1s"];
    trial.push(&[mark("before"), poison.clone(), mark("behind")]);
    // Two, until it runs alone, and three of which each ran it alone.
    for died in 1..=5 {
        let mut worker = trial.worker(&words);
        let status = worker.wait_exit(PATIENCE);
        assert!(!status.success(), "expected worker {died} to die: {}", worker.printed());
        let owned = trial.state().processing;
        let owned: Vec<Vec<u8>> = owned.into_values().collect();
        assert_eq!(owned, std::slice::from_ref(&poison), "expected it to be owned still");
    }
    let mut worker = trial.worker(&words);
    wait::until("the poison to be dead", PATIENCE, || trial.dead() == 1);
    trial.push(&[mark("late")]);
    trial.wait_runs(6);
    trial.wait_settled();
    trial.stop(&mut worker);
    let executions = trial.ledger.executions();
    assert_eq!(executions["poison"], 5, "{executions:?}");
    assert!(["before", "behind", "late"].iter().all(|n| executions[*n] == 1), "{executions:?}");
    let state = trial.state();
    let letter = &state.dead[0];
    assert_eq!((&letter["message"], &letter["reason"][..]), (&poison, &b"lost"[..]), "{state:#?}");
    let detail = String::from_utf8(letter["detail"].clone()).unwrap();
    assert!(detail.starts_with("3 processes died"), "expected its story: {detail}");
    assert!(state.deaths.is_empty(), "expected the count to be forgotten: {state:#?}");
    trial.assert_only(&["q_dead"]);
}

/// Runs that do not end are put back to the head, in their order, before what waits behind them.
#[track_caller]
fn puts_back(task: &str, signal: Signal) {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "3", "--shutdown", "300ms"]);
    let endless: Vec<Vec<u8>> = (0..3).map(|n| call(task, &[n.to_string().into()])).collect();
    trial.push(&endless);
    trial.wait_runs(3);
    trial.push(&marks(2));
    worker.signal(signal);
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "put_back"), count(&stopped, "lost")), (3, 0), "{stopped}");
    let state = trial.state();
    let expected: Vec<Vec<u8>> = endless.into_iter().chain(marks(2)).collect();
    assert_eq!(state.waiting, expected, "expected them at the head, unchanged");
    assert!(state.processing.is_empty(), "{state:#?}");
    trial.ledger.assert_each_once(0..3);
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn a_task_that_never_ends_is_put_back_at_the_deadline() {
    puts_back("trial.never", Signal::SIGTERM);
    puts_back("trial.never_blocking", Signal::SIGTERM);
}

#[test]
fn the_process_ends_soon_after_the_deadline() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--shutdown", "200ms"]);
    trial.push(&[call("trial.never", &["a".into()]), call("trial.never_blocking", &["b".into()])]);
    trial.wait_runs(2);
    let began = std::time::Instant::now();
    let stopped = trial.stop(&mut worker);
    let took = began.elapsed();
    println!("ended {took:?} after SIGTERM, of which 200 ms are the deadline");
    assert!(took < Duration::from_secs(5), "expected an end soon after the deadline, it took {took:?}");
    assert!(took >= Duration::from_millis(200), "expected the runs to have their time, it took {took:?}");
    assert_eq!(count(&stopped, "put_back"), 2, "{stopped}");
    trial.assert_only(&["q", "q_noti"]);
}
