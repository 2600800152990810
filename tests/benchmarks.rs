//! Are the figures of the README, and what is computed in `docs/scaling.md`, those of the runs that are saved beside the
//! documents?

use serde_json::{Value, json};

use super::readme::LONGEST;
use super::support::root;

#[path = "../bench/src/readme.rs"]
mod section;

#[path = "../bench/src/scale/capacity.rs"]
mod capacity;

fn saved() -> Option<Value> {
    let text = std::fs::read_to_string(root().join("docs/benchmarks.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_readme_tells_the_figures_of_the_saved_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [_, told, _] = section::parts(&readme).expect("the README says what it costs");
    match saved() {
        Some(saved) => {
            assert_eq!(told, section::section(&saved).unwrap(), "write it with bench/report --publish")
        }
        None => assert!(!told.contains("docs/benchmarks"), "the README tells of a run that is not there"),
    }
}

#[test]
fn a_run_becomes_a_section_of_medians_and_ratios() {
    let figure =
        |row: &str, system: &str, rounds: &[f64]| json!({ "row": row, "system": system, "rounds": rounds });
    let mut figures = Vec::new();
    for at_a_time in [64, 10, 1] {
        let row = format!("drain, {at_a_time} at a time");
        figures.push(figure(&row, "delayed", &[90_000.0, 40_400.0, 50.0]));
        figures.push(figure(&row, "bare scripts", &[50_500.0]));
        figures.push(figure(&row, "asynq", &[10_100.0]));
        figures.push(figure(&row, section::PLAIN_FN, &[30_400.0]));
    }
    for (row, value) in [
        ("pick-up by an idle worker, p50", 0.26),
        ("pick-up by an idle worker, p99", 0.516),
        ("enqueue, one by one from 64", 9_876.4),
        ("enqueue, in bulk", 1_234_567.0),
        ("memory, of Redis for a waiting call", 37.5),
        ("per task, Redis", 1.04),
        ("per task, worker", 7.96),
        ("memory, of an idle worker", 5.93),
        ("idle worker, its own", 0.094),
    ] {
        figures.push(figure(row, "delayed", &[value]));
    }
    figures.push(figure("pick-up by an idle worker, p50", "round trip", &[0.13]));
    for (row, value) in [("pick-up by an idle worker, p50", 0.31), ("pick-up by an idle worker, p99", 0.62)] {
        figures.push(figure(row, section::PLAIN_FN, &[value]));
    }
    let mut run = json!({ "machine": { "cores": 2, "redis": "7.0.15" }, "figures": figures });
    let told = section::section(&run).unwrap();
    for line in [
        "| empty calls of an `async fn` per second, at concurrency 64, 10 and 1 | 40,000, 40,000 and 40,000: 0.80, 0.80 and 0.80 times the bare loop, and 4.0, 4.0 and 4.0 times asynq |",
        "| the same for a plain `fn`, which may block | 30,000, 30,000 and 30,000 |",
        "| from enqueue to the start of the run, on an idle worker | median 0.26 ms, 2.0 times a `PING` to Redis; 99 % within 0.52 ms; a plain `fn`: 0.31 ms and 0.62 ms |",
        "| enqueued per second, one by one from 64 tasks, and in bulk | 9,876 and 1,235,000 |",
        "| processor time of Redis and of the worker, per call | 1.0 µs and 8.0 µs |",
        "| memory in Redis for a waiting call | 38 bytes |",
        "| an idle worker: memory, share of a core | 5.9 MB, 0.09 % |",
    ] {
        assert!(told.contains(&format!("{line}\n")), "expected {line} in:\n{told}");
    }

    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [before, _, behind] = section::parts(&readme).expect("the README says what it costs");
    let lines = [before, &told, behind].concat().lines().count();
    assert!(
        lines <= LONGEST,
        "expected the README to stay short with all rows, there would be {lines} lines"
    );

    run["figures"][0]["rounds"] = json!([]);
    let problem = section::section(&run).unwrap_err();
    assert_eq!(problem, "the run has no figure of delayed for drain, 64 at a time");
}

#[test]
fn the_page_on_scaling_ends_with_what_is_computed() {
    let text = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&text(name)).unwrap();
    let section = capacity::section(&json("scaling.json"), &json("cluster.json")).unwrap();
    assert!(
        text("scaling.md").ends_with(&section),
        "write it with bench/report docs/scaling.json --publish: it is to end with\n{section}"
    );
}

#[test]
fn capacity_follows_from_measured_costs() {
    let figure =
        |row: &str, system: &str, value: f64| json!({ "row": row, "system": system, "rounds": [value] });
    let scaling = json!({ "figures": [
        figure("slots of one worker, Redis for a call", "1", 20.0),
        figure("worker processes, Redis for a call", "1", 1.0),
        figure("messages that wait, memory of Redis for each", "1,000,000", 18.0),
    ] });
    let drained = json!([{ "redis": 2.0, "worker": 1.0 }, { "redis": 4.0, "worker": 2.0 }]);
    let call =
        json!([{ "redis": 1.25, "worker": 0.5, "one": 30.0, "bulk": 1.0, "alone": 100.0, "record": 500.0 }]);
    let with_replica = json!([{ "one": 40.0, "alone": 110.0 }, { "one": 60.0, "alone": 130.0 }]);
    let worker =
        json!({ "alone": 100.0, "idle": 25.0, "busy": 100.0, "connections": 3.0, "memory": 50_000.0 });
    let cluster = json!({
        "load": [0.1, 2.0],
        "calls": {
            "plain Redis, 1 queue": call,
            "plain Redis with a replica, 1 queue": with_replica,
            "plain Redis, 3 queues": drained,
            "Cluster of 1, 1 queue": drained,
            "Cluster of 2, 2 queues": drained,
            "Cluster of 3, 3 queues": [{ "redis": 3.0, "worker": 1.5, "one": 40.0 }],
        },
        "workers": { "plain Redis, 1 queue": worker, "Cluster of 3, 3 queues": { "alone": 200.0 } },
    });
    let told = capacity::section(&scaling, &cluster).unwrap();
    // 11,574 calls a second, 50 µs and a replica: 0.69 of a core, and a tenth of one for 1,000 workers.
    for line in [
        "The load was 0.1 before and 2.0 after",
        "| plain Redis, 1 queue | 1.25 | 0.50 |",
        "| Cluster of 3, 3 queues | 3.00 | 1.50 |",
        "| f | how many times as much a call costs the master if it has a replica | 1.20 | `bench/cluster`, with a replica |",
        "| 1 | 79 % | 218 % | 427 % | 18 % | 10 % | 4,000 | 11.2 |",
        "| 16 | 15 % | 26 % | 62 % | 11 % | 10 % | 4,000 | 0.7 |",
        "**8 shards** keep the peak below 50 % of a core",
        "The upper bound is 114 %",
        "One Redis takes 192 million calls a day so, and 4,800 million in bulk",
        "are used up by 3,000 workers, (10,000 − C) ÷ n, and that part of its core by the heartbeats of 5,000",
        "makes an enqueue cost 50.0 µs in place of 30.0 µs",
    ] {
        assert!(told.contains(line), "expected {line} in:\n{told}");
    }
    let problem = capacity::section(&scaling, &Value::Null).unwrap_err();
    assert_eq!(problem, "plain Redis, 1 queue has no alone");
}

#[test]
fn parts_of_a_queue_are_spread_over_all_shards() {
    let told =
        |shards| [0, 1, 2, 3, 10, 11, 12, 13].map(|part| capacity::shard(&format!("mail.{part}"), shards));
    for shards in [2, 4, 8] {
        let parts = told(shards);
        for shard in 1..=shards {
            let here = parts.iter().filter(|part| **part == shard).count();
            assert_eq!(here, 8 / shards as usize, "{parts:?} of {shards}");
        }
    }
    // CRC16 of these digits is 12,739.
    assert_eq!(capacity::shard("123456789", 16_384), 12_740);
}
