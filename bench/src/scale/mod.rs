//! What grows with the size of things, and how? `bench/scale` builds and runs it.

mod capacity;
mod page;
mod parts;

use std::path::PathBuf;
use std::process::ExitCode;

pub use self::page::{markdown, svg};

use self::parts::{PARTS, Part};
use crate::figures::Figures;
use crate::publish;
use crate::race::systems::SYSTEMS;
use crate::race::trial::Trial;
use crate::race::{Effort, OURS};
use crate::readme::grouped;
use crate::server::Server;

/// By which a saved run is known as one of these.
pub const KIND: &str = "scaling";

/// Measures the parts that are named, or all of them, one size after the other, round after round.
pub fn run(words: &[String]) -> ExitCode {
    let (mut parts, mut effort, mut sizes) = (Vec::new(), Effort::FULL, usize::MAX);
    let mut json = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/scaling.json"));
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match (word, PARTS.iter().find(|part| part.name == word)) {
            ("--quick", _) => (effort, sizes) = (Effort::QUICK, 3),
            ("--json", _) => match words.next() {
                Some(path) => json = path.into(),
                None => return refuse("--json takes a value"),
            },
            (_, Some(part)) => parts.push(part),
            (_, None) => {
                let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
                return refuse(&format!(
                    "no such part: {word}; there are {}, --quick, --json",
                    known.join(", ")
                ));
            }
        }
    }
    if parts.is_empty() {
        parts.extend(&PARTS);
    }
    let mut figures = Figures::new(&json, sizes < usize::MAX);
    let server = Server::start();
    let system = SYSTEMS.iter().find(|system| system.name == OURS).expect("is there");
    for round in 0..effort.rounds {
        eprintln!("round {} of {}", round + 1, effort.rounds);
        for part in &parts {
            for size in part.sizes.iter().take(sizes) {
                measure(part, Trial { system, server: &server, effort: &effort }, *size, &mut figures);
            }
        }
    }
    let mut saved = figures.json();
    saved["kind"] = KIND.into();
    publish::save(&saved, &json)
}

fn measure(part: &Part, trial: Trial, size: u64, figures: &mut Figures) {
    let named = grouped(size);
    match (part.measure)(trial, size) {
        Ok(columns) => {
            for (column, unit, value) in columns {
                figures.add(&format!("{}, {column}", part.table), &named, unit, Ok(value));
            }
        }
        Err(problem) => figures.add(&format!("{}, {}", part.table, part.first), &named, "/s", Err(problem)),
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(2)
}
