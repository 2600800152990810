//! Shows tasks with their signatures, and a form to call each.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::failure::Failure;
use super::page::{Section, View, count, facts, table};
use super::text::{cut, duration, first_line, number};
use super::visit::Visit;
use crate::gateway::TaskDescription;
use crate::inspect::TaskHistory;

/// How many characters of a document are shown in the list.
const SHORT: usize = 120;

const HEADS: [&str; 8] = ["task", "signature", "queue", "succeeded", "failed", "median", "99 %", "about"];

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let tasks = visit.shared.gateway.tasks().await?;
    let paths: Vec<&str> = tasks.iter().map(|task| task.task.as_str()).collect();
    let histories = visit.inspector().await?.task_history(&paths).await?;
    let rows: Vec<Markup> = (tasks.iter().zip(&histories))
        .map(|(task, history)| {
            html! {
                tr {
                    th scope="row" { a href=(visit.link("/task", &[("task", &task.task)])) { (task.task) } }
                    td.text { code { (cut(&task.signature, SHORT)) } }
                    td { (task.queue) }
                    (count(history.succeeded))
                    td.number.error[history.failed > 0].faint[history.failed == 0] { (failed(history)) }
                    td.number { (less_than(history.p50_micros)) }
                    td.number { (less_than(history.p99_micros)) }
                    td.text { (first_line(&task.doc, SHORT)) }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Tasks" }
        p.hint {
            "Tasks of this program, and those that Rust workers have published within 48 hours, with their runs of the last 24 hours."
        }
        (table("Tasks", &HEADS, &rows, "No task is known: a Rust worker publishes its own."))
    };
    Ok(View { title: "Tasks".to_owned(), section: Section::Tasks, body })
}

/// How many runs have failed, and which share that is.
fn failed(history: &TaskHistory) -> String {
    let all = history.succeeded + history.failed;
    match history.failed * 1000 / all.max(1) {
        0 => number(history.failed),
        share => format!("{} ({}.{} %)", number(history.failed), share / 10, share % 10),
    }
}

/// A duration that was rounded up.
fn less_than(micros: Option<u64>) -> String {
    match micros {
        None => "–".to_owned(),
        Some(micros @ 0..2_000) => format!("< {micros} µs"),
        Some(micros) => format!("< {}", duration(micros / 1000)),
    }
}

/// One task, with a form to call it.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let path = visit.get("task").ok_or_else(|| Failure::invalid("The address names no task."))?;
    let tasks = visit.shared.gateway.tasks().await?;
    let links = |state| visit.link("/calls", &[("task", path), ("state", state)]);
    let task = tasks.iter().find(|task| task.task == path);
    let history = visit.inspector().await?.task_history(&[path]).await?;
    let body = html! {
        h1 { (cut(path, 200)) }
        p.actions {
            a.button href=(visit.link("/calls", &[("task", path)])) { "Unfinished calls" }
            a.button href=(links("dead")) { "Dead letters" }
            a.button href=(links("succeeded")) { "Succeeded" }
        }
        @match task {
            Some(task) => @if let [history] = &history[..] { (known(&visit, task, history)) },
            None => {
                p.hint { "No Rust worker has published this task within 48 hours: it may be one of Python or Go." }
                p { a.button href=(visit.link("/enqueue", &[("task", path)])) { "Enqueue a call" } }
            }
        }
    };
    Ok(View { title: format!("Task {}", cut(path, 80)), section: Section::Tasks, body })
}

fn known(visit: &Visit, task: &TaskDescription, history: &TaskHistory) -> Markup {
    let none = serde_json::Map::new();
    let properties = task.arguments["properties"].as_object().unwrap_or(&none);
    let required = task.arguments["required"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        (facts(&[
            ("signature", Some(html! { code { (task.signature) } })),
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &task.queue)])) { (task.queue) } })),
            ("last 24 hours", Some(html! { (number(history.succeeded)) " succeeded, " (failed(history)) " failed" })),
            ("duration", history.p50_micros.map(|_| html! {
                "half " (less_than(history.p50_micros)) ", 95 % " (less_than(history.p95_micros)) ", 99 % "
                (less_than(history.p99_micros))
            })),
        ]))
        @if !task.doc.is_empty() { h2 { "About" } pre.doc tabindex="0" { (task.doc) } }
        @if visit.can_act() {
            h2 { "Run now" }
            form.run method="post" action=(visit.link("/action", &[])) {
                input type="hidden" name="verb" value="enqueue-task";
                input type="hidden" name="task" value=(task.task);
                input type="hidden" name="back" value=(visit.here());
                @for (name, schema) in properties {
                    (argument(name, schema, required.contains(&json!(name))))
                }
                label for="f-queue" { "Queue" }
                input #f-queue name="queue" placeholder=(task.queue) autocomplete="off";
                label for="f-after" { "Run after" }
                input #f-after name="after" placeholder="such as 10m; empty: now" autocomplete="off";
                button.primary { "Enqueue" }
            }
        }
    }
}

/// A field for an argument, by its type.
fn argument(name: &str, schema: &Value, is_required: bool) -> Markup {
    let (id, field) = (format!("arg-{name}"), format!("arg.{name}"));
    let hint = schema["description"].as_str().unwrap_or("JSON");
    html! {
        label for=(id) { (name) @if !is_required { span.hint { " (optional)" } } }
        @match schema["type"].as_str() {
            Some("string") => {
                // That what stands in the field is the text itself.
                input type="hidden" name={ "text." (name) } value="yes";
                input id=(id) name=(field) required[is_required] autocomplete="off";
            }
            Some("integer") => {
                input id=(id) name=(field) type="number" step="1" required[is_required]
                    min=[schema["minimum"].as_i64()] max=[schema["maximum"].as_i64()];
            }
            Some("number") => input id=(id) name=(field) type="number" step="any" required[is_required];
            Some("boolean") => {
                select id=(id) name=(field) {
                    @if !is_required { option value="" { "–" } }
                    option value="false" { "false" }
                    option value="true" { "true" }
                }
            }
            _ => textarea id=(id) name=(field) rows="3" spellcheck="false" required[is_required] placeholder=(hint) {}
        }
    }
}
