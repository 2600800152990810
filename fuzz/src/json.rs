//! Any text as the arguments of `enqueue PATH JSON`: what is accepted is read by the task's handler, as the same values
//! as when Python sends them by place or by keyword.

use delayed::__private::json_message;
use delayed::__private::protocol::message::Message;
use delayed::PyTask;
use serde_json::Value;

use super::arguments::{all_tasks, run};

/// Gives the tasks whose arguments it can be.
pub fn accept(input: &[u8]) -> Vec<&'static str> {
    let Ok(text) = std::str::from_utf8(input) else { return Vec::new() };
    // Without a fraction it is 0 to `enqueue`, and a float to the reader below.
    if text.split("-0").skip(1).any(|rest| !rest.starts_with(['.', 'e', 'E'])) {
        return Vec::new();
    }
    // An object that stands for another value is an object to the reader below.
    if text.contains('$') || text.contains("\\u0024") {
        return Vec::new();
    }
    let mut accepted = Vec::new();
    for task in all_tasks() {
        let Some(ours) = json_message(task, text) else { continue };
        let python = PyTask::new(task.name);
        let python = match serde_json::from_str(text) {
            Ok(Value::Array(values)) => values.into_iter().fold(python, PyTask::arg),
            Ok(Value::Object(values)) => {
                values.into_iter().fold(python, |call, (name, value)| call.kwarg(name, value))
            }
            other => panic!("accepted, though it is {other:?}"),
        };
        let python = python.queue("default").encode().expect("JSON can be written");
        let [ours, python] = [&ours, &python].map(|message| {
            let message = Message::decode(message).expect("a call is a message");
            run(task, &message).map(|seen| seen.values)
        });
        assert!(ours.is_some(), "{} refuses what was accepted", task.signature());
        assert_eq!(ours, python, "of {}", task.signature());
        accepted.push(task.name);
    }
    accepted
}
