//! A gateway without tasks checks calls against the tasks that workers publish.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Commands;
use serde_json::{Value, json};

use super::{Site, gateway_of};
use crate::support::process::DELAYED;
use crate::support::trial::{PATIENCE, Trial, ready};
use crate::support::wait;

const TASKS: &str = "delayed_tasks";

impl Site {
    /// A gateway of the program without tasks.
    fn without_tasks(words: &[&str]) -> Self {
        let trial = Trial::new();
        let (gateway, address) = gateway_of(&trial, DELAYED, words);
        Self { trial, gateway, address }
    }
}

#[test]
fn calls_are_checked_against_published_tasks() {
    let site = Site::without_tasks(&[]);
    let pair = |arguments: &Value| {
        let mut call = json!({"task": "trial.pair", "queue": "q"});
        call.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        site.post(&call)
    };
    let good = json!({"args": [7, "b"]});
    let unknown = pair(&good).expect(404).json();
    assert_eq!(unknown["code"], "unknown_task", "{unknown}");
    let mut worker = site.trial.worker(&[]);
    ready(&worker);
    wait::until("the task to be known", PATIENCE, || pair(&good).status == 202);
    pair(&json!({"kwargs": {"text": "c", "number": 8}})).expect(202);
    for (arguments, said) in [
        (json!({"args": [7]}), "`text` is missing"),
        (json!({"args": [7, "b", 1]}), "3 arguments are too many"),
        (json!({"kwargs": {"number": 7}}), "`text` is missing"),
        (json!({"kwargs": {"number": 7, "text": "b", "other": 1}}), "no parameter `other`"),
    ] {
        let refused = pair(&arguments).expect(422).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(said) && detail.contains("pair(number: "), "expected {said} in {detail}");
    }
    site.trial.wait_runs(2);
    let tasks = site.get("/v1/tasks").expect(200).json();
    let listed =
        tasks.as_array().unwrap().iter().find(|task| task["task"] == "trial.pair").expect("expected it");
    assert_eq!(listed["arguments"]["required"], json!(["number", "text"]), "{listed}");
    site.trial.stop(&mut worker);
    // It is known although no worker runs right now: its call waits.
    pair(&good).expect(202);
    site.post(&json!({"task": "trial.missing"})).expect(404);
}

#[test]
fn call_goes_to_the_published_queue() {
    let site = Site::without_tasks(&[]);
    let mut worker = site.trial.worker(&[]);
    ready(&worker);
    site.trial.stop(&mut worker);
    let call = json!({"task": "followed.charge", "args": [7]});
    let accepted = site.post(&call).expect(202).json();
    assert_eq!(accepted["queue"], "q", "{accepted}");
}

#[test]
fn old_and_malformed_descriptions_are_ignored() {
    let site = Site::without_tasks(&[]);
    let mut redis = site.trial.server.connection();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let description = |seen_ms: u64, queue: &str| {
        rmp_serde::to_vec_named(&json!({
            "seen_ms": seen_ms, "queue": queue, "signature": "old()", "doc": "", "params": [],
        }))
        .unwrap()
    };
    let () = redis.hset(TASKS, "old", description(1, "q")).unwrap();
    let () = redis.hset(TASKS, "broken", b"\xc1\xff").unwrap();
    let () = redis.hset(TASKS, "text", "text").unwrap();
    let () = redis.hset(TASKS, "list", b"\x90").unwrap();
    let () = redis.hset(TASKS, "future", description(u64::MAX, "q")).unwrap();
    let () = redis.hset(TASKS, "queue", description(now_ms, "no queue")).unwrap();
    let () = redis.hset(TASKS, b"\xff\xfe", description(now_ms, "q")).unwrap();
    let () = redis.hset(TASKS, "fresh", description(now_ms, "q")).unwrap();
    for path in ["old", "broken", "text", "list", "future", "queue"] {
        site.post(&json!({"task": path})).expect(404);
    }
    site.post(&json!({"task": "fresh"})).expect(202);
    let tasks = site.get("/v1/tasks").expect(200).json();
    assert!(tasks.as_array().unwrap().iter().any(|task| task["task"] == "fresh"), "{tasks}");
    let () = redis.del(TASKS).unwrap();
    let () = redis.set(TASKS, "no hash").unwrap();
    wait::until("it to say what is wrong", PATIENCE, || {
        let answer = site.post(&json!({"task": "other"}));
        answer.status == 503 && String::from_utf8_lossy(&answer.body).contains("delayed_tasks")
    });
}
