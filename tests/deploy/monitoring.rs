//! Prometheus and Grafana: the configuration, the alerts and the dashboard.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::{path, succeed, text};
use crate::support::{directory, root};

fn promtool() -> Command {
    Command::new("promtool")
}

/// The expressions of the dashboard, as Grafana sends them to Prometheus.
pub(super) fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("grafana/dashboard.json")).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap();
        expression.replace("$__rate_interval", "1m").replace("$queue", ".*")
    });
    filled.collect()
}

/// The names of metrics in an expression, those of histograms without their ending.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("delayed_")).map(|word| word.strip_suffix("_bucket").unwrap_or(word))
}

fn alerts() -> BTreeSet<String> {
    let text = text("prometheus/alerts.yml");
    text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

#[test]
fn prometheus_accepts_the_configuration_and_the_alerts() {
    succeed(promtool().args(["check", "config"]).arg(path("prometheus/prometheus.yml")));
}

#[test]
fn every_alert_fires_in_trouble_and_not_otherwise() {
    let tests = root().join("tests/deploy/alerts.yml");
    succeed(promtool().args(["test", "rules"]).arg(&tests));
    let tests = std::fs::read_to_string(tests).unwrap();
    let alerts = alerts();
    assert!(alerts.len() > 8, "expected all alerts, found {alerts:?}");
    for alert in alerts {
        let fires = format!("alertname=\"{alert}\"}}', value: ");
        let mut counts = tests.split(&fires).skip(1);
        assert!(
            counts.any(|count| !count.starts_with('0')),
            "expected {alert} to fire in tests/deploy/alerts.yml",
        );
    }
}

#[test]
fn prometheus_parses_every_expression_of_the_dashboard() {
    let expressions = expressions();
    assert!(expressions.len() > 20, "expected all expressions, found {}", expressions.len());
    assert!(expressions.iter().all(|expression| !expression.contains('$')), "{expressions:?}");
    let rules: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(index, expression)| json!({ "record": format!("panel:{index}"), "expr": expression }))
        .collect();
    let directory = directory();
    let file = directory.path().join("rules.yml");
    // JSON is YAML, too.
    std::fs::write(&file, json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string()).unwrap();
    succeed(promtool().args(["check", "rules"]).arg(&file));
}

#[test]
fn dashboard_and_alerts_name_only_documented_metrics() {
    let document = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let used = [text("grafana/dashboard.json"), text("prometheus/alerts.yml")].concat();
    let names: BTreeSet<&str> = metrics(&used).collect();
    assert!(names.len() > 15, "expected many metrics, found {names:?}");
    for name in names {
        let row = format!("| `{name}` |");
        assert!(document.contains(&row), "expected docs/metrics.md to list {name}, which deploy/ uses");
    }
}
