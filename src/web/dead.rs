//! Shows dead letters, one by one and grouped by task and error, and requeues and deletes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};

use super::calls::{LONG, described_call, message_details};
use super::enqueue::{commands, described};
use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::job;
use super::page::{Section, View, facts, field, filter, pager, queue_field, table};
use super::shared::SHORT;
use super::text::{counted, cut, first_line, moment_and_distance, number, when};
use super::unreadable::Unreadable;
use super::visit::Visit;
use crate::inspect::{DeadLetter, Handled, Inspector, Selection, order};
use crate::protocol::names::QueueName;

/// How many dead letters one page shows.
const PAGE: usize = 50;
/// About how many bytes of letters are read for each.
const BYTES: usize = 16 << 20;
/// How many of the newest letters are grouped, of all queues together, and at least of each.
const GROUPED: usize = 2000;
const LEAST_GROUPED: usize = 100;
/// How many groups are shown.
const GROUPS: usize = 50;
/// How many characters of an error tell two groups apart.
const KEY: usize = 160;

/// Dead letters of one task with one error.
#[derive(Debug)]
struct Group {
    count: u64,
    newest_ms: u64,
    ids: Vec<String>,
}

/// Queue, task, reason and error.
type Key = (String, String, String, String);

fn key(letter: &DeadLetter) -> Key {
    let task = letter.message.task.clone().unwrap_or_default();
    // Numbers and ids differ from call to call.
    let error: String =
        first_line(&letter.detail, KEY).chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    (letter.queue.clone(), task, letter.reason.clone(), error)
}

async fn groups(inspector: &Inspector, queues: &[QueueName]) -> Result<BTreeMap<Key, Group>, Failure> {
    let mut groups = BTreeMap::new();
    let each = (GROUPED / queues.len().max(1)).max(LEAST_GROUPED);
    for queue in queues {
        let (letters, _) = inspector.dead_page(queue, None, None, each, 0, BYTES / queues.len()).await?;
        for letter in letters {
            let group = groups.entry(key(&letter)).or_insert_with(|| Group {
                count: 0,
                newest_ms: letter.at_ms,
                ids: Vec::new(),
            });
            group.count += 1;
            group.newest_ms = group.newest_ms.max(letter.at_ms);
            group.ids.push(letter.id);
        }
    }
    Ok(groups)
}

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let inspector = visit.inspector().await?;
    let (task, before) = (visit.get("task"), visit.get("before"));
    let (mut letters, mut queues, mut unreadable) = (Vec::new(), Vec::new(), Unreadable::default());
    // The last letter that was read of a queue of which more are there.
    let mut end: Option<String> = None;
    let all = visit.queues().await?;
    for queue in &all {
        let page = inspector.dead_page(queue, before, task, PAGE + 1, SHORT, BYTES / all.len()).await;
        let Some((of_queue, last)) = unreadable.or_none(queue, page)? else { continue };
        letters.extend(of_queue);
        end = end.into_iter().chain(last).max_by_key(|id| order(id));
        queues.push(queue.clone());
    }
    letters.sort_by_key(|letter| Reverse(order(&letter.id)));
    if let Some(end) = &end {
        letters.retain(|letter| order(&letter.id) >= order(end));
    }
    let has_more = letters.len() > PAGE;
    letters.truncate(PAGE);
    let kept = [("queue", visit.get("queue")), ("task", task)];
    let kept: Vec<(&str, &str)> = kept.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let last = if has_more { letters.last().map(|letter| &letter.id) } else { end.as_ref() };
    let next = last.map(|last| {
        let mut query = kept.clone();
        query.push(("before", last));
        visit.link("/dead", &query)
    });
    let rows: Vec<Markup> = letters.iter().map(|letter| row(&visit, letter)).collect();
    let names: Vec<String> = visit.shared.queue_names().await?.iter().map(ToString::to_string).collect();
    let body = html! {
        h1 { "Dead letters" }
        (unreadable.show(&visit))
        (filter(&visit.link("/dead", &[]), &html! {
            (queue_field(&names, visit.get("queue")))
            (field("task", "Task", task))
        }))
        div.actions {
            (button(&visit, "requeue", "Requeue all of these", &kept))
            (button(&visit, "delete", "Delete all of these", &kept))
        }
        @if before.is_none() && task.is_none() { (grouped(&visit, inspector, &queues).await?) }
        h2 { "Newest first" }
        (table("Dead letters", &["buried", "queue", "call", "reason", "attempt", "error"], &rows, "There are no dead letters."))
        (pager(before.map(|_| visit.link("/dead", &kept)), next))
    };
    Ok(View { title: "Dead letters".to_owned(), section: Section::Dead, body })
}

async fn grouped(visit: &Visit, inspector: &Inspector, queues: &[QueueName]) -> Result<Markup, Failure> {
    let groups = groups(inspector, queues).await?;
    if groups.len() < 2 && groups.values().all(|group| group.count < 2) {
        return Ok(html! {});
    }
    let mut groups: Vec<(&Key, &Group)> = groups.iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.count));
    let rows: Vec<Markup> = (groups.iter().take(GROUPS))
        .map(|((queue, task, reason, error), group)| {
            let fields = [("queue", queue.as_str()), ("task", task), ("reason", reason), ("error", error)];
            html! {
                tr {
                    td.number { (number(group.count)) }
                    td { (queue) }
                    td.text { (cut(task, SHORT)) }
                    td { (reason) }
                    td.text.error { (error) }
                    td.number { (when(group.newest_ms)) }
                    td {
                        div.actions {
                            (button(visit, "requeue", "Requeue", &fields))
                            (button(visit, "delete", "Delete", &fields))
                        }
                    }
                }
            }
        })
        .collect();
    let heads = ["letters", "queue", "task", "reason", "error", "newest", "actions"];
    Ok(html! {
        h2 { "By task and error" }
        p.hint { "Of the newest " (number(GROUPED as u64)) " or so. Digits in errors count as equal." }
        (table("Dead letters by task and error", &heads, &rows, ""))
    })
}

fn row(visit: &Visit, letter: &DeadLetter) -> Markup {
    let link = visit.link("/letter", &[("queue", &letter.queue), ("id", &letter.id)]);
    html! {
        tr {
            td.number { a href=(link) { (when(letter.at_ms)) } }
            td { (letter.queue) }
            td.text { (described_call(&letter.message)) }
            td { span.badge.bad { (cut(&letter.reason, 30)) } }
            td.number { (letter.attempt) }
            td.text.error { (first_line(&letter.detail, SHORT)) }
        }
    }
}

/// One dead letter.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let queue = visit.queue()?;
    let id = visit.get("id").unwrap_or_default();
    let letter = visit.inspector().await?.dead_letter(&queue, id, LONG).await?;
    let missing = || Failure::not_found("There is no such dead letter any more: it was requeued or deleted.");
    let letter = letter.ok_or_else(missing)?;
    let own = [("queue", letter.queue.as_str()), ("id", letter.id.as_str())];
    let edit = [("queue", letter.queue.as_str()), ("letter", letter.id.as_str())];
    let call = described(&queue, &letter.message).ok();
    let body = html! {
        h1 { (cut(letter.message.task.as_deref().unwrap_or("Dead letter"), SHORT)) " " span.badge.bad { (letter.reason) } }
        div.actions {
            (button(&visit, "requeue", "Requeue", &own))
            (button(&visit, "delete", "Delete", &own))
            @if call.is_some() { a.button href=(visit.link("/enqueue", &edit)) { "Edit and enqueue again" } }
        }
        h2 { "Error" }
        pre tabindex="0" { (cut(&letter.detail, LONG)) }
        (facts(&[
            ("id", Some(html! { code { (letter.id) } })),
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &letter.queue)])) { (letter.queue) } })),
            ("call", letter.message.call_id.as_ref().map(|id| html! { code { (id) } })),
            ("buried", Some(moment_and_distance(letter.at_ms))),
            ("attempt", Some(html! { (letter.attempt) })),
            ("worker", Some(html! { (cut(&letter.worker, SHORT)) })),
        ]))
        @if let Some(output) = &letter.output { h2 { "Output" } pre tabindex="0" { (cut(output, LONG)) } }
        (message_details(&visit, &letter.message))
        (super::flows::of_call(&visit, &letter.message).await?)
        @if let Some(call) = &call { (commands(call)) }
    };
    Ok(View { title: format!("Dead letter {}", letter.id), section: Section::Dead, body })
}

/// Requeues or deletes dead letters: one, those of a group, of a task or of a queue, or all.
pub(super) async fn handle(visit: &Visit, wanted: &Wanted, verb: &str) -> Result<Done, Failure> {
    let inspector = visit.inspector().await?.clone();
    let mut parts: Vec<(QueueName, Selection)> = Vec::new();
    let queues = match wanted.queue_or_all()? {
        Some(queue) => vec![queue],
        None => visit.shared.queue_names().await?,
    };
    match (wanted.get("id"), wanted.get("task"), wanted.get("error")) {
        (Some(id), ..) => parts.push((wanted.queue()?, Selection::Ids(vec![id.to_owned()]))),
        (None, task, Some(error)) => {
            let queue = wanted.queue()?;
            let reason = wanted.get("reason").unwrap_or_default();
            let wanted =
                (queue.to_string(), task.unwrap_or_default().to_owned(), reason.to_owned(), error.to_owned());
            let group = groups(&inspector, std::slice::from_ref(&queue)).await?.remove(&wanted);
            let group =
                group.ok_or_else(|| Failure::conflict("This group is gone: its letters were handled."))?;
            parts.push((queue, Selection::Ids(group.ids)));
        }
        (None, Some(task), None) => {
            parts.extend(queues.into_iter().map(|queue| (queue, Selection::Task(task.to_owned()))));
        }
        (None, None, None) => parts.extend(queues.into_iter().map(|queue| (queue, Selection::All))),
    }
    let is_one = wanted.get("id").is_some();
    let deletes = verb == "delete";
    let title = if deletes { "delete dead letters" } else { "requeue dead letters" };
    let (text, to) = job::begin(visit, title.to_owned(), |job| async move {
        let (mut all, mut before) = (Handled::default(), 0);
        for (queue, which) in parts {
            let mut seen = before;
            let mut progress = |done, total| {
                seen = before + done;
                job.progress(seen, before + total);
            };
            let handled = match deletes {
                true => inspector.delete_dead(&queue, &which, &mut progress).await?,
                false => inspector.requeue_dead(&queue, &which, &mut progress).await?,
            };
            before = seen;
            all.done += handled.done;
            all.missing.extend(handled.missing);
            all.locked.extend(handled.locked);
        }
        told(&all, deletes)
    })
    .await?;
    // Its page is gone.
    let to = to.or_else(|| is_one.then(|| visit.link("/dead", &[])));
    Ok(Done { text, to })
}

fn told(handled: &Handled, deletes: bool) -> Result<String, Failure> {
    let Handled { done, missing, locked, .. } = handled;
    if let (0, Some((call, holder))) = (done, locked.first()) {
        return Err(Failure::conflict(format!(
            "{call} stays dead: it is unique, and {holder} holds its lock until it has ended."
        )));
    }
    if *done == 0 && !missing.is_empty() {
        return Err(Failure::conflict("It was requeued or deleted meanwhile."));
    }
    let verb = if deletes { "Deleted" } else { "Requeued" };
    let mut text = format!("{verb} {}", counted(*done, "dead letter"));
    if !locked.is_empty() {
        text.push_str(&format!("; {} stay dead, because other unique calls have not ended", locked.len()));
    }
    Ok(text)
}
