//! Messages that are larger than Redis takes: they are refused, and take no others with them.

use delayed::{Call, Client, Fate, GoTask};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, mark};

/// More than the server takes in one argument.
const BYTES: usize = 2_000_000;

fn limit(trial: &mut Trial, bytes: &str) {
    redis::cmd("CONFIG").arg("SET").arg("proto-max-bulk-len").arg(bytes).exec(&mut trial.redis).unwrap();
}

#[test]
fn too_large_call_fails_alone_among_coalesced_ones() {
    const CALLS: usize = 300;
    let mut trial = Trial::new();
    limit(&mut trial, "1mb");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sent = |n: usize| {
        let text = if n == CALLS / 2 { "z".repeat(BYTES) } else { n.to_string() };
        Call::from(GoTask::new("trial.mark").arg(text)).queue(QUEUE)
    };
    let client = runtime.block_on(Client::connect(&trial.server.url())).unwrap();
    let results = runtime.block_on(join_all((0..CALLS).map(|n| client.enqueue(sent(n)))));
    let waiting = trial.state().waiting;
    assert_eq!(waiting.len(), CALLS - 1);
    for (n, result) in results.iter().enumerate() {
        match result {
            Err(error) => assert_eq!(n, CALLS / 2, "expected the others not to be concerned: {error}"),
            Ok(_) => assert_eq!(waiting.iter().filter(|message| **message == mark(n)).count(), 1, "{n}"),
        }
    }
    limit(&mut trial, "512mb");
    runtime.block_on(client.enqueue(sent(CALLS / 2))).expect("a call that is no longer too large");
}

#[test]
fn too_large_call_fails_alone_in_a_bulk() {
    let mut trial = Trial::new();
    limit(&mut trial, "1mb");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(Client::connect(&trial.server.url())).unwrap();
    let texts = ["0".to_owned(), "1".to_owned(), "z".repeat(BYTES), "3".to_owned()];
    let calls = texts.map(|text| Call::from(GoTask::new("trial.mark").arg(text)).queue(QUEUE));
    let error = runtime.block_on(client.enqueue_many(calls)).expect_err("too large a call");
    assert_eq!(error.fates(), [Fate::Applied, Fate::Applied, Fate::Uncertain, Fate::NotApplied]);
    assert_eq!(trial.state().waiting, [mark(0), mark(1)]);
}

#[test]
fn dead_letter_larger_than_redis_takes_is_requeued() {
    let mut trial = Trial::new();
    let large = call("no.such.task", &[json!("z".repeat(BYTES))]);
    let small: Vec<_> = (0..5).map(|n| call("no.such.task", &[json!(n)])).collect();
    let all = [&small[..3], std::slice::from_ref(&large), &small[3..]].concat();
    trial.push(&all);
    let mut worker = trial.worker(&["--concurrency", "1"]);
    trial.wait_settled();
    trial.stop(&mut worker);
    limit(&mut trial, "1mb");
    let mut command = trial.command(DELAYED);
    command.args(["dead", "requeue", "--all", "--queue", QUEUE, "--redis", &trial.server.url()]);
    let mut requeue = Program::spawn(&mut command);
    assert_eq!(requeue.wait_exit(PATIENCE).code(), Some(0), "{}", requeue.last_words());
    let mut state = trial.state();
    state.waiting.sort();
    let mut expected = all;
    expected.sort();
    assert_eq!((state.waiting == expected, state.dead.len()), (true, 0), "{} wait", state.waiting.len());
}
