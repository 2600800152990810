//! Writes all that is known of a call, in lines.

use crate::cli::commands::{or_dash, time};
use crate::cli::output;
use crate::inspect::CallRecord;

/// A call in full: a name and a value in each line, and no line for what is not known.
pub(super) fn shown(call: &CallRecord) -> String {
    let message = &call.message;
    let moment = |ms: Option<u64>| ms.map(output::moment);
    let result = call.result.as_ref().map(|result| serde_json::to_string(result).unwrap_or_default());
    let mut lines: Vec<(&str, Option<String>)> = vec![
        ("id", Some(or_dash(call.id.clone()))),
        ("queue", Some(call.queue.clone())),
        ("state", Some(call.state.name().into())),
        ("waits for", call.limit.as_ref().map(|limit| format!("the limit {limit}"))),
        ("due", moment(call.due_ms)),
        ("queued", moment(call.queued_ms)),
        ("began", moment(call.began_ms)),
        ("ended", moment(call.ended_ms)),
        ("task", Some(or_dash(message.task.clone()))),
        ("arguments", message.arguments_text.clone()),
        ("attempt", call.attempt.map(|attempt| attempt.to_string())),
        ("worker", call.worker.clone()),
        ("slot", call.wire_id.clone()),
        ("progress", progress(call)),
        ("result", result),
        ("no result", call.result_problem.clone()),
        ("reason", call.reason.clone()),
        ("error", call.error.clone()),
        ("letter", call.letter.clone()),
        ("cancelled", call.by.as_ref().map(|by| format!("by {by}"))),
    ];
    if message.form.is_some() {
        lines.extend([
            ("failed", Some(message.attempts.to_string())),
            ("retry", Some(or_dash(message.retry.map(|retry| retry.to_string())))),
            ("retry for", message.retry_for_ms.map(time)),
            ("back-off", Some(or_dash(message.backoff.clone()))),
            ("bytes", Some(message.bytes.to_string())),
        ]);
    }
    lines.push(("problem", message.problem.clone()));
    lines.extend((1..).zip(&message.errors).map(|(nth, error)| {
        let name = if nth == 1 { "errors" } else { "" };
        (name, Some(format!("{} {}: {}", output::moment(error.at_ms), error.reason, error.detail)))
    }));
    lines.extend(
        (1..).zip(&call.log).map(|(nth, line)| (if nth == 1 { "log" } else { "" }, Some(line.clone()))),
    );
    let lines = lines.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let lines = lines.map(|(name, text)| format!("{name:<10} {}", output::clean(&text)));
    lines.collect::<Vec<_>>().join("\n")
}

/// How much is done, and what the run does: `40 %: reading`.
fn progress(call: &CallRecord) -> Option<String> {
    let share = call.progress.map(|share| format!("{:.0} %", share * 100.0));
    let parts: Vec<String> = share.into_iter().chain(call.progress_text.clone()).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}
