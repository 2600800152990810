//! Are the figures of the README those of the run that is saved beside the documents?

use serde_json::{Value, json};

use super::readme::LONGEST;
use super::support::root;

#[path = "../bench/src/readme.rs"]
mod section;

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
