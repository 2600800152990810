//! Lists calls, shows one, and cancels, kills and hastens them.

use std::sync::Arc;

use maud::{Markup, html};

use super::enqueue::{commands, described};
use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::page::{Section, View, badge, facts, field, filter, pager, queue_field, table};
use super::shared::SHORT;
use super::text::{cut, duration, first_line, moment, moment_and_distance, number, when, when_or_dash};
use super::unreadable::Unreadable;
use super::visit::Visit;
use crate::inspect::{CallFilter, CallRecord, Ending, MessageSummary};
use crate::protocol::call_state::{CallState, Cancelled};

/// How many calls one page shows.
const PAGE: usize = 50;
/// How many messages are searched for a text or an id.
const SEARCHED: usize = 20_000;
const SEARCHED_BYTES: usize = 64 << 20;
/// After how many bytes of messages a page ends.
const BYTES: usize = 16 << 20;
/// How many characters of arguments, results and outputs are shown.
pub(super) const LONG: usize = 20_000;
/// How many lines of a log are shown.
const LOG: usize = 500;

/// Calls by state.
pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let names = visit.shared.queue_names().await?;
    let state =
        visit.get("state").and_then(|state| CallState::ALL.into_iter().find(|known| known.name() == state));
    // What is to run later is one list, whatever the reason.
    let states = match state {
        None => Vec::new(),
        Some(CallState::Scheduled) => vec![CallState::Scheduled, CallState::Retrying],
        Some(state) => vec![state],
    };
    let is_counted = matches!(state, Some(CallState::Waiting | CallState::Scheduled | CallState::Running));
    // Of others, all that is left out is read.
    let last = if is_counted && takes_all(&visit) { usize::MAX / 2 } else { SEARCHED };
    let start = visit.number("start").unwrap_or(0).min(last);
    let id = visit.get("id");
    let filter_by = CallFilter {
        states: if id.is_some() && states.is_empty() { CallState::ALL.to_vec() } else { states },
        task: visit.get("task").map(str::to_owned),
        id_prefix: id.map(str::to_owned),
        text: visit.get("text").map(str::to_owned),
        from_ms: moment_of(&visit, "from")?,
        until_ms: moment_of(&visit, "until")?,
        searched: SEARCHED,
        searched_bytes: if takes_all(&visit) { BYTES } else { SEARCHED_BYTES },
        start,
        count: PAGE + 1,
        limit: SHORT,
    };
    let mut unreadable = Unreadable::default();
    let calls = find(&visit, &filter_by, state, &mut unreadable).await?;
    let has_more = calls.len() > PAGE || bytes(&calls) >= BYTES;
    let shown = calls.len().min(PAGE);
    let rows: Vec<Markup> = calls.iter().take(shown).map(|call| row(&visit, call)).collect();
    let to = |start: usize| {
        let start = start.to_string();
        let kept = ["queue", "state", "task", "id", "text", "from", "until"]
            .map(|name| (name, visit.get(name).unwrap_or_default()));
        let mut query: Vec<(&str, &str)> = kept.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        query.push(("start", &start));
        visit.link("/calls", &query)
    };
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let body = html! {
        h1 { "Calls" }
        (tabs(&visit, state))
        (filter(&visit.link("/calls", &[]), &html! {
            @if let Some(state) = state { input type="hidden" name="state" value=(state.name()); }
            (queue_field(&names, visit.get("queue")))
            (field("task", "Task", visit.get("task")))
            (field("id", "Id begins with", id))
            (field("text", "Arguments contain", visit.get("text")))
            (moment_field("from", "From (UTC)", visit.get("from")))
            (moment_field("until", "Until (UTC)", visit.get("until")))
        }))
        (unreadable.show(&visit))
        (table("Calls", &["id", "queue", "state", "when", "failed", "call"], &rows, "There are no such calls."))
        (pager((start > 0).then(|| to(start.saturating_sub(PAGE))), has_more.then(|| to(start + shown))))
        @if !takes_all(&visit) {
            p.hint { "The first " (number(SEARCHED as u64)) " calls of each state are searched, and at most 64 MiB of them." }
        }
        p.hint {
            "Calls that have succeeded are known only if they keep a record, or if their worker has keep_finished. "
            a href=(visit.link("/enqueue", &[])) { "Enqueue a call" }
        }
    };
    Ok(View { title: "Calls".to_owned(), section: Section::Calls, body })
}

/// The size of the messages of calls.
fn bytes(calls: &[CallRecord]) -> usize {
    calls.iter().map(|call| call.message.bytes).sum()
}

/// Whether calls are shown whatever they are.
fn takes_all(visit: &Visit) -> bool {
    ["task", "id", "text", "from", "until"].into_iter().all(|name| visit.get(name).is_none())
}

/// The calls of one page, and one more if there are more.
async fn find(
    visit: &Visit,
    wanted: &CallFilter,
    state: Option<CallState>,
    unreadable: &mut Unreadable,
) -> Result<Vec<CallRecord>, Failure> {
    let (mut calls, mut left) = (Vec::new(), wanted.start);
    let (inspector, lengths) = (visit.inspector().await?, visit.shared.queues().await?);
    let takes_all = takes_all(visit);
    for queue in visit.queues().await? {
        // All that a queue has of this state may be left out.
        let status = lengths.iter().find(|status| status.queue == queue.as_str()).filter(|_| takes_all);
        let length = status.and_then(|status| match state? {
            CallState::Waiting => Some(status.waiting),
            CallState::Scheduled => Some(status.scheduled),
            CallState::Running => Some(status.owned),
            _ => None,
        });
        if let Some(length) = length.and_then(|length| usize::try_from(length).ok())
            && left >= length
        {
            left -= length;
            continue;
        }
        let filter = CallFilter { start: left, count: PAGE + 1 - calls.len(), ..wanted.clone() };
        let found = inspector.calls(&queue, &filter).await;
        let Some(found) = unreadable.or_none(&queue, found)? else { continue };
        if !found.is_empty() {
            left = 0;
        } else if left > 0 {
            let before = CallFilter { start: 0, count: left, ..filter };
            left -= inspector.calls(&queue, &before).await?.len().min(left);
        }
        calls.extend(found);
        if calls.len() > PAGE || bytes(&calls) >= BYTES {
            break;
        }
    }
    Ok(calls)
}

fn moment_field(id: &str, name: &str, value: Option<&str>) -> Markup {
    html! {
        label for={ "f-" (id) } { (name) }
        input id={ "f-" (id) } name=(id) type="datetime-local" value=[value];
    }
}

/// A moment of such a field, in milliseconds since 1970.
fn moment_of(visit: &Visit, name: &str) -> Result<Option<u64>, Failure> {
    let read = |text: &str| {
        let wrong = || Failure::invalid(format!("`{name}` is no time such as 2030-01-31T12:00."));
        let moment: jiff::civil::DateTime = text.parse().map_err(|_| wrong())?;
        let moment = moment.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| wrong())?;
        u64::try_from(moment.timestamp().as_millisecond()).map_err(|_| wrong())
    };
    visit.get(name).map(read).transpose()
}

fn tabs(visit: &Visit, chosen: Option<CallState>) -> Markup {
    let states = CallState::ALL.into_iter().filter(|state| *state != CallState::Retrying).map(Some);
    let tabs = std::iter::once(None).chain(states).map(|state| {
        let query = [("state", state.map(CallState::name)), ("queue", visit.get("queue"))];
        let query: Vec<_> = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        // These have a page of their own.
        let link = match state {
            Some(CallState::Dead) => visit.link("/dead", &query[1..]),
            _ => visit.link("/calls", &query),
        };
        (state.map_or("unfinished", CallState::name), link, state == chosen)
    });
    html! {
        nav.tabs aria-label="States" {
            @for (name, link, is_chosen) in tabs {
                a href=(link) aria-current=[is_chosen.then_some("page")] { (name) }
            }
        }
    }
}

/// A task and its arguments.
pub(super) fn described_call(message: &MessageSummary) -> String {
    match (&message.task, &message.arguments_text, &message.problem) {
        (Some(task), Some(arguments), _) => format!("{}{arguments}", cut(task, SHORT)),
        (Some(task), None, _) => cut(task, SHORT),
        (None, _, Some(problem)) => cut(problem, SHORT),
        (None, _, None) => String::new(),
    }
}

fn row(visit: &Visit, call: &CallRecord) -> Markup {
    html! {
        tr {
            td { (id_link(visit, call)) }
            td { (call.queue) }
            td { (badge(call.state)) @if let Some(limit) = &call.limit { " for " (limit) } }
            td.number { (when_or_dash(call.at_ms())) }
            td.number.faint[call.message.attempts == 0] { (call.message.attempts) }
            td.text {
                (described_call(&call.message))
                @if let Some(error) = &call.error { br; span.error { (first_line(error, SHORT)) } }
            }
        }
    }
}

fn id_link(visit: &Visit, call: &CallRecord) -> Markup {
    let queue = ("queue", call.queue.as_str());
    let link = match (&call.letter, &call.id) {
        (Some(letter), _) => visit.link("/letter", &[queue, ("id", letter)]),
        (None, Some(id)) => visit.link("/call", &[queue, ("id", id)]),
        (None, None) => return html! { span.faint { (call.wire_id.as_deref().unwrap_or("no id")) } },
    };
    let name = call.id.as_ref().or(call.letter.as_ref()).map_or("", String::as_str);
    html! { a.id href=(link) title=(name) { (cut(name, 36)) } }
}

/// One call.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let id = visit.call_id()?;
    let inspector = visit.inspector().await?;
    let (mut found, mut unreadable) = (None, Unreadable::default());
    for queue in visit.queues().await? {
        let call = inspector.call(&queue, id, LONG).await;
        if let Some(call) = unreadable.or_none(&queue, call)?.flatten() {
            found = Some((queue, call));
            break;
        }
    }
    let Some((queue, call)) = found else {
        let text = "No call has this id now. One that has succeeded is known only while it keeps a record.";
        return Err(Failure::not_found(text));
    };
    let id = id.to_string();
    let own = [("queue", call.queue.as_str()), ("id", id.as_str())];
    let again = visit.link("/enqueue", &own);
    let may_be_edited = call.message.task.is_some() && call.message.form.is_some();
    let body = html! {
        h1 { (call.message.task.as_deref().unwrap_or("Call")) " " (badge(call.state)) }
        div.actions {
            @if !call.state.is_final() { (button(&visit, "cancel", "Cancel", &own)) }
            @if matches!(call.state, CallState::Scheduled | CallState::Retrying) {
                (button(&visit, "run-now", "Run now", &own))
            }
            @if call.state == CallState::Running { (button(&visit, "kill", "Kill", &own)) }
            @if let Some(letter) = &call.letter {
                (button(&visit, "requeue", "Requeue", &[("queue", &call.queue), ("id", letter)]))
                (button(&visit, "delete", "Delete", &[("queue", &call.queue), ("id", letter)]))
            }
            @if may_be_edited { a.button href=(again) { "Edit and enqueue again" } }
        }
        @if call.progress.is_some() || call.progress_text.is_some() {
            p {
                @if let Some(share) = call.progress {
                    progress aria-label="Progress" value=(share) max="1" {} " " (format!("{:.0} %", share * 100.0)) " "
                }
                (call.progress_text.as_deref().unwrap_or_default())
            }
        }
        (facts(&[
            ("id", call.id.as_ref().map(|id| html! { code { (id) } })),
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &call.queue)])) { (call.queue) } })),
            ("waits for", call.limit.as_ref().map(|limit| html! { "the limit " (limit) })),
            ("attempt", call.attempt.map(|attempt| html! { (attempt) })),
            ("worker", call.worker.as_ref().map(|worker| html! { (worker) })),
            ("slot", call.wire_id.as_ref().map(|slot| html! { (slot) })),
            ("cancelled", call.by.as_ref().map(|by| html! { "by " (by) })),
            ("reason", call.reason.as_ref().map(|reason| html! { (reason) })),
            ("no result", call.result_problem.as_ref().map(|problem| html! { (problem) })),
        ]))
        @if let Some(error) = &call.error { h2 { "Error" } pre tabindex="0" { (cut(error, LONG)) } }
        (timeline(&call))
        (message_details(&visit, &call.message))
        @if let Some(result) = &call.result {
            h2 { "Result" }
            pre tabindex="0" { (cut(&serde_json::to_string_pretty(result).unwrap_or_default(), LONG)) }
        }
        @if !call.log.is_empty() {
            h2 { "Log" }
            pre tabindex="0" { @for line in call.log.iter().rev().take(LOG).rev() { (cut(line, SHORT * 10)) "\n" } }
        }
        (super::flows::of_call(&visit, &call.message).await?)
        @if may_be_edited && let Ok(call) = described(&queue, &call.message) { (commands(&call)) }
        @if !call.has_record && !call.state.is_final() {
            p.hint { "This call keeps no record: with keep, its times, its progress and its result would stand here." }
        }
    };
    Ok(View { title: format!("Call {id}"), section: Section::Calls, body })
}

/// What happened to a call, in its order.
fn timeline(call: &CallRecord) -> Markup {
    let mut steps: Vec<(u64, String)> = Vec::new();
    let mut add = |ms: Option<u64>, text: &str| steps.extend(ms.map(|ms| (ms, text.to_owned())));
    add(call.queued_ms.or_else(|| call.call_id()?.made_ms()), "enqueued");
    add(call.due_ms, "due");
    add(call.began_ms, "begun");
    add(call.ended_ms, call.state.name());
    let failed = call.message.errors.iter();
    steps.extend(failed.map(|error| (error.at_ms, format!("{}: {}", error.reason, error.detail))));
    steps.sort();
    let took = call.began_ms.zip(call.ended_ms).map(|(began, ended)| ended.saturating_sub(began));
    html! {
        h2 { "Timeline" }
        ol.timeline {
            @for (ms, text) in &steps { li { time { (moment(*ms)) } " " (first_line(text, SHORT)) " (" (when(*ms)) ")" } }
        }
        @if let Some(took) = took { p { "Its last run took " (duration(took)) "." } }
    }
}

/// What a message says: arguments, options, and failed attempts.
pub(super) fn message_details(visit: &Visit, message: &MessageSummary) -> Markup {
    let text = |text: &Option<String>| text.as_ref().map(|text| html! { (text) });
    let time = |ms: Option<u64>| ms.map(|ms| html! { (duration(ms)) });
    let json = |value| cut(&serde_json::to_string_pretty(value).unwrap_or_default(), LONG);
    html! {
        @if message.arguments.is_some() || message.keywords.is_some() {
            h2 { "Arguments" }
            @if let Some(values) = &message.arguments { pre tabindex="0" { (json(values)) } }
            @if let Some(values) = &message.keywords { pre tabindex="0" { (json(values)) } }
        }
        @if let Some(hex) = &message.hex { h2 { "Bytes" } pre tabindex="0" { (hex) } }
        @if message.form.is_some() || message.problem.is_some() {
            h2 { "Message" }
            (facts(&[
                ("problem", text(&message.problem)),
                ("form", message.form.map(|form| html! { (form) })),
                ("failed", (message.attempts > 0).then(|| html! { (message.attempts) " times" })),
                ("retries", message.retry.map(|retry| html! { @if retry < 0 { "no maximum" } @else { (retry) } })),
                ("retried for", time(message.retry_for_ms)),
                ("back-off", text(&message.backoff)),
                ("timeout", time(message.timeout_ms)),
                ("expires", message.expires_ms.map(moment_and_distance)),
                ("trace", text(&message.traceparent)),
                ("size", Some(html! { (number(message.bytes as u64)) " bytes" })),
            ]))
            @if !message.headers.is_empty() {
                h2 { "Headers" }
                dl.facts { @for (name, value) in &message.headers { dt { (name) } dd { (value) } } }
            }
        }
        @if !message.errors.is_empty() {
            h2 { "Failed attempts" }
            ol.errors {
                @for error in &message.errors {
                    li { time { (moment(error.at_ms)) } " " strong { (error.reason) } pre tabindex="0" { (error.detail) } }
                }
            }
        }
        @if let Some(task) = &message.task {
            p { a href=(visit.link("/task", &[("task", task)])) { "About the task " (cut(task, SHORT)) } }
        }
    }
}

/// Cancels a call.
pub(super) async fn cancel(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, id) = (wanted.queue()?, wanted.call_id()?);
    let found = visit.inspector().await?.cancel(&queue, &[id], visit.by()).await?;
    let text = match found.first() {
        Some(Cancelled::Scheduled) => "was scheduled, and has been removed",
        Some(Cancelled::Retrying) => "was waiting for a retry, and has been removed",
        Some(Cancelled::Waiting) => "was waiting, and will not run",
        Some(Cancelled::Running) => "is running: its worker was asked to end it",
        Some(Cancelled::Ended(state)) => {
            return Err(Failure::conflict(format!("The call {id} had already ended: {state}.")));
        }
        Some(Cancelled::NotFound) | None => {
            return Err(Failure::not_found(format!("No call {id} is known in {queue}.")));
        }
    };
    Ok(Done::new(format!("The call {id} {text}")))
}

/// Moves a scheduled call to its queue.
pub(super) async fn run_now(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, id) = (wanted.queue()?, wanted.call_id()?);
    match visit.inspector().await?.run_now(&queue, &[id]).await? {
        0 => Err(Failure::conflict(format!("The call {id} is not scheduled any more."))),
        _ => Ok(Done::new(format!("Enqueued the call {id}"))),
    }
}

/// Kills a run, by the id of its call or of its slot.
pub(super) async fn kill(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let queues: Vec<_> = wanted.queue_or_all()?.into_iter().collect();
    let id = wanted.need("id")?;
    let killed = visit.inspector().await?.kill(id, &queues, visit.by()).await;
    let killed = killed.map_err(|error| Failure::conflict(crate::task::error::chain(&error)))?;
    let text = match killed.fate {
        Ending::Killed => "was killed, and is a dead letter",
        Ending::Succeeded => "succeeded before it could be ended",
        Ending::Over => "had ended before the request arrived",
        Ending::Blocks => "goes on: it was asked to end, and cannot be stopped",
        Ending::Lost => "was lost by its worker before: it runs again",
        Ending::Late => "goes on: its worker has not answered in time",
    };
    Ok(Done::new(format!("The run of {id} {text}")))
}
