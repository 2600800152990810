//! Makes calls: of a task with typed fields, or of a description that may be edited.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::form::{Done, Wanted};
use super::page::{Section, View};
use super::visit::Visit;
use crate::inspect::MessageSummary;
use crate::protocol::names::QueueName;

/// How many characters of arguments may be edited.
const LONGEST: usize = 500_000;

/// A form with the description of a call: of one that exists, or of a new one.
pub(super) async fn form(visit: Arc<Visit>) -> Result<View, Failure> {
    let description = match (visit.get("letter"), visit.get("id")) {
        (Some(letter), _) => {
            let queue = visit.queue()?;
            let found = visit.inspector().await?.dead_letter(&queue, letter, LONGEST).await?;
            let found = found.ok_or_else(|| Failure::not_found("There is no such dead letter any more."))?;
            described(&queue, &found.message)?
        }
        (None, Some(_)) => {
            let queue = visit.queue()?;
            let found = visit.inspector().await?.call(&queue, visit.call_id()?, LONGEST).await?;
            let found = found.ok_or_else(|| Failure::not_found("There is no such call any more."))?;
            described(&queue, &found.message)?
        }
        (None, None) => json!({ "task": visit.get("task").unwrap_or_default(), "args": [] }),
    };
    let text = serde_json::to_string_pretty(&description).unwrap_or_default();
    let body = html! {
        h1 { "Enqueue a call" }
        p.hint {
            "The description of a call, as POST /v1/calls of a gateway takes it: see docs/gateway.md. It becomes a new call with an \
             id of its own."
        }
        @if visit.can_act() {
            form method="post" action=(visit.link("/action", &[])) {
                input type="hidden" name="verb" value="enqueue";
                input type="hidden" name="back" value=(visit.here());
                label for="description" { "Description" }
                textarea #description name="call" rows="16" spellcheck="false" required { (text) }
                button.primary { "Enqueue" }
            }
        } @else {
            pre tabindex="0" { (text) }
        }
    };
    Ok(View { title: "Enqueue a call".to_owned(), section: Section::Calls, body })
}

/// The description of a call like this one.
pub(super) fn described(queue: &QueueName, message: &MessageSummary) -> Result<Value, Failure> {
    let Some(task) = &message.task else {
        return Err(Failure::invalid("The message of this call is gone, or cannot be read."));
    };
    let mut call = Map::new();
    call.insert("task".into(), json!(task));
    let language = match message.form {
        Some("native") | None => None,
        Some("python") => Some("python"),
        Some(_) => Some("go"),
    };
    if let Some(language) = language {
        call.insert("language".into(), json!(language));
    }
    let value = |value| serde_json::to_value(value).unwrap_or_default();
    let by_place = message.arguments.as_ref().map(value).filter(|value| *value != json!([]));
    let by_name = message.keywords.as_ref().map(value).filter(|value| *value != json!({}));
    if let Some(values) = &by_name {
        call.insert("kwargs".into(), values.clone());
    }
    if by_place.is_some() || by_name.is_none() {
        call.insert("args".into(), by_place.unwrap_or_else(|| json!([])));
    }
    call.insert("queue".into(), json!(queue.as_str()));
    let time = |ms| json!(humantime::format_duration(std::time::Duration::from_millis(ms)).to_string());
    if language != Some("go")
        && let Some(retry) = message.retry
    {
        call.insert("retry".into(), json!(retry));
    }
    if language.is_none() {
        let times = [("retry_for", message.retry_for_ms), ("timeout", message.timeout_ms)];
        call.extend(times.into_iter().filter_map(|(name, ms)| Some((name.to_owned(), time(ms?)))));
        if let Some(backoff) = &message.backoff {
            call.insert("backoff".into(), json!(backoff));
        }
        if !message.headers.is_empty() {
            call.insert("headers".into(), json!(message.headers));
        }
    }
    Ok(Value::Object(call))
}

/// Enqueues a call as it is described.
pub(super) async fn enqueue(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let call = crate::json::parse(wanted.need("call")?)
        .map_err(|error| Failure::invalid(format!("The description is not JSON: {error}")))?;
    send(visit, call).await
}

/// Enqueues a call of a task with the values of fields.
pub(super) async fn enqueue_fields(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let task = wanted.need("task")?;
    let mut arguments = Map::new();
    let texts: Vec<&str> = wanted.beginning("text.").map(|(name, _)| name).collect();
    for (name, value) in wanted.beginning("arg.") {
        let is_text = texts.contains(&name);
        if value.is_empty() && !is_text {
            continue; // Left out.
        }
        let value = match is_text {
            true => Value::String(value.to_owned()),
            false => crate::json::parse(value).map_err(|error| {
                let text = format!("`{name}` is not JSON: {error}; write a text in double quotes");
                Failure::invalid(text)
            })?,
        };
        arguments.insert(name.to_owned(), value);
    }
    let mut call = json!({ "task": task, "kwargs": arguments });
    for name in ["queue", "after"] {
        if let Some(value) = wanted.get(name) {
            call[name] = json!(value);
        }
    }
    send(visit, call).await
}

async fn send(visit: &Visit, call: Value) -> Result<Done, Failure> {
    let (id, queue, is_new) = visit.shared.gateway.enqueue(call).await?;
    let Some(id) = id else { return Ok(Done::new(format!("Enqueued a call into {queue}"))) };
    let to = visit.link("/call", &[("queue", &queue), ("id", &id)]);
    let text = match is_new {
        true => format!("Enqueued the call {id} into {queue}"),
        false => format!("The call {id} is unique and has not ended: nothing was enqueued"),
    };
    Ok(Done { text, to: Some(to) })
}

/// What does the same from a shell.
pub(super) fn commands(call: &Value) -> Markup {
    let text = |name: &str| call.get(name).and_then(Value::as_str);
    let task = text("task").unwrap_or_default();
    let arguments = match (call.get("args"), call.get("kwargs")) {
        (Some(args), None) => args.to_string(),
        (None, Some(kwargs)) => kwargs.to_string(),
        _ => json!({ "args": call.get("args"), "kwargs": call.get("kwargs") }).to_string(),
    };
    let queue = text("queue").map(|queue| format!(" --queue {}", quoted(queue))).unwrap_or_default();
    let flag = match text("language") {
        Some("python") => " --as python",
        Some("go") => " --as go",
        _ => "",
    };
    let command = format!("delayed enqueue{flag}{queue} {} {}", quoted(task), quoted(&arguments));
    let curl = format!(
        "curl http://127.0.0.1:8080/v1/calls -H 'content-type: application/json' -d {}",
        quoted(&call.to_string())
    );
    html! {
        h2 { "The same from a shell" }
        @for (title, text) in [("Command line", command), ("HTTP gateway", curl)] {
            div.copy {
                span.hint { (title) }
                pre tabindex="0" { (text) }
                button.copy-button type="button" data-copy=(text) { "Copy" }
            }
        }
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
