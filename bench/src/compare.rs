//! What has changed since a saved run?

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::figures::short;
use crate::publish::load;
use crate::table::{Figure, aligned, figures};

/// `compare OLD [NEW]`: our own figures that both have; with `--all` also those of peers, which tell what the machine did.
pub fn run(words: &[String]) -> ExitCode {
    let all = words.iter().any(|word| word == "--all");
    let files: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let newest = concat!(env!("CARGO_MANIFEST_DIR"), "/figures.json").to_owned();
    let (old, new) = match files[..] {
        [old] => (old, &newest),
        [old, new] => (old, new),
        _ => {
            eprintln!("error: name the saved run, and the new one if it is not bench/figures.json");
            return ExitCode::from(2);
        }
    };
    match (load(Path::new(old)), load(Path::new(new))) {
        (Ok(old), Ok(new)) => {
            print!("{}", text(&old, &new, all));
            ExitCode::SUCCESS
        }
        (Err(problem), _) | (_, Err(problem)) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn text(old: &Value, new: &Value, all: bool) -> String {
    let mut lines = vec![["", "system", "before", "now", "change", ""].map(String::from).to_vec()];
    let before = figures(old);
    for now in figures(new) {
        if !all && !OURS.contains(&now.system.as_str()) {
            continue;
        }
        let same = |figure: &&Figure| {
            figure.system == now.system && figure.table == now.table && figure.column == now.column
        };
        let Some(then) = before.iter().find(same) else { continue };
        let (Some(was), Some(is)) = (then.median(), now.median()) else { continue };
        let row =
            if now.column.is_empty() { now.table.clone() } else { format!("{}, {}", now.table, now.column) };
        let number = |value: f64| format!("{} {}", short(value), now.unit).trim_end().to_owned();
        let change = if was == 0.0 { String::new() } else { format!("{:+.1} %", (is / was - 1.0) * 100.0) };
        lines.push(vec![
            row,
            now.system.clone(),
            number(was),
            number(is),
            change,
            verdict(then, &now).into(),
        ]);
    }
    aligned(&lines)
}

/// The systems of this repository that a change of it may make faster or slower.
const OURS: [&str; 9] = [
    "delayed",
    "delayed (plain fn)",
    "delayed without prefetch",
    "delayed embedded",
    "bare scripts",
    "inline",
    "fork",
    "prefork",
    "exec",
];

/// Ranges that meet say nothing, and no more do single values.
fn verdict(then: &Figure, now: &Figure) -> &'static str {
    if then.rounds.len() < 2 || now.rounds.len() < 2 {
        return "";
    }
    let (Some((was_low, was_high)), Some((low, high))) = (then.range(), now.range()) else { return "" };
    let more_is_better = now.unit == "/s";
    match (low > was_high, high < was_low) {
        (true, _) if more_is_better => "better",
        (_, true) if more_is_better => "worse",
        (true, _) => "worse",
        (_, true) => "better",
        _ => "",
    }
}
