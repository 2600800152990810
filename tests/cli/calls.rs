//! Does `calls` list, show, cancel and run what is scheduled?

use serde_json::{Value, json};

use super::{DELAYED, Ended, PATIENCE, WORKER, on, start, task};
use crate::support::redis::{TestRedis, snapshot};
use crate::support::wait;

/// Schedules a call. Gives its id.
fn schedule(redis: &TestRedis, queue: &str, n: u32, after: &str) -> String {
    let words = ["enqueue", &task("add"), &format!("[{n}, 1]"), "--queue", queue, "--after", after, "--json"];
    on(redis, WORKER, &words).json()["id"].as_str().unwrap().to_owned()
}

fn calls(redis: &TestRedis, words: &[&str]) -> Ended {
    on(redis, DELAYED, &[&["calls"][..], words].concat())
}

fn listed(redis: &TestRedis, words: &[&str]) -> Vec<Value> {
    let calls = calls(redis, &[&["list", "--json"][..], words].concat()).json();
    calls.as_array().unwrap().iter().map(|call| call["arguments"][0].clone()).collect()
}

#[test]
fn calls_of_all_queues_are_listed_by_their_times() {
    let redis = TestRedis::start();
    calls(&redis, &["list"]).expect(0).says("no such call is scheduled");
    schedule(&redis, "default", 1, "3h");
    schedule(&redis, "other", 2, "1h");
    schedule(&redis, "default", 3, "2h");
    assert_eq!(listed(&redis, &[]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--queue", "default", "--count", "1"]), [3]);
    assert_eq!(listed(&redis, &["--task", &task("add")]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--task", "other"]), Vec::<u32>::new());
    assert_eq!(listed(&redis, &["--state", "scheduled"]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--state", "retrying"]), Vec::<u32>::new());
    let shown = calls(&redis, &["list", "--count", "2"]).expect(0);
    shown.says("other").says(&format!("{}(2, 1)", task("add"))).says("the first 2; for more: --count");
}

#[test]
fn call_that_waits_for_another_attempt_is_shown_with_its_errors() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", &task("fail"), r#"["no way"]"#, "--retry", "3"]).expect(0);
    on(&redis, WORKER, &["worker", "--burst", "--backoff", "fixed:1h"]).expect(0);
    let found = calls(&redis, &["list", "--json", "--state", "retrying"]).json();
    let call = &found[0];
    assert_eq!((&call["state"], &call["attempts"]), (&json!("retrying"), &json!(1)), "{found}");
    assert_eq!(call["errors"][0]["detail"], "no way", "{found}");
    let id = call["id"].as_str().unwrap();
    assert_eq!(calls(&redis, &["show", id, "--json"]).json(), *call);
    calls(&redis, &["show", id]).expect(0).says("state      retrying").says("failed: no way");
    calls(&redis, &["show", id, "--queue", "other"]).expect(6).says("is scheduled: it may have run");
}

#[test]
fn cancelled_call_never_runs_and_the_others_do() {
    let redis = TestRedis::start();
    let [first, second] = [1, 2].map(|n| schedule(&redis, "default", n, "1h"));
    schedule(&redis, "other", 3, "1h");
    calls(&redis, &["cancel", &first, "018bcfe5-687b-7b5c-8a3e-0123456789ab"])
        .expect(6)
        .says("cancelled 1 call")
        .says("018bcfe5-687b-7b5c-8a3e-0123456789ab");
    assert_eq!(listed(&redis, &[]), [2, 3]);
    calls(&redis, &["run", &first]).expect(6).says(&first);
    calls(&redis, &["cancel", "--all"]).expect(2).says("2 scheduled calls").says("--yes");
    calls(&redis, &["cancel", "--task", "other"]).expect(6).says("`calls list` shows");
    let cancelled = calls(&redis, &["cancel", "--all", "--yes", "--queue", "other", "--json"]).json();
    assert_eq!(cancelled, json!({ "cancelled": 1, "missing": [] }));
    calls(&redis, &["run", &second]).expect(0).says("enqueued 1 call");
    on(&redis, WORKER, &["worker", "--burst", "--queue", "default,other"]).expect(0).says("succeeded=1");
    calls(&redis, &["cancel"]).expect(2);
    calls(&redis, &["cancel", "nonsense"]).expect(2);
}

#[test]
fn call_that_is_run_now_runs_once() {
    let redis = TestRedis::start();
    let worker = start(&redis, &["worker"]);
    worker.wait_for_line("serving");
    let id = schedule(&redis, "default", 7, "1h");
    let ran = calls(&redis, &["run", &id, &id, "--json"]).json();
    assert_eq!(ran, json!({ "enqueued": 1, "missing": [] }));
    wait::until("its end", PATIENCE, || {
        let state = snapshot(&mut redis.connection(), "default");
        state.waiting.is_empty() && state.processing.is_empty()
    });
    assert!(listed(&redis, &[]).is_empty());
    calls(&redis, &["run", &id]).expect(6);
}
