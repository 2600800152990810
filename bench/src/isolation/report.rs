//! How are the figures told? One table for people, and all of it in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::quantile;
use crate::server::Server;

/// What was measured of one system in one row, one value for each round.
struct Figure {
    row: String,
    system: String,
    unit: &'static str,
    values: Vec<f64>,
    /// Why there is no value, of the last round that has none.
    problem: Option<String>,
}

/// All figures.
#[derive(Default)]
pub struct Report {
    figures: Vec<Figure>,
    /// System, version and settings.
    systems: Vec<(String, String, String)>,
    raw: BTreeMap<String, BTreeMap<String, Vec<Vec<f64>>>>,
}

impl Report {
    /// Says once what a system is.
    pub fn describe(&mut self, system: &str, version: String, settings: &str) {
        if self.systems.iter().all(|(name, ..)| name != system) {
            self.systems.push((system.into(), version, settings.into()));
        }
    }

    /// Takes the value of one round.
    pub fn add(&mut self, row: &str, system: &str, unit: &'static str, value: Result<f64, String>) {
        let at = self.figures.iter().position(|figure| figure.row == row && figure.system == system);
        let at = at.unwrap_or_else(|| {
            let figure =
                Figure { row: row.into(), system: system.into(), unit, values: vec![], problem: None };
            self.figures.push(figure);
            self.figures.len() - 1
        });
        let figure = &mut self.figures[at];
        match value {
            Ok(value) => {
                eprintln!("  {row}, {system}: {} {unit}", short(value));
                figure.values.push(value);
            }
            Err(problem) => {
                eprintln!("  {row}, {system}: {problem}");
                figure.problem = Some(problem);
            }
        }
    }

    /// The value of the last round.
    pub fn last(&self, row: &str, system: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.row == row && figure.system == system)?;
        figure.values.last().copied()
    }

    /// Keeps what a round's values were made from.
    pub fn raw(&mut self, row: &str, system: &str, values: Vec<f64>) {
        self.raw.entry(row.into()).or_default().entry(system.into()).or_default().push(values);
    }

    /// One table: the median of the rounds, their range, and the ratio to the first system of the row.
    pub fn print(&self) {
        let mut rows: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !rows.contains(&figure.row.as_str()) {
                rows.push(&figure.row);
            }
        }
        let mut lines = vec![["row", "system", "median", "range", "of the first"].map(String::from)];
        for row in rows {
            let mut first = None;
            for (at, figure) in self.figures.iter().filter(|figure| figure.row == row).enumerate() {
                let name = if at == 0 { row.into() } else { String::new() };
                lines.push(figure.line(name, &mut first));
            }
        }
        let widths: [usize; 5] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        });
        println!();
        for (at, line) in lines.iter().enumerate() {
            let [row, system, median, range, ratio] = line;
            let [a, b, c, d, e] = widths;
            println!("| {row:a$} | {system:b$} | {median:>c$} | {range:>d$} | {ratio:>e$} |");
            if at == 0 {
                let [a, b, c, d, e] = widths.map(|width| "-".repeat(width));
                println!("|-{a}-|-{b}-|-{c}:|-{d}:|-{e}:|");
            }
        }
        println!();
        let mut told = BTreeSet::new();
        for figure in &self.figures {
            if let Some(problem) = &figure.problem
                && told.insert((&figure.system, problem))
            {
                println!("failed: {}: {}: {problem}", figure.system, figure.row);
            }
        }
        for (system, version, settings) in &self.systems {
            let version = if version.is_empty() { String::new() } else { format!(" ({version})") };
            println!("{system}{version}: {settings}");
        }
    }

    /// Writes all of it.
    pub fn save(&self, path: &Path, server: &Server) {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "row": figure.row,
                    "system": figure.system,
                    "unit": figure.unit,
                    "rounds": figure.values,
                    "problem": figure.problem,
                })
            })
            .collect();
        let systems: Map<String, Value> = self
            .systems
            .iter()
            .map(|(name, version, settings)| {
                (name.clone(), json!({ "version": version, "settings": settings }))
            })
            .collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let all = json!({
            "machine": { "cores": cores, "redis": server.version() },
            "systems": systems,
            "figures": figures,
            "raw": self.raw,
        });
        match std::fs::write(path, format!("{all:#}\n")) {
            Ok(()) => println!("\nraw figures: {}", path.display()),
            Err(error) => eprintln!("{} cannot be written: {error}", path.display()),
        }
    }
}

impl Figure {
    /// As it stands in the table; `first` is the median of the row's first system.
    fn line(&self, name: String, first: &mut Option<f64>) -> [String; 5] {
        if self.values.is_empty() {
            return [name, self.system.clone(), "failed".into(), String::new(), String::new()];
        }
        let median = quantile(&self.values, 0.5);
        let low = self.values.iter().copied().fold(f64::MAX, f64::min);
        let high = self.values.iter().copied().fold(f64::MIN, f64::max);
        let ratio = first.map(|first| median / first).filter(|ratio| ratio.is_finite());
        first.get_or_insert(median);
        let failed = if self.problem.is_some() { ", not always" } else { "" };
        [
            name,
            self.system.clone(),
            format!("{} {}", short(median), self.unit).trim_end().into(),
            format!("{} to {}{failed}", short(low), short(high)),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]
    }
}

/// With as many digits as it is worth.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
