//! Do the calls that their producers send arrive in our tasks with the values that were given?

use std::collections::BTreeMap;

use super::*;

mod go_calls;
mod python_calls;

/// A call: the name of its golden vector or what it is, its kind, the task, the rest of the producer's line, and
/// what the task notes.
type Case = (&'static str, &'static str, &'static str, String, String);

fn case(name: &'static str, kind: &'static str, task: &'static str, rest: &str, noted: &str) -> Case {
    (name, kind, task, rest.to_owned(), noted.to_owned())
}

fn path(task: &str) -> String {
    if task.contains('.') || task.contains("::") { task.into() } else { format!("demo::tasks::{task}") }
}

/// Each call is run once and by itself, so that the notes come in the order of the calls.
fn arrive(language: Language, cases: &[Case]) {
    let mut site = Site::new();
    let lines: Vec<String> =
        cases.iter().map(|(_, kind, task, rest, _)| line(kind, &path(task), rest)).collect();
    site.produce(language, &lines);
    let worker = site.worker(Rust, "notes", &["--concurrency", "1"]);
    let state = site.wait_until_settled();
    let noted = site.lines("notes");
    for (at, (name, _, task, rest, wanted)) in cases.iter().enumerate() {
        let said = noted.get(at).map_or("nothing", String::as_str);
        assert_eq!(said, wanted, "{name}: {task} with {rest}; dead letters: {:#?}", state.dead);
    }
    assert_eq!(noted.len(), cases.len(), "expected no other runs");
    assert!(state.dead.is_empty(), "expected no dead letters: {:#?}", state.dead);
    stop(Rust, worker);
}

/// Every golden vector that a task of ours can run is among the cases.
fn assert_covers(file: &str, cases: &[Case], except: &[&str]) {
    let text = std::fs::read_to_string(root().join("tests/wire").join(file)).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names = vectors["cases"].as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap());
    let missing: Vec<&str> =
        names.filter(|name| !except.contains(name) && !cases.iter().any(|case| case.0 == *name)).collect();
    assert!(missing.is_empty(), "expected a call for each vector of {file}: {missing:?}");
}

#[test]
fn what_go_sends_arrives() {
    let cases = go_calls::cases();
    assert_covers("go-delayed.json", &cases, &["kwargs struct"]);
    arrive(Go, &cases);
}

#[test]
fn what_python_sends_arrives() {
    let cases = python_calls::cases();
    assert_covers("python-delayed.json", &cases, &[]);
    arrive(Python, &cases);
}

#[test]
fn what_nobody_could_run_is_buried_with_the_reason() {
    let mut site = Site::new();
    let worker = site.worker(Rust, "notes", &[]);
    // A struct of keywords, of which Go makes an array.
    site.produce(Go, &[line("py", "demo::tasks::named", r#""kwargs": [1, "hi"]"#)]);
    site.produce(
        Python,
        &[
            line("py", "demo::tasks::add", r#""args": [1, 2], "kwargs": {"c": 3}, "retry": 5"#),
            line("go", "demo::tasks::square", r#""args": "four""#),
            line("go", "demo::tasks::nobody", r#""args": [1]"#),
        ],
    );
    let state = wait::until_ok(PATIENCE, || {
        let state = site.state();
        if state.dead.len() == 4 { Ok(state) } else { Err(format!("four dead letters: {state:#?}")) }
    });
    let text =
        |letter: &BTreeMap<String, Vec<u8>>, name: &str| String::from_utf8_lossy(&letter[name]).into_owned();
    let mut dead: Vec<_> =
        state.dead.iter().map(|letter| (text(letter, "detail"), text(letter, "reason"))).collect();
    dead.sort();
    let wanted = [
        ("`demo::tasks::add`: unknown keyword `c`", "arguments"),
        ("`demo::tasks::named`: arguments by keyword: expected a map, got an array", "arguments"),
        ("`demo::tasks::square`: argument `n` (1 of 1): expected i64, got a string", "arguments"),
        ("no task `demo::tasks::nobody`", "unknown"),
    ];
    for ((detail, reason), (words, wanted)) in dead.iter().zip(wanted) {
        assert!(detail.contains(words) && reason == wanted, "expected {wanted}, {words}: {dead:#?}");
    }
    assert!(site.lines("notes").is_empty(), "expected nothing to run");
    site.wait_until_settled();
    drop(worker);
}

#[test]
fn python_decides_how_often_a_call_is_retried() {
    let mut site = Site::new();
    let worker = site.worker(Rust, "notes", &[]);
    let calls = [
        line("py", "demo::tasks::flaky", r#""args": [2], "retry": 3"#),
        line("py", "demo::tasks::flaky", r#""kwargs": {"failures": 5}, "retry": -1"#),
        line("rust", "demo::tasks::flaky", r#""args": [9], "retry": 2"#),
        // Without a word on it the task's own is taken: once.
        line("go", "demo::tasks::flaky", r#""args": [7]"#),
    ];
    site.produce(Python, &calls);
    let mut noted = site.wait_for("notes", 3 + 6 + 3 + 2);
    let state = site.wait_until_settled();
    noted.sort();
    let attempts =
        |failures: u32, last: u32| (1..=last).map(move |attempt| format!("flaky ({failures}, {attempt})"));
    let wanted: Vec<String> =
        attempts(2, 3).chain(attempts(5, 6)).chain(attempts(7, 2)).chain(attempts(9, 3)).collect();
    assert_eq!(noted, wanted, "expected as many attempts as the call allows");
    let mut given_up: Vec<_> =
        state.dead.iter().map(|letter| (letter["reason"].clone(), letter["attempt"].clone())).collect();
    given_up.sort();
    let failed = |attempt: &[u8]| (b"failed".to_vec(), attempt.to_vec());
    assert_eq!(given_up, [failed(b"2"), failed(b"3")], "expected those that failed to the last to be dead");
    drop(worker);
}
