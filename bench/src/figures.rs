//! What was measured? All of it, as it is kept in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Machine;
use crate::programs::MISSING;
use crate::publish;
use crate::readme::{grouped, middle};
use crate::scale;

/// What was measured of one system in one row, one value for each round. The name of a row is that of its table and,
/// behind the first comma, that of its column.
#[derive(Serialize, Deserialize)]
struct Figure {
    row: String,
    system: String,
    unit: String,
    #[serde(rename = "rounds")]
    values: Vec<f64>,
    /// How many calls each value is made of, where that differs.
    calls: Vec<u64>,
    /// Why there is no value, of the last round that has none.
    problem: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct System {
    name: String,
    version: String,
    settings: String,
}

/// All figures.
#[derive(Serialize, Deserialize)]
pub struct Figures {
    quick: bool,
    machine: Machine,
    systems: Vec<System>,
    figures: Vec<Figure>,
    raw: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
    #[serde(skip)]
    file: PathBuf,
    /// Those of the run that is published.
    #[serde(skip)]
    published: Vec<Figure>,
}

impl Figures {
    /// None yet; they go into that file.
    pub fn new(file: &Path, quick: bool) -> Self {
        Self {
            quick,
            machine: Machine::read(),
            systems: Vec::new(),
            figures: Vec::new(),
            raw: BTreeMap::new(),
            file: file.into(),
            published: published(),
        }
    }

    /// Those of that file, when what is measured now can stand beside them.
    pub fn resume(file: &Path, quick: bool) -> Result<Self, String> {
        let saved = publish::load(file)?;
        let refuse = |problem: String| Err(format!("{}: {problem}", file.display()));
        if saved["kind"] == scale::KIND {
            return refuse("it is a run of bench/scale".into());
        }
        let figures = match serde_json::from_value(saved) {
            Ok(figures) => Self { file: file.into(), published: published(), ..figures },
            Err(error) => return refuse(error.to_string()),
        };
        if figures.quick != quick {
            return refuse("a quick run and one that counts do not mix".into());
        }
        match figures.machine.unlike(&Machine::read()) {
            Some(problem) => refuse(problem),
            None => Ok(figures),
        }
    }

    /// Says what a system is. An error when the run began with another version of it, or with other settings.
    pub fn describe(&mut self, name: &str, version: Option<String>, settings: &str) -> Result<(), String> {
        let new = |version: Option<String>| System {
            name: name.into(),
            version: version.unwrap_or_else(|| MISSING.into()),
            settings: settings.into(),
        };
        let Some(known) = self.systems.iter_mut().find(|system| system.name == name) else {
            self.systems.push(new(version));
            return Ok(());
        };
        match version {
            Some(_) if known.version == MISSING => *known = new(version),
            Some(version) if known.version != version => {
                return Err(format!("the run began with {name} as {}, not as {version}", known.version));
            }
            Some(_) if known.settings != settings => {
                return Err(format!(
                    "the run began with other settings of {name}, which were: {}",
                    known.settings
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the value of one round.
    pub fn add(&mut self, row: &str, system: &str, unit: &str, value: Result<f64, String>) {
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
    pub fn add_of(&mut self, row: &str, system: &str, unit: &str, value: f64, calls: u64) {
        self.add(row, system, unit, Ok(value));
        self.figure(row, system, unit).calls.push(calls);
    }

    fn figure(&mut self, row: &str, system: &str, unit: &str) -> &mut Figure {
        let at = self.figures.iter().position(|figure| figure.is(row, system));
        let at = at.unwrap_or_else(|| {
            self.figures.push(Figure {
                row: row.into(),
                system: system.into(),
                unit: unit.into(),
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
        self.figures.iter().find(|figure| figure.is(row, system))?.values.last().copied()
    }

    /// About what it is, by the rounds so far, else by the run that is published.
    pub fn known(&self, row: &str, system: &str) -> Option<f64> {
        let mut all = self.figures.iter().chain(&self.published);
        let found = all.find(|figure| figure.is(row, system) && !figure.values.is_empty())?;
        middle(&found.values)
    }

    /// Whether a system has only ever failed in a row.
    pub fn fails(&self, row: &str, system: &str) -> bool {
        let mut found = self.figures.iter().filter(|figure| figure.is(row, system));
        found.any(|figure| figure.problem.is_some() && figure.values.is_empty())
    }

    /// Keeps what a round's values were made from.
    pub fn raw(&mut self, row: &str, system: &str, values: impl Into<Value>) {
        let of_row = self.raw.entry(row.into()).or_default();
        of_row.entry(system.into()).or_default().push(values.into());
    }

    /// All of it.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).expect("names are text")
    }

    /// Writes it into its file, so that it outlives a run that is stopped.
    pub fn keep(&self) -> Result<(), String> {
        publish::write(&self.file, &format!("{:#}\n", self.json()))
    }
}

impl Figure {
    fn is(&self, row: &str, system: &str) -> bool {
        self.row == row && self.system == system
    }
}

fn published() -> Vec<Figure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.json");
    let saved = publish::load(&path).map(|saved| saved["figures"].clone());
    saved.ok().and_then(|figures| serde_json::from_value(figures).ok()).unwrap_or_default()
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
