//! Shows what is wrong with Redis, queues and workers, and what to do about it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use maud::{Markup, html};

use super::failure::Failure;
use super::page::{Section, View, table};
use super::shared::Shared;
use super::visit::Visit;
use crate::inspect::Level;

pub(super) async fn findings(visit: Arc<Visit>) -> Result<View, Failure> {
    let mut findings = visit.inspector().await?.check().await?;
    let rank = |level| match level {
        Level::Problem => 0,
        Level::Warning => 1,
        _ => 2,
    };
    findings.sort_by_key(|finding| rank(finding.level));
    let rows: Vec<Markup> = (findings.iter())
        .map(|finding| {
            let (name, class) = match finding.level {
                Level::Problem => ("problem", "bad"),
                Level::Warning => ("warning", "warn"),
                _ => ("ok", "good"),
            };
            html! {
                tr {
                    td { span class={ "badge " (class) } { (name) } }
                    td { (finding.check) }
                    td { (finding.queue.as_deref().unwrap_or_default()) }
                    td.text { (finding.text) }
                    td.text { (finding.fix.as_deref().unwrap_or_default()) }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Doctor" }
        (table("Findings", &["level", "check", "queue", "what was found", "what to do"], &rows, "Nothing was found."))
    };
    Ok(View { title: "Doctor".to_owned(), section: Section::Doctor, body })
}

/// Whether Redis answers.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    let answers = match shared.inspector().await {
        Ok(inspector) => inspector.ping().await.is_ok(),
        Err(_) => false,
    };
    match answers {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "Redis does not answer\n"),
    }
}
