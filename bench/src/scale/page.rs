//! How do the figures look to people? A table for each part, what it shows, and a chart.

use serde_json::Value;

use super::capacity;
use super::parts::PARTS;
use crate::chart::drawn;
use crate::table::{Figure, capital, figures, machine, one};

/// What `bench/cluster --json` measured.
const CLUSTER: &str = include_str!("../../../docs/cluster.json");

/// The panels of the chart, by table and column, and what stands above them.
const PANELS: [(&str, &str, &str); 10] = [
    ("worker processes", "drained", "Calls each second, by worker processes"),
    ("worker processes", "Redis for a call", "Redis for a call, µs, by worker processes"),
    ("queues of one worker", "drained", "Calls each second, by queues of one worker"),
    ("queues of one worker", "Redis while idle", "Redis while idle, % of a core, by queues"),
    ("slots of one worker", "drained", "Calls each second, by slots"),
    ("slots of one worker", "memory", "Memory of the worker, MB, by slots"),
    ("messages that wait", "drained", "Calls each second, by messages that wait"),
    ("messages that wait", "memory of Redis for each", "Memory of Redis for each, B, by messages that wait"),
    ("idle workers", "Redis", "Redis, % of a core, by idle workers"),
    ("idle workers", "commands", "Commands each second, by idle workers"),
];

/// All of a saved run.
pub fn markdown(saved: &Value) -> String {
    let quick =
        if saved["quick"] == true { " A quick run, which shows that it works and no more." } else { "" };
    let mut text = format!(
        "# Scaling\n\nMade by `bench/scale`: do not edit. Empty calls on one private {}. The median of the rounds stands \
         before their range. Each drained call is known to have run once.{quick}\n\n![What grows, and how](scaling.svg)\n",
        machine(saved)
    );
    let all = figures(saved);
    for part in PARTS {
        let of_part: Vec<&Figure> = all.iter().filter(|figure| figure.table == part.table).collect();
        if !of_part.is_empty() {
            text.push_str(&format!("\n## {}\n\n{}\n\n{}", capital(part.table), part.why, one(&of_part)));
        }
    }
    let cluster = serde_json::from_str(CLUSTER).expect("figures");
    match capacity::section(saved, &cluster) {
        Ok(section) => text.push_str(&section),
        Err(problem) => eprintln!("nothing is computed for a thousand workers: {problem}"),
    }
    text
}

/// The chart of a saved run, from small to large.
pub fn svg(saved: &Value) -> String {
    let all = figures(saved);
    let panels = PANELS.map(|(table, column, title)| {
        (title, all.iter().filter(|figure| figure.table == table && figure.column == column).collect())
    });
    drawn(&panels, "A line is the range of the rounds.")
}
