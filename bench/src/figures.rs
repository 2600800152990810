//! What was measured? All of it, as it is kept in a file.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::readme::grouped;
use crate::server::Server;

/// What was measured of one system in one row, one value for each round. The name of a row is that of its table and,
/// behind the first comma, that of its column.
struct Figure {
    row: String,
    system: String,
    unit: &'static str,
    values: Vec<f64>,
    /// How many calls each value is made of, where that differs.
    calls: Vec<u64>,
    /// Why there is no value, of the last round that has none.
    problem: Option<String>,
}

/// All figures.
#[derive(Default)]
pub struct Figures {
    figures: Vec<Figure>,
    /// System, version and settings.
    systems: Vec<(String, String, String)>,
    raw: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
}

impl Figures {
    /// Says once what a system is.
    pub fn describe(&mut self, system: &str, version: String, settings: &str) {
        if self.systems.iter().all(|(name, ..)| name != system) {
            self.systems.push((system.into(), version, settings.into()));
        }
    }

    /// Takes the value of one round.
    pub fn add(&mut self, row: &str, system: &str, unit: &'static str, value: Result<f64, String>) {
        let figure = self.figure(row, system, unit);
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

    /// The same, of so many calls.
    pub fn add_of(&mut self, row: &str, system: &str, unit: &'static str, value: f64, calls: u64) {
        self.add(row, system, unit, Ok(value));
        self.figure(row, system, unit).calls.push(calls);
    }

    fn figure(&mut self, row: &str, system: &str, unit: &'static str) -> &mut Figure {
        let at = self.figures.iter().position(|figure| figure.row == row && figure.system == system);
        let at = at.unwrap_or_else(|| {
            self.figures.push(Figure {
                row: row.into(),
                system: system.into(),
                unit,
                values: Vec::new(),
                calls: Vec::new(),
                problem: None,
            });
            self.figures.len() - 1
        });
        &mut self.figures[at]
    }

    /// The value of the last round.
    pub fn last(&self, row: &str, system: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.row == row && figure.system == system)?;
        figure.values.last().copied()
    }

    /// Whether a system has only ever failed in a row.
    pub fn fails(&self, row: &str, system: &str) -> bool {
        let mut found = self.figures.iter().filter(|figure| figure.row == row && figure.system == system);
        found.any(|figure| figure.problem.is_some() && figure.values.is_empty())
    }

    /// Keeps what a round's values were made from.
    pub fn raw(&mut self, row: &str, system: &str, values: impl Into<Value>) {
        let of_row = self.raw.entry(row.into()).or_default();
        of_row.entry(system.into()).or_default().push(values.into());
    }

    /// All of it, with what is known of the machine and of the run.
    pub fn json(&self, quick: bool) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "row": figure.row,
                    "system": figure.system,
                    "unit": figure.unit,
                    "rounds": figure.values,
                    "calls": figure.calls,
                    "problem": figure.problem,
                })
            })
            .collect();
        let systems: Vec<Value> = self
            .systems
            .iter()
            .map(
                |(name, version, settings)| json!({ "name": name, "version": version, "settings": settings }),
            )
            .collect();
        let raw: Map<String, Value> =
            self.raw.iter().map(|(row, systems)| (row.clone(), json!(systems))).collect();
        json!({
            "quick": quick,
            "machine": machine(),
            "systems": systems,
            "figures": figures,
            "raw": raw,
        })
    }
}

/// Without these no figure can be compared.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(Path::new("/proc").join(path)).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(['\t', ' ', ':']).to_owned()
    };
    json!({
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "processor": field(&read("cpuinfo"), "model name"),
        "memory": field(&read("meminfo"), "MemTotal"),
        "kernel": read("sys/kernel/osrelease").trim(),
        "redis": Server::start().version(),
        "load": read("loadavg").split(' ').next().unwrap_or_default(),
    })
}

/// The value below which that share of them lies.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// With as many digits as it is worth.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 && value > 0.0 => grouped(value.round() as u64),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
