//! The clock of Redis is set back: no lease, turn or wait lasts longer for that than it may.

use std::time::{Duration, Instant};

use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, Trial, count, gated, mark, open};
use crate::support::wait;

const BACK: i64 = -600;

fn trial() -> Trial {
    Trial::with(Options { skewed: true, ..Options::default() })
}

/// A worker that was killed during its only run.
fn victim(trial: &mut Trial, gate: &std::path::Path) -> String {
    let mut victim = trial.worker(&["--lease", "1s", "--no-sweep"]);
    let before = trial.ledger.lines().len();
    trial.push(&[gated("a", gate)]);
    trial.wait_runs(before + 1);
    let id = victim.wait_for_line("\"serving\"");
    let id: serde_json::Value = serde_json::from_str(&id).unwrap();
    victim.kill9();
    id["worker"].as_str().unwrap().to_owned()
}

/// The clients that wait for notifications of several queues.
fn waits(trial: &mut Trial) -> Vec<String> {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
    let waits = clients.lines().filter(|client| client.contains(" cmd=blpop "));
    waits.filter_map(|client| Some(client.strip_prefix("id=")?.split(' ').next()?.to_owned())).collect()
}

/// Stops a worker in its wait for notifications, and ends that: it would take the one of the next call, and keep it.
fn stop_in_wait(trial: &mut Trial, worker: &Program) {
    wait::until("it to wait", PATIENCE, || !waits(trial).is_empty());
    worker.signal(nix::sys::signal::Signal::SIGSTOP);
    for id in waits(trial) {
        redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).exec(&mut trial.redis).unwrap();
    }
}

#[test]
fn what_the_dead_owned_comes_back_in_time_and_calls_are_run() {
    let mut trial = trial();
    let gate = trial.gate("gate");
    // It has a turn to sweep, which is not to last.
    let mut worker = trial.worker(&["--lease", "1s", "--queue", "other"]);
    stop_in_wait(&mut trial, &worker);
    let dead = victim(&mut trial, &gate);
    let () = trial.redis.pset_ex("q_sweep", "c".repeat(16), 1_000).unwrap();
    trial.server.set_clock(BACK);
    open(&gate);
    worker.signal(nix::sys::signal::Signal::SIGCONT);
    let began = Instant::now();
    trial.wait_runs(3);
    trial.wait_settled();
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());

    for n in 0..5 {
        trial.push(&[mark(n)]);
        trial.wait_runs(4 + n);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    let mut command = trial.command(DELAYED);
    let mut tool = Program::spawn(command.args(["workers", "--json", "--redis", &trial.server.url()]));
    assert_eq!(tool.wait_exit(PATIENCE).code(), Some(0));
    let workers: serde_json::Value = serde_json::from_str(&tool.last_words()).unwrap();
    let alive = |id: &str| {
        let found = workers.as_array().unwrap().iter().find(|worker| worker["id"] == *id);
        found.map(|worker| worker["alive"].as_bool().unwrap())
    };
    assert_ne!(alive(&dead), Some(true), "expected the dead one not to look alive: {workers:#}");
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 6, "{stopped}");
}

#[test]
fn sweeper_on_a_jumped_clock_requeues_for_the_dead_alone() {
    let mut trial = trial();
    let (gate, other) = (trial.gate("gate"), trial.gate("other"));
    let mut worker = trial.worker(&["--lease", "1s", "--no-sweep", "--concurrency", "1"]);
    trial.push(&[gated("living", &other)]);
    trial.wait_runs(1);
    victim(&mut trial, &gate);
    trial.server.set_clock(BACK);
    let mut sweeper = trial.sweeper(&["--interval", "100ms"]);
    sweeper.wait_for_line("found messages of dead workers");
    // For as long as a lease lasts and is renewed.
    let () = trial.redis.hset("q_processing", "gone", mark("gone")).unwrap();
    wait::until("another sweep", PATIENCE, || trial.left().0 == 2);
    open(&gate);
    open(&other);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (3, 0), "{stopped}");
    let runs = trial.ledger.executions();
    assert_eq!((runs["+living"], runs["+a"]), (1, 2), "{runs:?}");
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    sweeper.wait_exit(PATIENCE);
}
