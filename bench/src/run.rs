//! What does the command line ask for?

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::figures::Figures;
use crate::{isolation, publish, race};

struct Plan {
    /// Parts of `race`.
    race: Vec<&'static str>,
    /// Parts of `isolation`.
    isolation: Vec<&'static str>,
    /// Names of systems; none: all.
    only: Vec<String>,
    quick: bool,
    /// Whether it goes on with the run that is in the file.
    add: bool,
    /// How often each system has its turn, if that is said.
    rounds: Option<usize>,
    /// When the time is over that was given.
    until: Option<Instant>,
    /// The most calls of a drain.
    calls: Option<u64>,
    /// Where the figures go; tables and the chart lie beside them.
    json: PathBuf,
}

/// Measures, prints the tables, and writes figures, tables and chart.
pub fn run(words: &[String]) -> ExitCode {
    let plan = match read(words) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    match measure(&plan) {
        Ok(figures) => publish::save(&figures.json(), &plan.json),
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn measure(plan: &Plan) -> Result<Figures, String> {
    let mut figures = match plan.add {
        true => Figures::resume(&plan.json, plan.quick)?,
        false => Figures::new(&plan.json, plan.quick),
    };
    // What does not fit to the run is found before anything is measured.
    let isolated =
        if plan.isolation.is_empty() { Vec::new() } else { isolation::systems(&plan.only, &mut figures)? };
    let racing = if plan.race.is_empty() { Vec::new() } else { race::systems(&plan.only, &mut figures)? };
    if !isolated.is_empty() {
        let effort = if plan.quick { isolation::Effort::QUICK } else { isolation::Effort::FULL };
        let rounds = plan.rounds.unwrap_or(effort.rounds);
        let effort = isolation::Effort { rounds, until: plan.until, ..effort };
        isolation::run(&plan.isolation, &isolated, &effort, &mut figures)?;
    }
    if !racing.is_empty() {
        let effort = if plan.quick { race::Effort::QUICK } else { race::Effort::FULL };
        let rounds = plan.rounds.unwrap_or(effort.rounds);
        let effort = race::Effort { rounds, until: plan.until, ..effort }.with_calls(plan.calls);
        race::run(&plan.race, &racing, &effort, &mut figures)?;
    }
    Ok(figures)
}

fn read(words: &[String]) -> Result<Plan, String> {
    let mut plan = Plan {
        race: Vec::new(),
        isolation: Vec::new(),
        only: Vec::new(),
        quick: false,
        add: false,
        rounds: None,
        until: None,
        calls: None,
        json: concat!(env!("CARGO_MANIFEST_DIR"), "/figures.json").into(),
    };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
        match word {
            "--quick" => plan.quick = true,
            "--add" => plan.add = true,
            "--rounds" => {
                let rounds = value()?;
                let number = rounds.parse().ok().filter(|number| *number > 0);
                plan.rounds = Some(number.ok_or_else(|| format!("no number of rounds: {rounds}"))?);
            }
            "--json" => plan.json = value()?.into(),
            "--within" => {
                let minutes = value()?;
                let minutes: u64 = minutes.parse().map_err(|_| format!("no number of minutes: {minutes}"))?;
                plan.until = Some(Instant::now() + Duration::from_secs(60 * minutes));
            }
            "--calls" => {
                let calls = value()?;
                plan.calls = Some(calls.parse().map_err(|_| format!("no number of calls: {calls}"))?);
            }
            "--only" => plan.only.extend(value()?.split(',').map(str::to_owned)),
            _ if word.starts_with('-') => return Err(format!("no such option: {word}")),
            _ => {
                let in_race = race::PARTS.into_iter().find(|name| *name == word);
                let in_isolation = isolation::PARTS.into_iter().find(|name| *name == word);
                if in_race.or(in_isolation).is_none() {
                    let known = [&race::PARTS[..], &isolation::PARTS].concat().join(", ");
                    return Err(format!("no such part: {word}; there are {known}"));
                }
                plan.race.extend(in_race);
                plan.isolation.extend(in_isolation);
            }
        }
    }
    if plan.race.is_empty() && plan.isolation.is_empty() {
        plan.race.extend(race::PARTS);
        plan.isolation.extend(isolation::PARTS);
    }
    match plan.json.parent() {
        Some(place) if !place.as_os_str().is_empty() && !place.is_dir() => {
            Err(format!("there is no directory {}: make it, or name another file", place.display()))
        }
        _ => Ok(plan),
    }
}
