//! Metrics and probes: what a worker counts, and what an exporter shows of the queues.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use redis::Commands;
use serde_json::Value;

use crate::support::http::{Answer, Connection};
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, Trial, WORKER, call, marks};
use crate::support::{root, wait};

/// Where a program shows its metrics.
fn address(program: &Program) -> SocketAddr {
    let line: Value = serde_json::from_str(&program.wait_for_line("metrics are shown")).unwrap();
    line["address"].as_str().unwrap_or_else(|| panic!("expected an address: {line}")).parse().unwrap()
}

fn get(address: SocketAddr, path: &str) -> Answer {
    Connection::open(address).request(&format!("GET {path}"), &[], b"").expect("an answer")
}

fn metrics(address: SocketAddr) -> String {
    String::from_utf8(get(address, "/metrics").expect(200).body).unwrap()
}

/// The value of a metric with exactly these labels.
fn value(text: &str, metric: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn worker_counts_its_runs_by_queue_task_and_outcome() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--metrics", "127.0.0.1:0", "--concurrency", "7"]);
    let address = address(&worker);
    trial.push(&marks(20));
    trial.push(&[call("trial.fails", &["x".into()]), call("trial.missing", &[])]);
    trial.push(&[call("trial.mark_or_retry", &["y".into(), 1.into()])]);
    // Its id tells when it was made.
    let mut command = trial.command(WORKER);
    command.args(["enqueue", "trial.mark", r#"["with an id"]"#, "--with-id", "--queue", "q"]);
    let mut enqueue = Program::spawn(command.args(["--redis", &trial.server.url()]));
    assert!(enqueue.wait_exit(PATIENCE).success());
    trial.wait_settled();
    let text = wait::until_some("all runs to be counted", PATIENCE, || {
        let text = metrics(address);
        let ended = value(
            &text,
            r#"delayed_worker_runs_ended_total{queue="q",task="trial.mark",outcome="succeeded"}"#,
        );
        ended.filter(|ended| *ended == 21.0).map(|_| text)
    });
    let worker_metric =
        |name: &str, labels: &str| value(&text, &format!("delayed_worker_{name}{{queue=\"q\",{labels}}}"));
    for (name, labels, expected) in [
        ("runs_started_total", r#"task="trial.mark""#, 21.0),
        ("runs_ended_total", r#"task="trial.mark",outcome="succeeded""#, 21.0),
        ("run_duration_seconds_count", r#"task="trial.mark""#, 21.0),
        ("runs_ended_total", r#"task="trial.fails",outcome="failed""#, 1.0),
        ("calls_buried_total", r#"task="trial.fails""#, 1.0),
        ("runs_ended_total", r#"task="",outcome="unknown""#, 1.0),
        ("calls_retried_total", r#"task="trial.mark_or_retry""#, 1.0),
        ("runs_started_total", r#"task="trial.mark_or_retry""#, 2.0),
        ("wait_duration_seconds_count", r#"task="trial.mark""#, 1.0),
        ("call_duration_seconds_count", r#"task="trial.mark""#, 1.0),
        ("script_duration_seconds_count", r#"script="retry""#, 1.0),
        ("script_duration_seconds_count", r#"script="bury""#, 2.0),
    ] {
        assert_eq!(worker_metric(name, labels), Some(expected), "{name} {labels}: {text}");
    }
    assert_eq!(value(&text, "delayed_worker_slots"), Some(7.0), "{text}");
    let age = value(&text, "delayed_worker_heartbeat_age_seconds").expect("expected an age of the heartbeat");
    assert!((0.0..30.0).contains(&age), "{text}");
    assert_eq!(value(&text, r#"delayed_queue_dead_letters{queue="q"}"#), Some(2.0), "{text}");
    assert_eq!(value(&text, r#"delayed_queue_workers{queue="q"}"#), Some(1.0), "{text}");
    get(address, "/livez").expect(200);
    trial.stop(&mut worker);
}

#[test]
fn gateway_counts_the_calls_that_it_enqueues() {
    let trial = Trial::new();
    let mut command = trial.command(WORKER);
    command.args([
        "gateway",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--redis",
        &trial.server.url(),
    ]);
    let gateway = Program::spawn(&mut command);
    let shown = address(&gateway);
    let line: Value = serde_json::from_str(&gateway.wait_for_line("gateway started")).unwrap();
    let listens: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
    let post = |body: &str| {
        let json = [("content-type", "application/json")];
        Connection::open(listens).request("POST /v1/calls", &json, body.as_bytes()).expect("an answer")
    };
    post(r#"{"task": "trial.mark", "args": ["a"], "queue": "q"}"#).expect(202);
    post(r#"[{"task": "trial.mark", "args": ["b"], "queue": "q"}, {"task": "trial.missing", "args": []}]"#)
        .expect(202);
    post(r#"{"task": "trial.mark", "args": [], "queue": "q"}"#).expect(422);
    let text = metrics(shown);
    let enqueued = r#"delayed_client_calls_enqueued_total{queue="q",task="trial.mark"}"#;
    assert_eq!(value(&text, enqueued), Some(2.0), "{text}");
    assert_eq!(text.matches("delayed_client_calls_enqueued_total{").count(), 1, "{text}");
}

#[test]
fn calls_that_nobody_moves_are_late() {
    let trial = Trial::new();
    let mut command = trial.command(WORKER);
    command.args(["enqueue", "trial.mark", r#"["late"]"#, "--after", "1ms", "--queue", "q"]);
    let mut enqueue = Program::spawn(command.args(["--redis", &trial.server.url()]));
    assert!(enqueue.wait_exit(PATIENCE).success());
    let mut command = trial.command(DELAYED);
    let exporter =
        Program::spawn(command.args(["exporter", "--listen", "127.0.0.1:0", "--redis", &trial.server.url()]));
    let address = address(&exporter);
    let late = || value(&metrics(address), r#"delayed_queue_timetable_lateness_seconds{queue="q"}"#);
    wait::until("the call to be late", PATIENCE, || late().is_some_and(|late| late > 1.0));
    let mut worker = trial.worker(&[]);
    wait::until("nothing to be late", PATIENCE, || late().is_none());
    trial.stop(&mut worker);
}

#[test]
fn exporter_shows_queues_and_limits_and_redis_that_is_away() {
    let mut trial = Trial::new();
    let mut command = trial.command(DELAYED);
    command.args(["exporter", "--listen", "127.0.0.1:0", "--redis", &trial.server.url()]);
    let exporter = Program::spawn(&mut command);
    let address = address(&exporter);
    trial.push(&marks(3));
    let () = trial.redis.sadd("delayed_limits", "github").unwrap();
    let () = trial.redis.hset("{delayed:github}:policy", "concurrency", 4).unwrap();
    let text = wait::until_some("the queue to be shown", PATIENCE, || {
        let text = metrics(address);
        value(&text, r#"delayed_queue_waiting{queue="q"}"#).map(|_| text)
    });
    assert_eq!(value(&text, r#"delayed_queue_waiting{queue="q"}"#), Some(3.0), "{text}");
    assert_eq!(value(&text, r#"delayed_limit_concurrency{limit="github"}"#), Some(4.0), "{text}");
    assert_eq!(value(&text, "delayed_redis_up"), Some(1.0), "{text}");
    get(address, "/readyz").expect(200);
    trial.server.kill();
    wait::until("it to be told that Redis is away", PATIENCE, || get(address, "/readyz").status == 503);
    assert_eq!(value(&metrics(address), "delayed_redis_up"), Some(0.0));
    get(address, "/livez").expect(200);
    trial.server.restart();
    wait::until("it to be told that Redis is back", PATIENCE, || get(address, "/readyz").status == 200);
}

#[test]
fn names_of_metrics_follow_the_conventions() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--metrics", "127.0.0.1:0"]);
    let address = address(&worker);
    trial.push(&marks(1));
    trial.wait_settled();
    let text = wait::until_some("a run to be counted", PATIENCE, || {
        let text = metrics(address);
        text.contains("outcome=\"succeeded\"").then_some(text)
    });
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: scripts/install --tools installs it");
    std::io::Write::write_all(promtool.stdin.as_mut().unwrap(), text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.trim().is_empty(), "{told}\n{text}");
    let document = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let shown = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    for (name, kind) in shown {
        let row = format!("| `{name}` | {kind} |");
        assert!(document.contains(&row), "expected docs/metrics.md to have {row}");
    }
    trial.stop(&mut worker);
}
