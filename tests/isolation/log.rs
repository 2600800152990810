//! What a child says arrives on the worker's log, with the fields of the task that said it.

use serde_json::Value;

use super::{Case, task, task_with};
use crate::support::trial::count;

both! {
    events_arrive_with_the_fields_of_the_task
    lines_arrive_with_the_fields_of_the_task
    many_lines_arrive_whole_and_in_order
    what_times_out_is_told
}

#[track_caller]
fn event(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("expected an event ({error}): {line}"))
}

fn events_arrive_with_the_fields_of_the_task(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    case.trial.push(&[task("events", "a")]);
    let line = case.worker.wait_for_line("said in a child");
    let said = event(&line);
    assert_eq!((&said["level"], &said["message"]), (&"INFO".into(), &"said in a child".into()), "{line}");
    // Its own fields, wherever they stand.
    assert!(line.contains("answer") && line.contains("42"), "{line}");
    assert!(line.contains("isolation.events"), "expected the task: {line}");
    let warning = case.worker.wait_for_line("a warning of a child");
    assert_eq!(event(&warning)["level"], "WARN", "{warning}");
    assert!(warning.contains("isolation.events"), "expected the task: {warning}");
    case.trial.push(&[task("events", "two\nlines\u{1b}[31m")]);
    let line = case.worker.wait_for_line("two");
    assert!(line.contains(r"two\\nlines\\u{1b}[31m"), "expected the text of a field in one line: {line}");
    case.end_with(&[]);
    case.trial.ledger.assert_each_once(["a", "two", "lines\u{1b}[31m"]);
    let said = case.worker.printed().matches("said in a child").count();
    assert_eq!(said, 2, "expected each once: {}", case.worker.printed());
}

fn lines_arrive_with_the_fields_of_the_task(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    for n in ["a", "b", "c", "d", "e"] {
        case.trial.push(&[task("prints", n)]);
        for text in [format!("out of {n}"), format!("err of {n}")] {
            let line = case.worker.wait_for_line(&text);
            event(&line);
            assert!(line.contains("isolation.prints"), "expected the task: {line}");
        }
        case.trial.wait_settled();
    }
    case.end_with(&[]);
}

fn many_lines_arrive_whole_and_in_order(mode: &'static str) {
    const LINES: usize = 5000;
    let mut case = Case::new(mode, &[]);
    case.trial.push(&[task_with("counts", &["a".into(), LINES.into()])]);
    case.worker.wait_for_lines("counted ", LINES);
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    let lines = case.worker.wait_for_lines("counted ", LINES);
    assert_eq!(lines.len(), LINES);
    for (n, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!("counted {n} ")), "expected line {n} in its place: {line}");
    }
}

fn what_times_out_is_told(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "300ms", "--grace", "100ms"]);
    case.trial.push(&[task("deaf", "a")]);
    let line = case.worker.wait_for_line("timed out");
    assert!(line.contains("isolation.deaf"), "expected the task: {line}");
    case.wait_dead(1);
    case.end_with(&["q_dead"]);
}
