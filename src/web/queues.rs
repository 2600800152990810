//! Shows queues, pauses and empties them.

use std::sync::Arc;

use maud::{Markup, html};

use super::chart;
use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::job;
use super::page::{Section, View, count, facts, table};
use super::text::{counted, moment_and_distance, number, when, when_or_dash};
use super::visit::Visit;
use crate::inspect::QueueStatus;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let queues = visit.shared.queues().await?;
    let rows: Vec<Markup> = (queues.iter())
        .map(|queue| {
            html! {
                tr {
                    (name_cell(&visit, queue))
                    (count(queue.waiting))
                    (oldest_cell(queue))
                    (count(queue.owned))
                    (count(queue.scheduled))
                    (count(queue.dead))
                    (count(queue.suspects))
                    (count(queue.workers))
                    td { (pause_button(&visit, queue)) }
                }
            }
        })
        .collect();
    let heads =
        ["queue", "waiting", "oldest", "running", "scheduled", "dead", "suspects", "workers", "actions"];
    let body = html! {
        h1 { "Queues" }
        (table("Queues", &heads, &rows, "There are no queues yet: the first call or worker creates one."))
    };
    Ok(View { title: "Queues".to_owned(), section: Section::Queues, body })
}

/// The name of a queue, and what is special about it.
pub(super) fn name_cell(visit: &Visit, queue: &QueueStatus) -> Markup {
    html! {
        th scope="row" {
            a href=(visit.link("/queue", &[("queue", &queue.queue)])) { (queue.queue) }
            @if queue.paused.is_some() { " " span.badge.warn { "paused" } }
            @if queue.problem.is_some() { " " span.badge.bad { "unreadable" } }
        }
    }
}

pub(super) fn oldest_cell(queue: &QueueStatus) -> Markup {
    html! { td.number { (when_or_dash(queue.oldest_ms)) } }
}

fn pause_button(visit: &Visit, queue: &QueueStatus) -> Markup {
    let (verb, title) = if queue.paused.is_some() { ("resume", "Resume") } else { ("pause", "Pause") };
    button(visit, verb, title, &[("queue", &queue.queue)])
}

/// One queue.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let name = visit.queue()?;
    let queue = visit.inspector().await?.queue(&name).await?;
    let span = chart::span(visit.get("span"));
    let history = visit.inspector().await?.history(std::slice::from_ref(&name), span).await?;
    let workers = visit.shared.workers().await?;
    let own = workers.iter().filter(|worker| worker.queues.contains(&queue.queue));
    let calls = |state, value: u64| {
        let link = visit.link("/calls", &[("queue", &queue.queue), ("state", state)]);
        Some(html! { a href=(link) { (number(value)) } })
    };
    let pause = queue.paused.as_ref();
    let body = html! {
        h1 { (queue.queue) }
        div.actions {
            (pause_button(&visit, &queue))
            (button(&visit, "purge", "Drop all waiting calls", &[("queue", &queue.queue)]))
        }
        @if let Some(problem) = &queue.problem { p.problem { (problem) } }
        (facts(&[
            ("paused", pause.map(|pause| html! { (moment_and_distance(pause.since_ms)) " by " (pause.by) })),
            ("waiting", calls("waiting", queue.waiting)),
            ("oldest", queue.oldest_ms.map(|ms| html! { "enqueued " (when(ms)) })),
            ("running", calls("running", queue.owned)),
            ("scheduled", calls("scheduled", queue.scheduled)),
            ("next due", queue.next_due_ms.map(when)),
            ("dead", Some(html! {
                a href=(visit.link("/dead", &[("queue", &queue.queue)])) { (number(queue.dead)) }
            })),
            ("suspects", (queue.suspects > 0).then(|| html! {
                (number(queue.suspects)) " calls died with their workers, and are tried again"
            })),
            ("tokens", Some(html! { (number(queue.tokens)) })),
            ("flows", Some(html! { a href=(visit.link("/flows", &[("queue", &queue.queue)])) { "Flows of this queue" } })),
            ("periodic", Some(html! {
                a href=(visit.link("/periodic", &[("queue", &queue.queue)])) { "Periodic tasks of this queue" }
            })),
        ]))
        h2 { "Ended calls" }
        (chart::tabs(&visit, span, "/queue", &[("queue", &queue.queue)]))
        (chart::bars(&history, "Ended calls over time"))
        h2 { "Workers" }
        ul {
            @for worker in own {
                li { (worker.id) @if let Some(info) = &worker.info { " on " (info.host) " (pid " (info.pid) ")" } }
            }
        }
        p.hint { (counted(queue.workers, "worker")) " serve this queue. Python and Go workers are seen while they run a call." }
    };
    Ok(View { title: format!("Queue {}", queue.queue), section: Section::Queues, body })
}

/// Pauses a queue, or resumes it.
pub(super) async fn pause(visit: &Visit, wanted: &Wanted, pauses: bool) -> Result<Done, Failure> {
    let (queue, inspector) = (wanted.queue()?, visit.inspector().await?);
    let change = match pauses {
        true => inspector.pause(&queue, visit.by()).await?,
        false => inspector.resume(&queue, visit.by()).await?,
    };
    Ok(Done::new(match (change.paused, change.changed) {
        (true, true) => format!("Paused {queue}"),
        (true, false) => format!("{queue} was paused already"),
        (false, true) => format!("Resumed {queue}"),
        (false, false) => format!("{queue} was not paused"),
    }))
}

/// Drops all waiting calls of a queue.
pub(super) async fn purge(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let queue = wanted.queue()?;
    let inspector = visit.inspector().await?.clone();
    let (text, to) = job::begin(visit, format!("drop all waiting calls of {queue}"), |job| async move {
        let dropped = inspector.purge(&queue, &mut |done, total| job.progress(done, total)).await?;
        Ok(format!("Dropped {} of {queue}", counted(dropped, "waiting call")))
    })
    .await?;
    Ok(Done { text, to })
}
