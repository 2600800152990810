//! Shows periodic tasks with their next and last ticks, and pauses, runs and removes them.

use std::sync::Arc;

use maud::{Markup, html};

use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::page::{Section, View, facts, table};
use super::text::{cut, moment, when, when_or_dash};
use super::unreadable::Unreadable;
use super::visit::Visit;
use crate::inspect::PeriodicStatus;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let (mut tasks, mut unreadable) = (Vec::new(), Unreadable::default());
    let inspector = visit.inspector().await?;
    for queue in visit.queues().await? {
        let of_queue = inspector.periodic(std::slice::from_ref(&queue)).await;
        tasks.extend(unreadable.or_none(&queue, of_queue)?.unwrap_or_default());
    }
    let rows: Vec<Markup> = (tasks.iter())
        .map(|task| {
            let link = visit.link("/periodic/task", &[("queue", &task.queue), ("name", &task.name)]);
            html! {
                tr {
                    th scope="row" { a href=(link) { (task.name) } (marks(task)) }
                    td { (task.queue) }
                    td.text { (cut(&task.task, 100)) }
                    td { code { (task.cron) } @if let Some(tz) = &task.tz { " " (tz) } }
                    td.number { (when_or_dash(task.next_ms.first().copied())) }
                    td { div.actions { (actions(&visit, task)) } }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Periodic tasks" }
        (unreadable.show(&visit))
        (table(
            "Periodic tasks",
            &["name", "queue", "task", "cron", "next", "actions"],
            &rows,
            "There are no periodic tasks: an attribute with cron or `periodic add` defines one.",
        ))
    };
    Ok(View { title: "Periodic tasks".to_owned(), section: Section::Periodic, body })
}

fn marks(task: &PeriodicStatus) -> Markup {
    html! {
        @if task.paused.is_some() { " " span.badge.warn { "paused" } }
        @if task.orphaned { " " span.badge.warn title="No living worker declares it" { "orphaned" } }
        @if task.problem.is_some() { " " span.badge.bad { "broken" } }
    }
}

fn actions(visit: &Visit, task: &PeriodicStatus) -> Markup {
    let own = [("queue", task.queue.as_str()), ("name", task.name.as_str())];
    html! {
        @if task.paused.is_some() {
            (button(visit, "periodic-resume", "Resume", &own))
        } @else {
            (button(visit, "periodic-pause", "Pause", &own))
        }
        (button(visit, "periodic-run", "Run now", &own))
    }
}

/// One periodic task.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let queue = visit.queue()?;
    let name = visit.get("name").unwrap_or_default();
    let inspector = visit.inspector().await?;
    let tasks = inspector.periodic(std::slice::from_ref(&queue)).await?;
    let missing = || Failure::not_found("There is no such periodic task.");
    let task = tasks.into_iter().find(|task| task.name == name).ok_or_else(missing)?;
    let history = inspector.periodic_history(&queue, name).await?.unwrap_or_default();
    let rows: Vec<Markup> = (history.iter())
        .map(|tick| {
            html! {
                tr {
                    td { @match tick.tick_ms { Some(ms) => (moment(ms)), None => "by hand" } }
                    td { (tick.result) @if let Some(missed) = tick.missed { " " (missed) } }
                    td {
                        @if let Some(id) = &tick.call {
                            a.id href=(visit.link("/call", &[("queue", queue.as_str()), ("id", id)])) { (id) }
                        }
                    }
                    td { (tick.state.as_deref().unwrap_or("–")) }
                }
            }
        })
        .collect();
    let own = [("queue", task.queue.as_str()), ("name", task.name.as_str())];
    let origin = if task.code { "the attribute of a task" } else { "the command line, or a program" };
    let body = html! {
        h1 { (task.name) (marks(&task)) }
        div.actions { (actions(&visit, &task)) (button(&visit, "periodic-remove", "Remove", &own)) }
        @if let Some(problem) = &task.problem { p.problem { (problem) } }
        (facts(&[
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &task.queue)])) { (task.queue) } })),
            ("task", Some(html! { a href=(visit.link("/task", &[("task", &task.task)])) { (cut(&task.task, 200)) } })),
            ("cron", Some(html! { code { (task.cron) } })),
            ("time zone", Some(html! { (task.tz.as_deref().unwrap_or("UTC")) })),
            ("defined by", Some(html! { (origin) })),
            ("paused", task.paused.as_ref().map(|pause| html! { (when(pause.since_ms)) " by " (pause.by) })),
        ]))
        h2 { "Next ticks" }
        ol.timeline { @for ms in &task.next_ms { li { time { (moment(*ms)) } " (" (when(*ms)) ")" } } }
        h2 { "History" }
        (table("History", &["tick", "result", "call", "state"], &rows, "It has not ticked yet."))
    };
    Ok(View { title: format!("Periodic task {}", task.name), section: Section::Periodic, body })
}

/// Pauses a periodic task, or resumes it.
pub(super) async fn pause(visit: &Visit, wanted: &Wanted, pauses: bool) -> Result<Done, Failure> {
    let (queue, name) = (wanted.queue()?, wanted.need("name")?);
    let inspector = visit.inspector().await?;
    let changed = match pauses {
        true => inspector.pause_periodic(&queue, name, visit.by()).await?,
        false => inspector.resume_periodic(&queue, name).await?,
    };
    Ok(Done::new(match (pauses, changed.ok_or_else(|| missing(name))?) {
        (true, true) => format!("Paused {name}"),
        (true, false) => format!("{name} was paused already"),
        (false, true) => format!("Resumed {name}"),
        (false, false) => format!("{name} was not paused"),
    }))
}

/// Makes a call of it now.
pub(super) async fn run(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, name) = (wanted.queue()?, wanted.need("name")?);
    let made = visit.inspector().await?.run_periodic(&queue, name).await?.ok_or_else(|| missing(name))?;
    match (made.enqueued, made.call) {
        (true, Some(id)) => Ok(Done::new(format!("Enqueued the call {id} of {name}"))),
        (true, None) => Ok(Done::new(format!("Enqueued a call of {name}"))),
        (false, _) => Err(Failure::conflict("Nothing was enqueued: an earlier call of it has not ended.")),
    }
}

pub(super) async fn remove(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, name) = (wanted.queue()?, wanted.need("name")?);
    match visit.inspector().await?.remove_periodic(&queue, name).await? {
        true => Ok(Done { text: format!("Removed {name}"), to: Some(visit.link("/periodic", &[])) }),
        false => Err(missing(name)),
    }
}

fn missing(name: &str) -> Failure {
    Failure::not_found(format!("There is no periodic task {name} any more."))
}
