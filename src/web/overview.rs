//! Shows on one page whether all is well.

use std::sync::Arc;

use maud::{Markup, html};

use super::chart;
use super::failure::Failure;
use super::page::{Section, View, card, count, table};
use super::queues::{name_cell, oldest_cell};
use super::text::{counted, now_ms, number};
use super::visit::Visit;
use crate::inspect::{History, HistoryBucket, HistorySpan, QueueStatus, WorkerCounts};

/// How many queues are shown.
const SHOWN: usize = 20;

pub(super) async fn overview(visit: Arc<Visit>) -> Result<View, Failure> {
    let queues = visit.shared.queues().await?;
    let workers = visit.shared.worker_counts().await?;
    let sum = |of: fn(&QueueStatus) -> u64| queues.iter().map(of).sum::<u64>();
    let dead = sum(|queue| queue.dead);
    let oldest = queues.iter().filter_map(|queue| queue.oldest_ms).min();
    let card = |name, value: u64, path, class| card(name, &number(value), &visit.link(path, &[]), class);
    let calls = |state| visit.link("/calls", &[("state", state)]);
    let mut shown: Vec<&QueueStatus> = queues.iter().collect();
    // Those first that most wait in, and then by name.
    shown.sort_by(|one, other| other.waiting.cmp(&one.waiting).then_with(|| one.queue.cmp(&other.queue)));
    let rows: Vec<Markup> = (shown.iter().take(SHOWN))
        .map(|queue| {
            html! {
                tr {
                    (name_cell(&visit, queue))
                    (count(queue.waiting))
                    (oldest_cell(queue))
                    (count(queue.owned))
                    (count(queue.scheduled))
                    (count(queue.dead))
                    (count(queue.workers))
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Overview" }
        (warnings(&visit, &queues, *workers))
        div.cards {
            (super::page::card("waiting", &number(sum(|queue| queue.waiting)), &calls("waiting"), None))
            (super::page::card("running", &number(sum(|queue| queue.owned)), &calls("running"), None))
            (super::page::card("scheduled", &number(sum(|queue| queue.scheduled)), &calls("scheduled"), None))
            (card("dead", dead, "/dead", (dead > 0).then_some("bad")))
            (card("workers", workers.alive, "/workers", (workers.alive == 0).then_some("bad")))
        }
        @if let Some(oldest) = oldest {
            p { "The oldest waiting call was enqueued " (super::text::when(oldest)) "." }
        }
        (ended(&visit).await?)
        h2 { "Queues" }
        (table(
            "Queues",
            &["queue", "waiting", "oldest", "running", "scheduled", "dead", "workers"],
            &rows,
            "There are no queues yet: the first call or worker creates one.",
        ))
        @if queues.len() > SHOWN {
            p { a href=(visit.link("/queues", &[])) { "All " (counted(queues.len() as u64, "queue")) } }
        }
    };
    Ok(View { title: "Overview".to_owned(), section: Section::Overview, body })
}

/// How many calls have ended in the last hour, day or week.
async fn ended(visit: &Visit) -> Result<Markup, Failure> {
    let span = chart::span(visit.get("span"));
    let history = visit.shared.history(span).await?;
    let hour = visit.shared.history(HistorySpan::Hour).await?;
    Ok(html! {
        h2 { "Ended calls" }
        (rates(&hour))
        (chart::tabs(visit, span, "/", &[]))
        (chart::bars(&history, "Ended calls over time"))
    })
}

/// How many runs end in a second now.
fn rates(history: &History) -> Markup {
    // The last minute that is over, and the one that is not.
    let last: Vec<_> = history.buckets.iter().rev().take(2).collect();
    let seconds = now_ms().saturating_sub(last.last().map_or(0, |bucket| bucket.begins_ms)).max(1000) / 1000;
    let per_second = |of: fn(&HistoryBucket) -> u64| {
        let tenths = last.iter().map(|bucket| of(bucket)).sum::<u64>() * 10 / seconds;
        format!("{}.{}/s", number(tenths / 10), tenths % 10)
    };
    html! {
        p {
            (per_second(|bucket| bucket.succeeded)) " succeed, " (per_second(|bucket| bucket.failed)) " fail, "
            (per_second(|bucket| bucket.dead)) " become dead letters, on average of the last minutes."
        }
    }
}

/// What should be looked at.
fn warnings(visit: &Visit, queues: &[QueueStatus], workers: WorkerCounts) -> Markup {
    let link = |name: &str| visit.link("/queue", &[("queue", name)]);
    let paused = queues.iter().filter(|queue| queue.paused.is_some());
    let idle = queues.iter().filter(|queue| queue.waiting > 0 && queue.workers == 0);
    let broken = queues.iter().filter(|queue| queue.problem.is_some());
    html! {
        ul.warnings {
            @for queue in broken { li.problem { a href=(link(&queue.queue)) { (queue.queue) } " cannot be read." } }
            @for queue in idle {
                li.problem {
                    a href=(link(&queue.queue)) { (queue.queue) }
                    " has " (counted(queue.waiting, "waiting call")) " and no visible worker."
                }
            }
            @for queue in paused { li { a href=(link(&queue.queue)) { (queue.queue) } " is paused." } }
            @if workers.dead > 0 {
                li { (counted(workers.dead, "worker")) " died: a sweep requeues what they ran." }
            }
        }
    }
}
