//! Tasks that fail or panic: retried as often as they may be, then buried with what they said.

use delayed::__private::protocol::message::Message;
use serde_json::json;

use crate::support::redis::State;
use crate::support::trial::{Trial, call, count};

/// Reason, detail and attempt of the dead letter of a task that noted `n`.
fn letter(state: &State, part: &str) -> (String, String, String) {
    let found: Vec<_> = state
        .dead
        .iter()
        .filter(|letter| String::from_utf8_lossy(&letter["message"]).contains(part))
        .collect();
    assert_eq!(found.len(), 1, "expected one dead letter of {part}: {state:#?}");
    let field = |name: &str| String::from_utf8(found[0][name].clone()).unwrap();
    (field("reason"), field("detail"), field("attempt"))
}

#[test]
fn panics_and_errors_are_buried_with_their_words() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let tasks = ["panic", "panic_blocking", "bomb", "bomb_blocking", "shown", "fatal", "unspeakable"];
    let messages: Vec<_> = tasks.iter().map(|t| call(&format!("trial.{t}"), &[(*t).into()])).collect();
    trial.push(&messages);
    trial.push(&[call("trial.mark", &["good".into()])]);
    trial.wait_settled();
    // Once more: what came of a panic has not used up a slot.
    for _ in 0..5 {
        trial.push(&messages);
    }
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    let runs = tasks.len() as u64 * 6;
    assert_eq!((count(&stopped, "failed"), count(&stopped, "buried")), (runs, runs), "{stopped}");
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (1, 0), "{stopped}");
    let executions = trial.ledger.executions();
    assert!(tasks.iter().all(|task| executions[*task] == 6), "{executions:?}");
    let mut state = trial.state();
    state.dead.truncate(tasks.len());
    for (part, reason, detail) in [
        ("panic", "panicked", "there is no panic"),
        ("panic_blocking", "panicked", "there is no panic_blocking"),
        ("bomb", "panicked", "a panic without a text"),
        ("bomb_blocking", "panicked", "a panic without a text"),
        ("shown", "failed", "only shown"),
        ("fatal", "failed", "for good"),
        ("unspeakable", "panicked", "it cannot be shown"),
    ] {
        let found = state.dead.iter().find(|letter| {
            let message = Message::decode(&letter["message"]).unwrap();
            message.task().strip_prefix("trial.") == Some(part)
        });
        let found = found.unwrap_or_else(|| panic!("expected a dead letter of {part}: {state:#?}"));
        let field = |name: &str| String::from_utf8(found[name].clone()).unwrap();
        assert_eq!((field("reason").as_str(), field("detail").as_str()), (reason, detail), "{part}");
        assert_eq!(field("attempt"), "1", "{part}");
    }
    trial.assert_only(&["q_dead"]);
}

#[test]
fn retries_of_pythons_form_and_of_the_attribute() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let python = |path: &str, n: &str, fails: u32, retry: i64| {
        rmp_serde::to_vec(&(path, json!([n]), json!({"fails": fails}), retry)).unwrap()
    };
    trial.push(&[
        // Buried after three runs.
        python("trial.mark_or_retry", "two", 99, 2),
        // For ever, which is until it succeeds.
        python("trial.mark_or_retry", "ever", 6, -1),
        // Not at all: the message wins over the attribute, which says 2.
        python("trial.flaky", "none", 99, 0),
        // The attribute's 2, in Go's form and in Python's without a retry.
        call("trial.flaky", &["go".into(), 99.into()]),
        rmp_serde::to_vec(&("trial.flaky", json!(["python", 99]))).unwrap(),
        call("trial.flaky", &["well".into(), 2.into()]),
    ]);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    let expected: Vec<String> = [("two", 3), ("ever", 7), ("none", 1), ("go", 3), ("python", 3), ("well", 3)]
        .iter()
        .flat_map(|(name, runs)| (1..=*runs).map(move |run| format!("{name} {run}")))
        .collect();
    let state = trial.state();
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    trial.ledger.assert_each_once(&expected);
    for (name, attempt) in [("two", "3"), ("go", "3"), ("python", "3"), ("none", "1")] {
        let (reason, detail, told) = letter(&state, name);
        assert_eq!(
            (reason.as_str(), detail.as_str(), told.as_str()),
            ("failed", "not yet", attempt),
            "{name}"
        );
    }
    assert_eq!(state.dead.len(), 4, "{state:#?}");
    trial.assert_only(&["q_dead"]);
}
