//! Shows flows as trees, cancels them, and lets failed ones go on.

use std::sync::Arc;

use maud::{Markup, html};

use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::page::{Section, View, badge, facts, table};
use super::text::{counted, cut, moment_and_distance, when, when_or_dash};
use super::unreadable::Unreadable;
use super::visit::Visit;
use crate::flow::FlowNode;
use crate::inspect::MessageSummary;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::names::QueueName;

/// How many flows of each queue are shown.
const SHOWN: usize = 100;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let inspector = visit.inspector().await?;
    let (mut flows, mut unreadable) = (Vec::new(), Unreadable::default());
    for queue in visit.queues().await? {
        let of_queue = inspector.flows(&queue, SHOWN).await;
        flows.extend(unreadable.or_none(&queue, of_queue)?.unwrap_or_default());
    }
    // Those that go on first, then those that began last.
    flows.sort_by_key(|flow| (flow.ended_ms.is_some(), std::cmp::Reverse(flow.began_ms)));
    flows.truncate(SHOWN);
    let rows: Vec<Markup> = (flows.iter())
        .map(|flow| {
            let link = visit.link("/flow", &[("queue", &flow.queue), ("id", &flow.id)]);
            html! {
                tr {
                    th scope="row" { a.id href=(link) { (flow.id) } }
                    td { (flow.queue) }
                    td { (badge(flow.state)) }
                    td.number {
                        progress aria-label="Steps done" value=(flow.done) max=(flow.steps.max(1)) {}
                        " " (flow.done) "/" (flow.steps)
                    }
                    td.number { (when(flow.began_ms)) }
                    td.number { (when_or_dash(flow.ended_ms)) }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Flows" }
        (unreadable.show(&visit))
        (table("Flows", &["id", "queue", "state", "done", "began", "ended"], &rows, "There are no flows."))
    };
    Ok(View { title: "Flows".to_owned(), section: Section::Flows, body })
}

/// One flow.
pub(super) async fn one(visit: Arc<Visit>) -> Result<View, Failure> {
    let (queue, id) = (visit.queue()?, visit.call_id()?);
    let tree = visit.inspector().await?.flow(&queue, id).await?;
    let missing = || Failure::not_found("This flow has not begun, or is not kept any more.");
    let tree = tree.ok_or_else(missing)?;
    let own = [("queue", tree.queue.as_str()), ("id", tree.id.as_str())];
    let has_failed = matches!(tree.state, CallState::Dead | CallState::Cancelled);
    let body = html! {
        h1 { "Flow " (badge(tree.state)) }
        div.actions {
            @if tree.ended_ms.is_none() { (button(&visit, "flow-cancel", "Cancel", &own)) }
            @if has_failed { (button(&visit, "flow-retry", "Run what has not succeeded", &own)) }
        }
        (facts(&[
            ("id", Some(html! { code { (tree.id) } })),
            ("queue", Some(html! { a href=(visit.link("/queue", &[("queue", &tree.queue)])) { (tree.queue) } })),
            ("steps", Some(html! { (tree.steps) })),
            ("began", Some(moment_and_distance(tree.began_ms))),
            ("ended", tree.ended_ms.map(moment_and_distance)),
        ]))
        h2 { "Steps" }
        ul.tree { (node(&visit, &tree.root)) }
        @if let Some(on_error) = &tree.on_error { h2 { "If it fails" } ul.tree { (node(&visit, on_error)) } }
    };
    Ok(View { title: format!("Flow {id}"), section: Section::Flows, body })
}

fn node(visit: &Visit, part: &FlowNode) -> Markup {
    let left_out = u64::from(part.count) - part.parts.len() as u64;
    html! {
        li {
            @match (&part.task, &part.queue, &part.call_id) {
                (Some(task), Some(queue), Some(id)) => {
                    a href=(visit.link("/call", &[("queue", queue), ("id", id)])) { (cut(task, 100)) }
                }
                (Some(task), ..) => (cut(task, 100)),
                (None, ..) => { (part.kind) @if let Some(most) = part.at_most { ", " (most) " at a time" } }
            }
            " "
            @match part.state { Some(state) => (badge(state)), None => span.badge { "not begun" } }
            @if let Some(reason) = &part.reason { " " span.error { (cut(reason, 200)) } }
            @if !part.parts.is_empty() {
                ul { @for part in &part.parts { (node(visit, part)) } @if left_out > 0 { li { "and " (left_out) " more" } } }
            }
        }
    }
}

/// The flow that a call is a step of.
pub(super) async fn of_call(visit: &Visit, message: &MessageSummary) -> Result<Markup, Failure> {
    let Some((queue, id)) = message.flow.as_ref() else { return Ok(html! {}) };
    let name = QueueName::parse(queue)?;
    let Ok(flow) = CallId::parse(id) else { return Ok(html! {}) };
    let tree = visit.inspector().await?.flow(&name, flow).await?;
    Ok(html! {
        h2 { "Flow" }
        p { "It is a step of the flow " a.id href=(visit.link("/flow", &[("queue", queue), ("id", id)])) { (id) } "." }
        @if let Some(tree) = tree { ul.tree { (node(visit, &tree.root)) } }
    })
}

pub(super) async fn cancel(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, id) = (wanted.queue()?, wanted.call_id()?);
    let found = visit.inspector().await?.cancel(&queue, &[id], visit.by()).await?;
    match found.first() {
        Some(Cancelled::NotFound) | None => {
            Err(Failure::not_found(format!("There is no flow {id} any more.")))
        }
        Some(Cancelled::Ended(state)) => {
            Err(Failure::conflict(format!("The flow {id} had already ended: {state}.")))
        }
        Some(_) => Ok(Done::new(format!("Cancelled the flow {id}"))),
    }
}

pub(super) async fn retry(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let (queue, id) = (wanted.queue()?, wanted.call_id()?);
    let inspector = visit.inspector().await?;
    match inspector.retry_flow(&queue, id).await? {
        None if inspector.has_flow(&queue, id).await? => {
            Err(Failure::conflict(format!("The flow {id} has succeeded, or goes on.")))
        }
        None => Err(Failure::not_found(format!("The flow {id} is not kept any more."))),
        Some(0) => Err(Failure::conflict(format!("The flow {id} has nothing that failed or was cancelled."))),
        Some(count) => Ok(Done::new(format!("{} of the flow {id} will run", counted(count, "step")))),
    }
}
