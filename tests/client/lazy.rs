//! Clients that connect at their first use, and tasks that enqueue calls.

use std::process::Command;

use delayed::{BrokerErrorKind, Client};

use super::marking;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, count, mark, marks};

#[test]
fn lazy_client_connects_at_its_first_use_from_anywhere() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    client.enqueue_blocking(marking(0)).unwrap();
    // With the connection that it has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.enqueue(marking(1))).unwrap();

    // In async code, then in a thread whose runtime rests, then in another runtime when the first is gone.
    let client = Client::lazy(&trial.server.url());
    runtime.block_on(client.enqueue(marking(2))).unwrap();
    client.enqueue_blocking(marking(3)).unwrap();
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(client.enqueue(marking(4))).unwrap();
    let client = Client::lazy(&trial.server.url());
    runtime.block_on(client.enqueue(marking(5))).unwrap();
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(client.enqueue(marking(6))).unwrap();
    runtime
        .block_on(async {
            let client = client.clone();
            tokio::task::spawn_blocking(move || client.enqueue_blocking(marking(7))).await.unwrap()
        })
        .unwrap();
    assert_eq!(client.enqueue_many_blocking((8..10).map(marking)).unwrap(), 2);
    assert_eq!(trial.state().waiting, marks(10));
}

#[test]
fn lazy_client_tells_of_its_address_at_its_first_call() {
    let error = Client::lazy("nonsense").enqueue_blocking(marking(0)).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Address), "{error}");
}

/// Its threads are gone when it is dropped, and the one that was there before is the only one.
#[test]
fn worker_forks_after_a_client_was_dropped_before_main() {
    let mut trial = Trial::new();
    for (kind, redis) in
        [("client before main", trial.server.url()), ("lazy before main", "unix:///nowhere".into())]
    {
        for _ in 0..8 {
            let mut command = trial.command(WORKER);
            let words = ["worker", "--queue", QUEUE, "--burst", "--redis", &trial.server.url()];
            command
                .args(words)
                .env("PRODUCER", kind)
                .env("REDIS", &redis)
                .env("DELAYED_REDIS_TIMEOUT", "50ms");
            let mut program = Program::spawn(&mut command);
            if kind == "client before main" {
                trial.ended(&mut program);
            } else {
                // Its client lives on, with its thread.
                assert_eq!(program.wait_exit(PATIENCE).code(), Some(5), "{}", program.printed());
                program.wait_for_line("has 2 threads");
            }
        }
    }
    trial.wait_settled();
}

/// In each isolation, async or not: by `ctx.client()`, and by a client that is a state.
#[test]
fn tasks_enqueue_in_every_isolation() {
    for isolation in ["inline", "fork", "prefork"] {
        let mut trial = Trial::new();
        let mut command: Command = trial.command(WORKER);
        let words = ["worker", "--queue", QUEUE, "--concurrency", "2", "--isolation", isolation];
        command.args(words).args(["--redis", &trial.server.url(), "--burst"]);
        command.env("STATE_REDIS", trial.server.url());
        // The async one comes first: it makes the state.
        let by_state = |task: &str, n: &str| call(task, &[n.into()]);
        let fan = |task: &str, n: &str| call(task, &[n.into(), 3.into()]);
        trial.push(&[
            by_state("trial.by_state", "a"),
            by_state("trial.by_state", "b"),
            by_state("trial.by_state_blocking", "c"),
            fan("trial.fan", "d"),
            fan("trial.fan", "e"),
            fan("trial.fan_blocking", "f"),
            fan("trial.fan_blocking", "g"),
        ]);
        let mut worker = Program::spawn(&mut command);
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 7 + 3 + 12, "{isolation}: {stopped}\n{}", worker.printed());
        let many = ["d", "e", "f", "g"].iter().flat_map(|n| (0..3).map(move |i| format!("{n}/{i}")));
        trial.ledger.assert_each_once(["a/0", "b/0", "c/0"].map(String::from).into_iter().chain(many));
        trial.assert_only(&[]);
    }
}

#[test]
fn state_whose_making_panics_fails_the_run_that_asked() {
    let mut trial = Trial::new();
    // STATE_REDIS is not set.
    let mut worker = trial.worker(&[]);
    trial.push(&[call("trial.by_state", &["a".into()]), mark("b")]);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), trial.dead()), (1, 1), "{stopped}");
    assert_eq!(trial.reasons(), ["panicked"]);
}

/// A program with a worker and a zygote of its own gives the zygote a client.
#[test]
fn embedder_gives_its_zygote_a_client() {
    let mut trial = Trial::new();
    for (kind, runs) in [("with a client", 3), ("first", 0)] {
        trial.push(&[call("trial.fan_forked", &[kind.into(), 3.into()])]);
        let mut command = trial.command(WORKER);
        command.env("EMBEDDER", kind).env("REDIS", trial.server.url());
        let mut program = Program::spawn(&mut command);
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
        let lines = trial.ledger.lines();
        assert_eq!(lines.iter().filter(|line| line.starts_with(kind)).count(), runs, "{lines:?}");
    }
    let dead = trial.state().dead;
    assert_eq!(dead.len(), 1);
    let detail = String::from_utf8_lossy(&dead[0]["detail"]).into_owned();
    assert!(detail.contains("Client::lazy(url)"), "expected advice: {detail}");
}
