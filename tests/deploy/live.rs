//! A worker and a real Prometheus with the configuration of `deploy/`: do the queries of the dashboard find anything?

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use redis::Commands;
use serde_json::Value;

use super::{monitoring, path, succeed, text};
use crate::support::http::Connection;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, call, marks};
use crate::support::{directory, python, wait};

/// Metrics of which something has to be shown.
const SHOWN: [&str; 8] = [
    "delayed_queue_waiting",
    "delayed_queue_dead_letters",
    "delayed_queue_workers",
    "delayed_limit_concurrency",
    "delayed_redis_up",
    "delayed_worker_slots",
    "delayed_worker_runs_ended_total",
    "delayed_worker_run_duration_seconds_bucket",
];

/// Asks Prometheus; a query is sent to a path that takes one.
fn ask(prometheus: SocketAddr, path: &str, query: &str) -> Value {
    let script = "import sys, urllib.request as r, urllib.parse as p; \
        print(r.urlopen(sys.argv[1] + '?' + p.urlencode({'query': sys.argv[2]})).read().decode())";
    let mut python = Command::new(python::interpreter());
    let printed = succeed(python.args(["-c", script, &format!("http://{prometheus}{path}"), query]));
    serde_json::from_str::<Value>(&printed).unwrap()["data"].clone()
}

#[test]
fn prometheus_finds_what_dashboard_and_alerts_ask_for() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--metrics", "127.0.0.1:0"]);
    let line: Value = serde_json::from_str(&worker.wait_for_line("metrics are shown")).unwrap();
    let () = trial.redis.sadd("delayed_limits", "smtp").unwrap();
    let () = trial.redis.hset("{delayed:smtp}:policy", "concurrency", 4).unwrap();

    let directory = directory();
    let targets = r#"["worker:9465", "sweeper:9465", "gateway:9465", "exporter:9465"]"#;
    let config = text("prometheus/prometheus.yml");
    assert!(config.contains(targets) && config.contains(": 15s"), "{config}");
    let config = config.replace(targets, &format!("[{}]", line["address"])).replace(": 15s", ": 1s");
    let config = config.replace("alerts.yml", path("prometheus/alerts.yml").to_str().unwrap());
    let file = directory.path().join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display())).arg(format!("--web.listen-address={free}"));
    command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
    let prometheus = Program::spawn(&mut command);
    wait::until("Prometheus to be ready", PATIENCE, || {
        let ready = || Connection::open(free).request("GET /-/ready", &[], b"");
        TcpStream::connect(free).is_ok() && ready().is_some_and(|answer| answer.status == 200)
    });

    let expressions = monitoring::expressions();
    for name in SHOWN {
        assert!(
            expressions.iter().any(|expression| expression.contains(name)),
            "expected {name} on the dashboard"
        );
    }
    for expression in expressions {
        let has_to_show = SHOWN.iter().any(|name| expression.contains(name));
        wait::until(&format!("an answer to {expression}"), PATIENCE, || {
            // Calls go on, because a rate needs two values that differ.
            trial.push(&marks(1));
            trial.push(&[call("trial.fails", &["x".into()])]);
            let data = ask(free, "/api/v1/query", &expression);
            let results = data["result"].as_array().expect("expected results");
            !has_to_show || (!results.is_empty() && results.iter().all(|result| result["value"][1] != "NaN"))
        });
    }
    wait::until("all alerts to have been evaluated", PATIENCE, || {
        let rules = ask(free, "/api/v1/rules", "");
        let rules = rules["groups"][0]["rules"].as_array().expect("expected rules").clone();
        rules.len() > 8 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    drop(prometheus);
    trial.wait_settled();
    trial.stop(&mut worker);
}
