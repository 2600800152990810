//! Shows limits with those that hold them and wait for them, and changes them.

use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};

use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::page::{Section, View, count, table};
use super::text::duration;
use super::visit::Visit;
use crate::inspect::LimitStatus;
use crate::protocol::limit::{Limit, LimitName};

/// How many holders and waiting queues are shown.
const SHOWN: usize = 20;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let limits = visit.inspector().await?.limits().await?;
    let rows: Vec<Markup> = limits.iter().map(|limit| row(&visit, limit)).collect();
    let heads =
        ["name", "at a time", "rate", "burst", "held", "waiting", "holders", "next in line", "actions"];
    let body = html! {
        h1 { "Limits" }
        (table("Limits", &heads, &rows, "There are no limits: `limits set` or a program sets one."))
        @if visit.can_act() { h2 { "Set a limit" } (form(&visit)) }
    };
    Ok(View { title: "Limits".to_owned(), section: Section::Limits, body })
}

fn row(visit: &Visit, limit: &LimitStatus) -> Markup {
    let any = || html! { span.faint { "any" } };
    html! {
        tr {
            th scope="row" {
                (limit.name)
                @if let Some(problem) = &limit.problem { " " span.badge.bad title=(problem) { "unreadable" } }
            }
            td.number { (limit.concurrency.map_or_else(any, |most| html! { (most) })) }
            td.number {
                @match (limit.rate, limit.period_ms) {
                    (Some(rate), Some(period)) => { (rate) " in " (duration(period)) }
                    (Some(rate), None) => (rate),
                    _ => (any()),
                }
            }
            td.number { @if let Some(burst) = limit.burst { (burst) } }
            (count(limit.held))
            (count(limit.waiting))
            td.text { (limit.holders.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ")) }
            td.text { (limit.waiters.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ")) }
            td { (button(visit, "limit-remove", "Remove", &[("name", &limit.name)])) }
        }
    }
}

fn form(visit: &Visit) -> Markup {
    html! {
        form.run method="post" action=(visit.link("/action", &[])) {
            input type="hidden" name="verb" value="limit-set";
            input type="hidden" name="back" value="/limits";
            label for="f-name" { "Name" }
            input #f-name name="name" required autocomplete="off";
            label for="f-concurrency" { "Calls at a time" }
            input #f-concurrency name="concurrency" type="number" min="1" placeholder="any";
            label for="f-rate" { "Calls in each period" }
            input #f-rate name="rate" type="number" min="1" placeholder="any";
            label for="f-period" { "Period" }
            input #f-period name="period" placeholder="such as 1s, 1m or 1h" autocomplete="off";
            label for="f-burst" { "Calls that may begin together" }
            input #f-burst name="burst" type="number" min="1" placeholder="1";
            button.primary { "Set" }
        }
    }
}

pub(super) async fn set(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let name = parse(wanted.need("name")?)?;
    let number = |field: &str| {
        let text = wanted.get(field);
        let wrong = |_| Failure::invalid(format!("`{field}` is not a whole number."));
        text.map(|text| text.parse::<u32>().map_err(wrong)).transpose()
    };
    let (concurrency, rate, burst) = (number("concurrency")?, number("rate")?, number("burst")?);
    let period = match wanted.get("period") {
        Some(text) => humantime::parse_duration(text)
            .map_err(|error| Failure::invalid(format!("The period is no time such as 1s: {error}.")))?,
        None => Duration::from_secs(1),
    };
    let mut limit = match (concurrency, rate) {
        (None, None) => {
            return Err(Failure::invalid("Give the calls at a time, or in each period, or both."));
        }
        (Some(most), None) => Limit::concurrent(most),
        (None, Some(rate)) => Limit::at_rate(rate, period),
        (Some(most), Some(rate)) => Limit::concurrent(most).rate(rate, period),
    };
    if let Some(burst) = burst {
        limit = limit.burst(burst);
    }
    visit.inspector().await?.set_limit(&name, &limit).await?;
    Ok(Done::new(format!("Set the limit {name}")))
}

pub(super) async fn remove(visit: &Visit, wanted: &Wanted) -> Result<Done, Failure> {
    let name = parse(wanted.need("name")?)?;
    match visit.inspector().await?.remove_limit(&name).await? {
        true => Ok(Done::new(format!("Removed the limit {name}"))),
        false => Err(Failure::not_found(format!("There is no limit {name} any more."))),
    }
}

fn parse(name: &str) -> Result<LimitName, Failure> {
    LimitName::parse(name).map_err(|error| Failure::invalid(error.to_string()))
}
