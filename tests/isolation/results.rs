//! What a task is given and what becomes of it do not depend on the process it runs in.

use delayed::__private::protocol::encode::{Meta, native};
use delayed::CallId;
use serde_json::Value;

use super::{Case, task, task_with};
use crate::support::trial::{call, count, message};

both! {
    small_and_large_arguments_arrive_whole
    a_run_is_given_its_context_and_states
    errors_are_retried_and_buried_as_ever
    a_panic_is_a_panic
    arguments_that_do_not_fit_and_unknown_tasks_are_buried
    many_quick_ones_run_once_each
}

fn small_and_large_arguments_arrive_whole(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let sizes = [0_usize, 1, 100_000, 8 << 20];
    let mut expected = Vec::new();
    for name in ["isolation.length", "isolation.length_blocking"] {
        for size in sizes {
            let data: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
            expected.push(format!("{size} {}", data.iter().map(|byte| u64::from(*byte)).sum::<u64>()));
            let mut payload = Vec::new();
            rmp::encode::write_bin(&mut payload, &data).unwrap();
            case.trial.push(&[message(name, &payload)]);
        }
    }
    case.trial.wait_runs(expected.len());
    case.trial.wait_settled();
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 8, "{stopped}");
    let mut lines = case.trial.ledger.lines();
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
}

fn a_run_is_given_its_context_and_states(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let id = CallId::new();
    let payload = rmp_serde::to_vec("native").unwrap();
    let meta = Meta { attempts: 4, id: Some(id), retry: Some(9), ..Meta::default() };
    case.trial.push(&[
        task("given", "go"),
        native("isolation.given", &payload, &meta),
        rmp_serde::to_vec(&("isolation.given", serde_json::json!([]), serde_json::json!({"n": "python"})))
            .unwrap(),
        // The same of one that is asynchronous.
        call("trial.injected", &["async".into()]),
    ]);
    case.trial.wait_runs(4);
    case.end_with(&[]);
    case.trial.ledger.assert_each_once([
        "go isolation.given q 1 none Hello".to_owned(),
        format!("native isolation.given q 5 {id} Hello"),
        "python isolation.given q 1 none Hello".to_owned(),
        "async trial.injected q 1 none Hello".to_owned(),
    ]);
}

fn errors_are_retried_and_buried_as_ever(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    case.trial.push(&[task("fails", "a"), task("fatal", "b"), call("trial.flaky", &["c".into(), 2.into()])]);
    case.trial.wait_runs(6);
    case.wait_dead(2);
    let mut letters = case.letters();
    letters.sort_by(|one, other| one.task.cmp(&other.task));
    let of = |i: usize| (letters[i].task.as_str(), letters[i].reason.as_str(), letters[i].attempt.as_str());
    assert_eq!(of(0), ("isolation.fails", "failed", "2"));
    assert_eq!(of(1), ("isolation.fatal", "failed", "1"));
    assert!(letters[0].detail.starts_with("no a today"), "{letters:?}");
    assert!(letters[1].detail.starts_with("for good"), "{letters:?}");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (1, 3), "{stopped}");
    case.trial.ledger.assert_each_at_least_once(["a", "b", "c 1", "c 2", "c 3"], 1);
}

fn a_panic_is_a_panic(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let bomb = call("trial.bomb", &["c".into()]);
    let unspeakable = call("trial.unspeakable", &["d".into()]);
    case.trial.push(&[task("panics", "a"), task("panics_async", "b"), bomb, unspeakable]);
    case.wait_dead(4);
    for letter in case.letters() {
        assert_eq!(letter.reason, "panicked", "{letter:?}");
        if letter.task.starts_with("isolation.panics") {
            assert!(letter.detail.starts_with("there is no "), "{letter:?}");
        }
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    assert!(["a", "b", "c", "d"].iter().all(|n| executions[*n] == 1), "{executions:?}");
}

fn arguments_that_do_not_fit_and_unknown_tasks_are_buried(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let wrong = |name: &str| task_with(name, &[Value::from(7)]);
    let none = call("isolation.nothing", &["x".into()]);
    case.trial.push(&[wrong("who"), wrong("who_blocking"), none, b"\xc1 no message".to_vec()]);
    case.wait_dead(4);
    let mut reasons: Vec<String> = case
        .trial
        .state()
        .dead
        .iter()
        .map(|letter| String::from_utf8_lossy(&letter["reason"]).into_owned())
        .collect();
    reasons.sort();
    assert_eq!(reasons, ["arguments", "arguments", "malformed", "unknown"]);
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn many_quick_ones_run_once_each(mode: &'static str) {
    const CALLS: usize = 500;
    let mut case = Case::new(mode, &["--concurrency", "16"]);
    let calls: Vec<Vec<u8>> = (0..CALLS).map(|n| call("trial.mark", &[n.to_string().into()])).collect();
    case.trial.push(&calls);
    case.trial.wait_runs(CALLS);
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), CALLS as u64, "{stopped}");
    case.trial.ledger.assert_each_once(0..CALLS);
}
