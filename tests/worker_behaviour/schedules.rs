//! When a scheduled call runs: at its time, whoever is alive then.

use std::time::Duration;

use delayed::{Client, GoTask};
use redis::Commands;

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, mark};
use crate::support::wait;

/// Enqueues a call that notes `n`, with these words.
fn enqueue(trial: &Trial, n: &str, words: &[&str]) -> serde_json::Value {
    let mut command = trial.command(WORKER);
    command.args(["enqueue", "trial.mark", &format!("[{n:?}]"), "--queue", QUEUE, "--json"]);
    let mut program = Program::spawn(command.args(["--redis", &trial.server.url()]).args(words));
    let said = program.last_words();
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("expected JSON: {said}"))
}

fn server_ms(trial: &mut Trial) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    seconds * 1000 + micros / 1000
}

/// Its bytes in the timetable are those that an enqueue would have put into the queue.
#[test]
fn a_scheduled_call_keeps_its_bytes() {
    let mut trial = Trial::new();
    for (n, words) in [("a", &["--after", "1h"][..]), ("b", &["--at", "2099-12-31T23:59:59+05:30"])] {
        let told = enqueue(&trial, n, words);
        assert!(told["waiting"].is_null() && told["due_ms"].as_u64() > Some(server_ms(&mut trial)), "{told}");
    }
    let state = trial.state();
    let mut bytes: Vec<Vec<u8>> = state.later.into_values().collect();
    bytes.sort();
    // With the id under which it can be found.
    let expected = bytes.iter().all(|bytes| bytes.windows(12).any(|part| part == b"\xaatrial.mark\xc4"));
    assert!(bytes.len() == 2 && expected, "{bytes:?}");
    assert!(state.waiting.is_empty());
    let told = enqueue(&trial, "c", &["--as", "go", "--after", "1h"]);
    let id = told["id"].as_str().unwrap().replace('-', "");
    let id: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).unwrap()).collect();
    assert_eq!(trial.state().later[&id], mark("c"), "expected exactly the bytes of Go");
}

/// A worker that neither sweeps nor beats meanwhile hears of it by push.
#[test]
fn an_idle_worker_runs_a_call_at_its_time() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--no-sweep", "--lease", "24h"]);
    wait::until("the worker to listen", PATIENCE, || {
        let heard: Vec<(String, u64)> =
            redis::cmd("PUBSUB").arg("NUMSUB").arg("q:due").query(&mut trial.redis).unwrap();
        heard[0].1 == 1
    });
    // The later one is known first.
    let second = enqueue(&trial, "second", &["--after", "900ms"])["due_ms"].as_u64().unwrap();
    let first = enqueue(&trial, "first", &["--after", "400ms"])["due_ms"].as_u64().unwrap();
    let mut dues = [(first, "first"), (second, "second")];
    // A machine may need as long for the second command as one waits longer than the other.
    dues.sort_unstable();
    for (runs, (due, _)) in (1..).zip(dues) {
        trial.wait_runs(runs);
        let now = server_ms(&mut trial);
        assert!(now >= due, "expected no run before {due}, it is {now}");
    }
    assert_eq!(trial.ledger.lines(), dues.map(|(_, n)| n));
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.assert_only(&[]);
}

#[test]
fn a_time_in_the_past_is_now() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    for (n, at) in ["1969-12-31T00:00:00Z", "2001-01-01T00:00:00+01:00"].into_iter().enumerate() {
        enqueue(&trial, &n.to_string(), &["--at", at]);
    }
    trial.wait_runs(2);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..2);
    trial.assert_only(&[]);
}

/// Redis is away when calls become due; each runs once, late.
#[test]
fn calls_that_become_due_while_redis_is_away_run_once() {
    let mut trial = Trial::with(crate::support::redis::Options { append_only: true, ..Default::default() });
    let mut worker = trial.worker(&["--lease", "2s"]);
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    let late =
        |n: i32| GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE).after(Duration::from_millis(1500));
    client.enqueue_many_blocking((0..20).map(late)).unwrap();
    assert_eq!(trial.state().later.len(), 20, "expected them to be scheduled still");
    trial.server.kill();
    trial.server.restart();
    trial.redis = trial.server.connection();
    trial.wait_runs(20);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..20);
    let left: u64 = trial.redis.hlen("q_later").unwrap();
    assert_eq!(left, 0);
}
