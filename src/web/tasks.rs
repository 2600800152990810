//! Shows tasks with their signatures, and a form to call each.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::failure::Failure;
use super::page::{Section, View, facts, table};
use super::text::{cut, first_line};
use super::visit::Visit;
use crate::gateway::TaskDescription;

/// How many characters of a document are shown in the list.
const SHORT: usize = 120;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let tasks = visit.shared.gateway.tasks().await?;
    let rows: Vec<Markup> = (tasks.iter())
        .map(|task| {
            html! {
                tr {
                    th scope="row" { a href=(visit.link("/task", &[("task", &task.task)])) { (task.task) } }
                    td.text { code { (cut(&task.signature, SHORT)) } }
                    td { (task.queue) }
                    td.text { (first_line(&task.doc, SHORT)) }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Tasks" }
        p.hint { "Tasks of this program, and those that Rust workers have published within 48 hours." }
        (table("Tasks", &["task", "signature", "queue", "about"], &rows, "No task is known: a Rust worker publishes its own."))
    };
    Ok(View { title: "Tasks".to_owned(), section: Section::Tasks, body })
}

/// One task, with a form to call it.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let path = visit.get("task").ok_or_else(|| Failure::invalid("The address names no task."))?;
    let tasks = visit.shared.gateway.tasks().await?;
    let links = |state| visit.link("/calls", &[("task", path), ("state", state)]);
    let task = tasks.iter().find(|task| task.task == path);
    let body = html! {
        h1 { (cut(path, 200)) }
        p.actions {
            a.button href=(visit.link("/calls", &[("task", path)])) { "Unfinished calls" }
            a.button href=(links("dead")) { "Dead letters" }
            a.button href=(links("succeeded")) { "Succeeded" }
        }
        @match task {
            Some(task) => (known(&visit, task)),
            None => {
                p.hint { "No Rust worker has published this task within 48 hours: it may be one of Python or Go." }
                p { a.button href=(visit.link("/enqueue", &[("task", path)])) { "Enqueue a call" } }
            }
        }
    };
    Ok(View { title: format!("Task {}", cut(path, 80)), section: Section::Tasks, body })
}

fn known(visit: &Visit, task: &TaskDescription) -> Markup {
    let none = serde_json::Map::new();
    let properties = task.arguments["properties"].as_object().unwrap_or(&none);
    let required = task.arguments["required"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        (facts(&[
            ("signature", Some(html! { code { (task.signature) } })),
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &task.queue)])) { (task.queue) } })),
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
