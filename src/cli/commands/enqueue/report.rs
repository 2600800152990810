//! Says what became of a call that was sent.

use serde_json::{Value, json};

use super::Ready;
use super::send::Place;
use crate::cli::commands::LONG;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::inspect::{CallRecord, MessageSummary};

/// Prints where the call is.
pub(super) fn report(call: &Ready<'_>, place: &Place) -> Result<(), Failure> {
    let printed = match call.args.output.json {
        true => output::json(&fields(call, place)),
        false => output::print(&text(call, place)),
    };
    printed.map_err(|failure| failed(failure, call, place))
}

/// A failure after the call was sent, unless another one was there.
pub(super) fn failed(failure: Failure, call: &Ready<'_>, place: &Place) -> Failure {
    match place {
        Place::Held { .. } => failure,
        _ => sent(failure, call),
    }
}

/// A failure after the call was sent. Whoever takes it for not enqueued has it run twice.
pub(super) fn sent(failure: Failure, call: &Ready<'_>) -> Failure {
    let queue = call.queue;
    failure.although(&format!(
        "the call was enqueued to {queue}{} nevertheless, so do not send it again: `peek {queue}` shows it while it \
        waits",
        with_the_id(call)
    ))
}

/// Where the call is, in a sentence.
pub(super) fn text(call: &Ready<'_>, place: &Place) -> String {
    let read = MessageSummary::of(call.message, 200);
    let (path, shown) = (output::clean(&call.args.path), read.arguments_text.unwrap_or_default());
    let (queue, id) = (call.queue, with_the_id(call));
    match place {
        Place::Waiting { waiting } => format!("enqueued {path}{shown} to {queue}{id}; {waiting} waiting"),
        Place::Scheduled { due_ms } => {
            format!("scheduled {path}{shown} in {queue}{id} for {}", output::moment(*due_ms))
        }
        Place::Held { holder, state } => format!(
            "not enqueued: {path}{shown} is unique in {queue}, and the call {holder} holds its lock; it is {}",
            output::clean(state)
        ),
        Place::Replaced { holder, due_ms } => {
            let due = due_ms.map_or_else(String::new, |due_ms| format!(" for {}", output::moment(due_ms)));
            format!("scheduled {path}{shown} in {queue}{due}, replacing the call {holder}, with the same id")
        }
    }
}

fn fields(call: &Ready<'_>, place: &Place) -> Value {
    let read = MessageSummary::of(call.message, LONG);
    let (state, conflict) = match place {
        Place::Waiting { .. } => ("waiting", None),
        Place::Scheduled { .. } => ("scheduled", None),
        Place::Held { state, .. } => (state.as_str(), Some("held")),
        Place::Replaced { .. } => ("scheduled", Some("replaced")),
    };
    let (waiting, due_ms) = match place {
        Place::Waiting { waiting } => (Some(*waiting), None),
        Place::Scheduled { due_ms } => (None, Some(*due_ms)),
        Place::Replaced { due_ms, .. } => (None, *due_ms),
        Place::Held { .. } => (None, None),
    };
    json!({
        "task": call.args.path,
        "queue": call.queue.as_str(),
        "id": place.id().or(call.id).map(|id| id.to_string()),
        "state": state,
        "conflict": conflict,
        "arguments": read.arguments,
        "keywords": read.keywords,
        "arguments_text": read.arguments_text.unwrap_or_default(),
        "bytes": call.message.len(),
        "waiting": waiting,
        "due_ms": due_ms,
    })
}

/// The same with the call as it is after its end.
pub(super) fn with_end(call: &Ready<'_>, place: &Place, ended: &CallRecord) -> Value {
    let mut fields = fields(call, place);
    fields["state"] = ended.state.name().into();
    fields["call"] = serde_json::to_value(ended).unwrap_or_default();
    fields
}

fn with_the_id(call: &Ready<'_>) -> String {
    call.id.map_or_else(String::new, |id| format!(" with the id {id}"))
}
