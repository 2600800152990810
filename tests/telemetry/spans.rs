//! Each event of a task is in the span of its run, wherever it runs.

use delayed::__private::protocol::call_id::CallId;
use delayed::__private::protocol::encode::{Meta, native};
use serde_json::Value;

use super::event;
use crate::support::process::Program;
use crate::support::trial::{QUEUE, Trial, call};

const ISOLATIONS: [&str; 3] = ["inline", "fork", "prefork"];
const TASKS: [&str; 2] = ["isolation.events", "isolation.events_blocking"];

/// Which worker it is.
fn id(worker: &Program) -> Value {
    event(worker, "serving")["worker"].clone()
}

#[test]
fn events_of_a_task_are_in_the_span_of_its_run() {
    for isolation in ISOLATIONS {
        for task in TASKS {
            let mut trial = Trial::new();
            let mut worker =
                trial.worker(&["--isolation", isolation, "--log-level", "info,delayed::run=debug"]);
            let id_of_call = CallId::new();
            let payload = rmp_serde::to_vec(&("a",)).unwrap();
            trial.push(&[native(task, &payload, &Meta { id: Some(id_of_call), ..Meta::default() })]);
            for message in ["said in a child", "a warning of a child"] {
                let span = event(&worker, message)["span"].clone();
                let expected = serde_json::json!({
                    "name": "run",
                    "task": task,
                    "call_id": id_of_call.to_string(),
                    "queue": QUEUE,
                    "attempt": 1,
                    "worker": id(&worker),
                });
                assert_eq!(span, expected, "{task}, {isolation}");
            }
            trial.wait_settled();
            trial.stop(&mut worker);
        }
    }
}

#[test]
fn a_call_without_an_id_is_known_by_its_slot() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", isolation, "--log-level", "info,delayed::run=debug"]);
        trial.push(&[call("isolation.events", &["a".into()])]);
        let span = event(&worker, "said in a child")["span"].clone();
        assert!(span["slot"].is_u64() && span.get("call_id").is_none(), "{isolation}: {span}");
        trial.wait_settled();
        trial.stop(&mut worker);
    }
}

#[test]
fn lines_that_a_child_prints_are_in_the_span_of_its_run() {
    for isolation in ["fork", "prefork"] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", isolation]);
        trial.push(&[call("isolation.prints", &["a".into()])]);
        let line: Value = serde_json::from_str(&worker.wait_for_line("out of a")).unwrap();
        assert_eq!((&line["message"], &line["line"]), (&"task output".into(), &"out of a".into()), "{line}");
        assert_eq!(line["span"]["task"], "isolation.prints", "{line}");
        trial.wait_settled();
        trial.stop(&mut worker);
    }
}

#[test]
fn no_span_is_made_that_the_filter_does_not_want() {
    for isolation in ISOLATIONS {
        for level in ["warn", "info,delayed::run=off"] {
            let mut trial = Trial::new();
            let worker = trial.start(&["--isolation", isolation, "--log-level", level]);
            trial.push(&[call("isolation.events", &["a".into()])]);
            let line = event(&worker, "a warning of a child");
            assert!(line.get("span").is_none(), "{isolation}, {level}: {line}");
        }
    }
}
