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
    let mut figures = Figures::default();
    if !plan.isolation.is_empty() {
        let effort = if plan.quick { isolation::Effort::QUICK } else { isolation::Effort::FULL };
        let effort = isolation::Effort { until: plan.until, ..effort };
        isolation::run(&plan.isolation, &plan.only, &effort, &mut figures);
    }
    if !plan.race.is_empty() {
        let effort = if plan.quick { race::Effort::QUICK } else { race::Effort::FULL };
        let calls = plan.calls.unwrap_or(effort.calls);
        let effort = race::Effort { until: plan.until, calls, ..effort };
        race::run(&plan.race, &plan.only, &effort, &mut figures);
    }
    publish::save(&figures.json(plan.quick), &plan.json)
}

fn read(words: &[String]) -> Result<Plan, String> {
    let mut plan = Plan {
        race: Vec::new(),
        isolation: Vec::new(),
        only: Vec::new(),
        quick: false,
        until: None,
        calls: None,
        json: concat!(env!("CARGO_MANIFEST_DIR"), "/figures.json").into(),
    };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
        match word {
            "--quick" => plan.quick = true,
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
    Ok(plan)
}
