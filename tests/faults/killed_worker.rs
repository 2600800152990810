//! SIGKILL of workers: what they owned runs again, and nothing else does.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redis::Commands;

use crate::support::process::Program;
use crate::support::trial::{
    Dice, PATIENCE, QUEUE, Trial, WORKER, alone, at_gate, gated, mark, marks, open, ready,
};
use crate::support::wait;

#[test]
fn ten_kills_in_the_middle_of_20_000_tasks() {
    ten_kills("0", 16);
}

#[test]
fn ten_kills_of_workers_that_claim_ahead() {
    let runs = ten_kills("auto", 16 + delayed::config::WorkerConfig::MAX_AUTO_PREFETCH);
    // What has not begun runs once.
    assert!(
        runs < CALLS as u32 + 10 * 264,
        "expected less than half of what is owned to run twice: {runs} runs"
    );
}

const CALLS: usize = 20_000;

/// Gives the number of runs.
fn ten_kills(prefetch: &str, slots: usize) -> u32 {
    let _alone = alone();
    let mut trial = Trial::new();
    trial.push(&marks(CALLS));
    let words = ["--concurrency", "16", "--prefetch", prefetch, "--lease", "1s"];
    let mut dice = Dice(0xdead_0001);
    let (mut in_flight, mut seen) = (0, HashSet::new());
    let mut worker = trial.worker(&words);
    for kill in 1..=10 {
        // Not all at the same place of a batch, and each after it has run what was first in the queue: what three workers
        // died of would be buried.
        let target = kill * 1_500 + dice.roll(500);
        let target = target.max(trial.ledger.lines().len() + 100).min(CALLS);
        wait::until("some more runs", PATIENCE, || trial.ledger.lines().len() >= target);
        worker.kill9();
        // What the one before it owned may be there still.
        let owned = trial.state().processing.into_keys().filter(|slot| seen.insert(slot.clone())).count();
        assert!(owned <= slots, "expected at most a message for each slot, there are {owned}");
        in_flight += owned as u32;
        worker = trial.worker(&words);
    }
    trial.wait_settled();
    trial.stop(&mut worker);
    let runs = trial.ledger.total();
    println!("{runs} runs of {CALLS} calls; {in_flight} were in flight at ten kills");
    trial.ledger.assert_each_at_least_once(0..CALLS, in_flight);
    assert!(trial.state().dead.is_empty(), "expected no dead letters: {:#?}", trial.state().dead);
    trial.assert_only(&[]);
    runs
}

/// Kills the only busy worker; gives how long it takes until its runs have begun again elsewhere.
fn recovery(trial: &mut Trial, mut busy: Program, idle: impl FnOnce(&Trial) -> Vec<Program>) -> Duration {
    let gate = trial.gate("gate");
    let held = |n: usize| gated(n, &gate);
    trial.push(&(0..10).map(held).collect::<Vec<_>>());
    trial.wait_runs(10);
    let mut others = idle(trial);
    // They are idle, and part of it all.
    wait::pause(Duration::from_millis(300));
    busy.kill9();
    let began = Instant::now();
    trial.wait_runs(20);
    let took = began.elapsed();
    open(&gate);
    trial.wait_settled();
    for other in &mut others {
        other.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(other.wait_exit(PATIENCE).code(), Some(0), "{}", other.printed());
    }
    let executions = trial.ledger.executions();
    assert!((0..10).all(|n| executions[&format!("+{n}")] == 2), "{executions:?}");
    assert!((0..10).all(|n| executions[&format!("-{n}")] == 1), "{executions:?}");
    assert!(
        trial.state().deaths.is_empty(),
        "expected their success to forgive them: {:?}",
        trial.state().deaths
    );
    took
}

#[test]
fn an_idle_worker_takes_over_within_ten_seconds() {
    let mut trial = Trial::new();
    let busy = trial.worker(&[]);
    let took = recovery(&mut trial, busy, |trial| vec![trial.worker(&[])]);
    println!("recovery after SIGKILL with default settings: {took:?}");
    assert!(took <= Duration::from_secs(10), "expected at most 10 s, it took {took:?}");
    trial.assert_only(&[]);
}

#[test]
fn worker_with_a_long_lease_sweeps_at_its_interval() {
    let mut trial = Trial::new();
    let mut command = trial.command(WORKER);
    command.args(["worker", "--redis", &trial.server.url(), "--queue", QUEUE, "--lease", "10min"]);
    let mut worker = Program::spawn(command.env("DELAYED_SWEEPER_INTERVAL", "50ms"));
    ready(&worker);
    // The sweep that it begins with may find one of them.
    for n in 0..3 {
        let () = trial.redis.hset("q_processing", format!("gone{n}"), mark(n)).unwrap();
        trial.wait_runs(n + 1);
    }
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..3);
    trial.assert_only(&[]);
}

#[test]
fn a_sweeper_of_its_own_brings_work_back_within_ten_seconds() {
    let mut trial = Trial::new();
    let busy = trial.worker(&["--no-sweep"]);
    let took = recovery(&mut trial, busy, |trial| vec![trial.worker(&["--no-sweep"]), trial.sweeper(&[])]);
    println!("recovery after SIGKILL with a sweeper and --no-sweep: {took:?}");
    assert!(took <= Duration::from_secs(10), "expected at most 10 s, it took {took:?}");
    trial.assert_only(&[]);
}

#[test]
fn a_killed_workers_blocking_runs_begin_again_too() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let held = at_gate("trial.gated_blocking", "b", &gate);
    let mut first = trial.worker(&["--lease", "1s", "--concurrency", "1"]);
    trial.push(&[held, mark("behind")]);
    trial.wait_runs(1);
    first.kill9();
    let mut second = trial.worker(&["--lease", "1s", "--concurrency", "1"]);
    open(&gate);
    trial.wait_runs(4);
    trial.wait_settled();
    trial.stop(&mut second);
    let executions = trial.ledger.executions();
    assert_eq!((executions["+b"], executions["-b"], executions["behind"]), (2, 1, 1), "{executions:?}");
    trial.assert_only(&[]);
}
