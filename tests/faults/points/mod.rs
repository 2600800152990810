//! Every crash point of docs/lifecycle.md: a process dies exactly there, others take over, and the runs are counted.
//!
//! The combinations are made from the tables of the document, so that a row that is added there is played. With the
//! variable `POINTS`, only rows that have its text in their names are.

mod case;
mod lead_up;
mod scene;
mod scenes;
mod site;
mod table;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use delayed::testing::Side;

use self::case::{Case, Death, Mode, Party, Stage};
use self::scene::{RUN, Scene};
use self::scenes::REQUESTS;
use self::site::{Site, scene};
use self::table::{Cell, Runs, Table, lifecycle, transitions, word};
use crate::support::process::Program;
use crate::support::trial::alone;

const MODES: [Mode; 3] = [Mode::Inline, Mode::Fork, Mode::Prefork];
const PARTIES: [Party; 3] = [Party::Rust, Party::Python, Party::Go];
/// The steps of a request, as the columns are called.
const STEPS: [&str; 4] = ["before", "sent", "committed", "replied"];
/// The points of a run, as the rows are called.
const RUN_STEPS: [&str; 6] = ["before", "middle", "effect", "report", "reported", "heard"];
/// How many rows, and of each row how many cases, are played at a time.
const AT_ONCE: (usize, usize) = (4, 4);
/// Scripts that move no message, but carry a flow forward: their points are played in `tests/flows/faults.rs`.
const OF_FLOWS: [&str; 3] = ["close", "join", "reopen"];
/// The number of the first call: from here on numbers take three bytes.
const FIRST: u16 = 1000;

/// A column of the table of a run: its name, how the process dies, in which modes, of which tasks.
type Column = (&'static str, Death, &'static [Mode], [&'static str; 2]);

const COLUMNS: [Column; 4] = [
    ("inline, its worker dies", Death::Itself, &[Mode::Inline], NOTE),
    ("its worker dies, and its child with it", Death::WithChild, FORKED, NOTE),
    ("its child dies, a retry is left", Death::Child, FORKED, NOTE),
    ("its child dies, no retry is left", Death::Child, FORKED, ["points:once", "points:once_async"]),
];
const NOTE: [&str; 2] = ["points:note", "points:note_async"];
const FORKED: &[Mode] = &[Mode::Fork, Mode::Prefork];

/// The cases of one request, without their numbers.
fn of_request(scene: &'static Scene, step: &'static str, cell: Cell) -> Vec<Case> {
    let death = match step {
        "sent" => Death::Caught(Side::Request),
        "committed" => Death::Caught(Side::Reply),
        _ => Death::Itself,
    };
    let modes = if scene.by_mode { &MODES[..] } else { &MODES[..1] };
    let mut cases = Vec::new();
    for (mode, owner) in modes.iter().flat_map(|mode| scene.owners.iter().map(move |owner| (*mode, *owner))) {
        for heir in PARTIES.into_iter().filter(|heir| (scene.can_inherit)(*heir, cell.place)) {
            let parties = (owner, heir);
            cases.push(Case { scene, step, death, mode, parties, task: scene.task, cell, n: 0 });
        }
    }
    cases
}

/// The cases of one point of a run, without their numbers.
fn of_run(table: &Table, row: &str) -> Vec<Case> {
    let step = ["before", "middle", "effect", "report", "reported", "heard"];
    let step =
        step.into_iter().find(|step| *step == word(row)).expect("a point of a run that the runner has");
    let mut cases = Vec::new();
    for (column, death, modes, tasks) in COLUMNS {
        let Some(cell) = table.cell(row, column) else { continue };
        // Only the worker comes to that one.
        let death = if step == "heard" { Death::Itself } else { death };
        // The worker lives, and takes over itself.
        let heirs = if death == Death::Child { &PARTIES[..1] } else { &PARTIES[..] };
        for (mode, task) in modes.iter().flat_map(|mode| tasks.map(|task| (*mode, task))) {
            for heir in heirs {
                let parties = (Party::Rust, *heir);
                cases.push(Case { scene: &RUN, step, death, mode, parties, task, cell, n: 0 });
            }
        }
    }
    cases
}

/// All combinations, by the row that they are of.
fn generate(document: &str) -> Vec<(String, Vec<Case>)> {
    let (requests, runs) = (Table::find(document, "request"), Table::find(document, "run"));
    let of_row = |row: &str| {
        let scene = scene(&REQUESTS, row);
        let cell = |step| requests.cell(row, step).unwrap_or_else(|| panic!("expected {step} of {row}"));
        STEPS.into_iter().flat_map(|step| of_request(scene, step, cell(step))).collect()
    };
    let numbered = |table: &Table, row: &str| {
        let place = table.names().position(|name| name == row).expect("a row of it");
        format!("{} {row}", table.numbers[place])
    };
    let mut all: Vec<(String, Vec<Case>)> =
        requests.names().map(|row| (numbered(&requests, row), of_row(row))).collect();
    all.extend(runs.names().map(|row| (format!("{} of a run", numbered(&runs, row)), of_run(&runs, row))));
    let numbers = (FIRST..).step_by(2);
    for (case, n) in all.iter_mut().flat_map(|(_, cases)| cases).zip(numbers) {
        case.n = n;
    }
    all
}

/// Calls `work` with each of `items`, so many at a time.
fn each<T: Sync, R: Send>(items: &[T], at_once: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (Mutex::new(items.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(item) = { next.lock().unwrap().next() } {
                    let result = work(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Plays all cases of one row, and recovers from them together.
fn play(row: &str, cases: &[Case]) {
    let began = Instant::now();
    let site = Site::new();
    let living = each(cases, AT_ONCE.1, |case| Stage::play(case, &site));
    let living: Vec<Program> = living.into_iter().flatten().collect();
    site.assert_gone(&living);
    let died = began.elapsed();
    // Start is sent beside the run, whose first step may come behind it.
    let begun = |case: &Case| case.scene.script != "start" || site.runs(case.n) > 0;
    let once = |case: &Case| Case { cell: Cell { runs: Runs::Once, ..case.cell }, ..*case };
    let cases: Vec<Case> =
        cases.iter().map(|case| if begun(case) { case.clone() } else { once(case) }).collect();
    site.recover(&cases, living);
    println!(
        "{row}: {} combinations, all dead after {died:.1?}, counted after {:.1?}",
        cases.len(),
        began.elapsed()
    );
}

#[test]
fn death_at_any_point_loses_nothing_and_repeats_little() {
    let _alone = alone();
    let mut rows = generate(&lifecycle());
    if let Ok(only) = std::env::var("POINTS") {
        rows.retain(|(row, _)| row.contains(&only));
        assert!(!rows.is_empty(), "expected a row that has {only:?} in its name");
    }
    let began = Instant::now();
    each(&rows, AT_ONCE.0, |(row, cases)| play(row, cases));
    let total: usize = rows.iter().map(|(_, cases)| cases.len()).sum();
    println!("{total} combinations of {} rows in {:.1?}", rows.len(), began.elapsed());
}

/// What is missing in the document, or here.
fn mistakes(document: &str) -> Vec<String> {
    let (requests, runs) = (Table::find(document, "request"), Table::find(document, "run"));
    if !runs.columns().eq(COLUMNS.iter().map(|(column, ..)| *column)) {
        return vec!["expected other columns of the points of a run".to_owned()];
    }
    let mut mistakes = Vec::new();
    let counted = requests.numbers.iter().chain(&runs.numbers).zip(1_usize..);
    if let Some((number, place)) = counted.into_iter().find(|(number, place)| **number != place.to_string()) {
        mistakes.push(format!("expected the number {place} instead of {number}"));
    }
    for name in transitions(document) {
        let of_flows = include_str!("../../flows/faults.rs").contains(&format!("\"{name}\""));
        let is_played_there = of_flows && OF_FLOWS.contains(&name.as_str());
        if !is_played_there && !requests.names().any(|row| word(row) == name) {
            mistakes.push(format!("expected the crash points of {name} in docs/lifecycle.md"));
        }
    }
    for row in requests.names() {
        let Some(scene) = REQUESTS.iter().find(|scene| scene.row == row) else {
            mistakes.push(format!("expected a scene for {row:?} of docs/lifecycle.md"));
            continue;
        };
        if requests.text(row, "who dies") != scene.who.name() {
            mistakes.push(format!("expected docs/lifecycle.md to let a {} die in {row:?}", scene.who.name()));
        }
        for step in STEPS {
            let cases = requests.cell(row, step).map(|cell| of_request(scene, step, cell));
            if cases.is_none_or(|cases| cases.is_empty()) {
                mistakes.push(format!("expected combinations for {step:?} of {row:?}"));
            }
        }
    }
    for scene in REQUESTS.iter().filter(|scene| !requests.names().any(|row| row == scene.row)) {
        mistakes.push(format!("expected {:?} in docs/lifecycle.md", scene.row));
    }
    for step in RUN_STEPS {
        let row = runs.names().find(|row| word(row) == step);
        if row.is_none_or(|row| of_run(&runs, row).is_empty()) {
            mistakes.push(format!("expected combinations for {step:?} of a run"));
        }
    }
    mistakes
}

#[test]
fn every_transition_has_points_and_every_point_its_cases() {
    let document = lifecycle();
    let mistakes = mistakes(&document);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    let all = generate(&document);
    let points: BTreeSet<(&str, &str)> =
        all.iter().flat_map(|(row, cases)| cases.iter().map(move |case| (row.as_str(), case.step))).collect();
    let total: usize = all.iter().map(|(_, cases)| cases.len()).sum();
    println!("{total} combinations of {} points", points.len());
}

#[test]
fn what_is_missing_in_the_document_is_found() {
    let document = lifecycle();
    for (from, to, expected) in [
        ("| purge | operator |", "| urge | operator |", "the crash points of purge"),
        ("| purge | operator |", "| urge | operator |", "a scene for \"urge\""),
        ("| purge | operator |", "| urge | operator |", "expected \"purge\" in docs"),
        ("| purge | operator |", "| purge | worker |", "a operator die in \"purge\""),
        ("| dead, never | waiting, once | waiting", "| dead, never | – | waiting", "\"sent\" of \"revive\""),
        ("| 9 | bury |", "| 10 | bury |", "the number 9 instead of 10"),
        ("    waiting --> [*]: purge", "    waiting --> [*]: forget", "the crash points of forget"),
        ("| middle | owned, again |", "| centre | owned, again |", "\"middle\" of a run"),
        ("| its child dies, a retry is left |", "| its child dies |", "other columns"),
    ] {
        assert!(document.contains(from), "expected {from:?} in docs/lifecycle.md");
        let found = mistakes(&document.replace(from, to)).join("\n");
        assert!(found.contains(expected), "expected {expected:?} of {to:?}, got {found:?}");
    }
}
