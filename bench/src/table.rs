//! How do figures look to people? As Markdown, made from the file in which they are kept.

use serde_json::Value;

use crate::figures::{quantile, short};
use crate::race::OURS;
use crate::readme::{PLAIN_FN, grouped, middle};

/// A figure as it is read from the file.
#[derive(Clone)]
pub struct Figure {
    /// The table it stands in, and its column there.
    pub table: String,
    pub column: String,
    pub system: String,
    pub unit: String,
    pub rounds: Vec<f64>,
    /// Of the last round: how many calls were drained, or waited.
    pub calls: Option<u64>,
    pub problem: Option<String>,
}

impl Figure {
    pub fn median(&self) -> Option<f64> {
        middle(&self.rounds)
    }

    pub fn range(&self) -> Option<(f64, f64)> {
        self.median()?;
        Some((quantile(&self.rounds, 0.0), quantile(&self.rounds, 1.0)))
    }

    /// As it stands in a column in which nobody has more calls than `most`.
    fn cell(&self, most: Option<u64>) -> String {
        let Some((median, (low, high))) = self.median().zip(self.range()) else { return "failed".into() };
        let mut text = short(median);
        if self.rounds.len() > 1 {
            text.push_str(&format!(" ({} to {})", short(low), short(high)));
        }
        if let Some(calls) = self.calls.filter(|calls| Some(*calls) < most) {
            text.push_str(&format!(", {} calls", grouped(calls)));
        }
        if self.problem.is_some() {
            text.push_str(", not always");
        }
        text
    }
}

/// The figures of a file.
pub fn figures(saved: &Value) -> Vec<Figure> {
    let all = saved["figures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|figure| {
            let row = text(&figure["row"]);
            let (table, column) = row.split_once(", ").unwrap_or((&row, ""));
            let rounds = figure["rounds"].as_array().map(Vec::as_slice).unwrap_or_default();
            Figure {
                table: table.into(),
                column: column.into(),
                system: text(&figure["system"]),
                unit: text(&figure["unit"]),
                rounds: rounds.iter().filter_map(Value::as_f64).collect(),
                calls: figure["calls"].as_array().and_then(|calls| calls.last()?.as_u64()),
                problem: figure["problem"].as_str().map(str::to_owned),
            }
        })
        .collect()
}

/// All of a saved run.
pub fn markdown(saved: &Value) -> String {
    let figures = figures(saved);
    let mut text = String::from("# Benchmarks\n\n");
    text.push_str(&conditions(saved));
    for table in distinct(figures.iter().map(|figure| &figure.table)) {
        let of_table: Vec<&Figure> = figures.iter().filter(|figure| figure.table == *table).collect();
        text.push_str(&format!("\n## {}\n\n{}", capital(table), one(&of_table)));
    }
    text.push_str("\n## Systems\n\n");
    for system in saved["systems"].as_array().into_iter().flatten() {
        let field = |name: &str| system[name].as_str().unwrap_or_default();
        text.push_str(&format!("- **{}** ({}): {}\n", field("name"), field("version"), field("settings")));
    }
    text
}

fn conditions(saved: &Value) -> String {
    let quick =
        if saved["quick"] == true { " A quick run, which shows that it works and no more." } else { "" };
    format!(
        "Made by `bench/run`: do not edit. All systems took turns on one private {}. The median of the rounds stands \
         before their range. Each call is known to have run once; a system that is slow or holds no more had fewer \
         calls, and their number stands beside its figure.{quick}\n\n[scaling.md](scaling.md) says what grows with what, and \
         [performance.md](performance.md) where the time of a call goes.\n",
        machine(saved)
    )
}

/// What it ran on, beginning with Redis.
pub fn machine(saved: &Value) -> String {
    let field = |name: &str| match &saved["machine"][name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!(
        "Redis {}, on {} cores ({}), {}, Linux {}, load {} before",
        field("redis"),
        field("cores"),
        field("processor"),
        field("memory"),
        field("kernel"),
        field("load"),
    )
}

/// A line for each system, a column for each figure, and what went wrong.
pub fn one(figures: &[&Figure]) -> String {
    let columns = distinct(figures.iter().map(|figure| &figure.column));
    let mut lines = vec![vec![String::new()]];
    for column in &columns {
        let unit = figures.iter().find(|figure| figure.column == **column).map_or("", |figure| &figure.unit);
        let unit = if column.is_empty() || unit.is_empty() { unit.into() } else { format!(", {unit}") };
        lines[0].push(format!("{column}{unit}"));
    }
    for system in systems_of(figures) {
        let mut line = vec![system.clone()];
        for column in &columns {
            let found = figures.iter().find(|figure| figure.system == *system && figure.column == **column);
            let of_column = figures.iter().filter(|figure| figure.column == **column);
            let most = of_column.filter_map(|figure| figure.calls).max();
            line.push(found.map_or_else(String::new, |figure| figure.cell(most)));
        }
        lines.push(line);
    }
    let mut text = aligned(&lines);
    let problems = figures.iter().filter_map(|figure| {
        let problem = figure.problem.as_ref()?;
        Some(format!("- {}, {}: {problem}\n", figure.system, figure.column))
    });
    let problems: String = problems.collect();
    if !problems.is_empty() {
        text.push_str(&format!("\nFailed:\n\n{problems}"));
    }
    text
}

/// The systems of a table in the order of their rows: plain functions come after the `async fn` of this project.
fn systems_of<'a>(figures: &[&'a Figure]) -> Vec<&'a String> {
    let mut systems = distinct(figures.iter().map(|figure| &figure.system));
    let place = |name: &str, systems: &[&String]| systems.iter().position(|system| *system == name);
    if let (Some(ours), Some(plain)) = (place(OURS, &systems), place(PLAIN_FN, &systems)) {
        let plain = systems.remove(plain);
        systems.insert(ours + 1, plain);
    }
    systems
}

/// A table in Markdown whose source can be read too; the first line is its head.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text.push('|');
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let cell = if column == 0 { format!(" {cell:width$} |") } else { format!(" {cell:>width$} |") };
            text.push_str(&cell);
        }
        text.push('\n');
        if at == 0 {
            text.push('|');
            for (column, width) in widths.iter().enumerate() {
                let end = if column == 0 { '-' } else { ':' };
                text.push_str(&format!("{}{end}|", "-".repeat(width + 1)));
            }
            text.push('\n');
        }
    }
    text
}

/// Each of them once, in their order.
pub fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
