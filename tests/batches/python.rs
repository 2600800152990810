//! Batches that a Python program fills.

use std::collections::BTreeMap;

use delayed::Call;
use redis::Commands;
use serde_json::{Value, json};

use super::{Site, items_of, tasks};
use crate::support::python::{QUEUES, follow};
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// A line for Python: items of a task with the options of its `batch(…)`.
fn items(path: &str, options: &Value, items: impl IntoIterator<Item = Value>) -> Value {
    let of = |item: Value| {
        let mut arguments = options.clone();
        arguments
            .as_object_mut()
            .unwrap()
            .extend([("path".to_owned(), path.into()), ("item".to_owned(), item)]);
        arguments
    };
    json!({"kind": "items", "path": path, "items": items.into_iter().map(of).collect::<Vec<_>>()})
}

/// The options of `batches.collect`, as Python gives them.
fn collect() -> Value {
    json!({"max": 5, "within": 0.5})
}

/// What stands in Redis but for the time: the messages, the keys, and of each batch that fills, its size, its items, and how long
/// after its first item it is due, in milliseconds.
#[derive(Debug, PartialEq)]
struct Found {
    waiting: Vec<Vec<u8>>,
    notifications: Vec<String>,
    keys: Vec<String>,
    filling: BTreeMap<String, (String, Vec<Vec<u8>>, u64)>,
}

fn found(site: &mut Site) -> Found {
    let redis = &mut site.trial.redis;
    let mut keys: Vec<String> = redis.keys("*").unwrap();
    keys.retain(|key| key != "delayed_queues"); // a client writes it once
    keys.sort_unstable();
    let mut filling = BTreeMap::new();
    for key in keys.iter().filter(|key| key.starts_with("q:g:")) {
        let mut items: Vec<Vec<u8>> = redis.lrange(key, 0, -1).unwrap();
        let head = String::from_utf8(items.remove(0)).unwrap();
        let (began, bytes) = head.split_once(' ').unwrap();
        let due: u64 = redis.zscore("q_due", key.replacen("q:g:", "g", 1)).unwrap();
        let mut after = due - began.parse::<u64>().unwrap();
        if key == "q:g:batches.patient" {
            assert!((300..3_600_000).contains(&after), "expected its grace to end it: {after} ms");
            after = 300; // but for the time between its items
        }
        filling.insert(key.clone(), (bytes.to_owned(), items, after));
    }
    let waiting = redis.lrange("q", 0, -1).unwrap();
    let notifications = redis.lrange("q_noti", 0, -1).unwrap();
    Found { waiting, notifications, keys, filling }
}

fn texts(prefix: &str, count: u64) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

#[test]
fn batches_that_python_fills_are_those_of_rust() {
    let all = |items: Vec<String>| items.into_iter().map(Value::from).collect::<Vec<_>>();
    let keyed = json!({"max": 5, "within": 0.5, "key": "größe:42"});
    let patient = json!({"max": 10_000, "within": 3600, "grace": 0.3});
    let gated = json!({"max": 4, "within": 0.1});
    let numbers = [0, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX) + 1, u64::MAX];
    let collect_all = |texts: Vec<String>| texts.into_iter().map(tasks::collect::call).collect::<Vec<Call>>();
    let cases: Vec<(Value, Vec<Call>)> = vec![
        (items("batches.collect", &collect(), ["ok:1".into()]), collect_all(vec!["ok:1".into()])),
        (items("batches.collect", &collect(), all(texts("", 13))), collect_all(texts("", 13))),
        (items("batches.collect", &collect(), all(texts("é", 3))), collect_all(texts("é", 3))),
        (
            items("batches.collect", &keyed, all(texts("ok:", 7))),
            collect_all(texts("ok:", 7)).into_iter().map(|call| call.batch_key("größe:42")).collect(),
        ),
        (
            items("batches.patient", &patient, numbers.map(Value::from)),
            numbers.map(tasks::patient::call).into(),
        ),
        (
            items("batches.patient", &patient, (0..2001).map(Value::from)),
            (0..2001).map(tasks::patient::call).collect(),
        ),
        (
            items("batches.gated", &gated, (0..5).map(|n| json!([n, "gate"]))),
            (0..5).map(|n| tasks::gated::call((n, "gate".into()))).collect(),
        ),
    ];
    for queue in QUEUES {
        let mut site = Site::new();
        for (line, calls) in &cases {
            let () = site.trial.redis.flushall().unwrap();
            // Each twice: the second time, there are batches that fill.
            for _ in 0..2 {
                assert_eq!(follow(&site.trial, queue, std::slice::from_ref(line)), [json!({})]);
            }
            let ours = found(&mut site);
            let () = site.trial.redis.flushall().unwrap();
            for _ in 0..2 {
                site.enqueue(calls.iter().cloned());
            }
            let theirs = found(&mut site);
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn item_of_python_that_fails_is_buried_by_itself() {
    for queue in QUEUES {
        let mut site = Site::new();
        let mut worker = site.trial.worker(&["--concurrency", "1"]);
        let five = ["ok:1", "flaky:2", "bad:3", "ok:4", "ok:5"];
        let keyed = json!({"max": 5, "within": 0.5, "key": "eu"});
        let lines = [
            items("batches.collect", &collect(), five.map(Value::from)),
            items("batches.collect", &keyed, ["ok:late".into()]),
        ];
        assert_eq!(follow(&site.trial, queue, &lines), [json!({}), json!({})]);
        wait::until("one to be buried", PATIENCE, || site.trial.dead() == 1);
        site.wait_done();
        let mut lines = site.trial.ledger.lines();
        assert_eq!(lines.remove(0), five.join(" "), "expected them to run together");
        lines.sort_unstable();
        assert_eq!(lines, ["flaky:2", "ok:late"], "expected no other to run again");
        let dead = &site.trial.state().dead;
        assert_eq!((dead.len(), &dead[0]["detail"][..]), (1, &b"never"[..]));
        assert_eq!(items_of(&dead[0]["message"]), ["bad:3"]);
        site.trial.stop(&mut worker);
    }
}
