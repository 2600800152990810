//! What a worker tells of itself: the span of a run, the events, and the document that lists them.

mod events;
mod hint;
mod outage;
mod spans;
mod table;

use serde_json::Value;

use crate::support::process::Program;

/// The lines that a program has logged with this message.
fn logged(program: &Program, message: &str) -> Vec<Value> {
    let printed = program.printed();
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == message).collect()
}

/// The only such line, which is waited for.
#[track_caller]
fn event(program: &Program, message: &str) -> Value {
    program.wait_for_line(&format!("\"message\":\"{message}\""));
    let mut found = logged(program, message);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}
