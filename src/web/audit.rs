//! Shows who did what in dashboards.

use std::sync::Arc;

use maud::html;

use super::failure::Failure;
use super::page::{Section, View, table};
use super::text::when;
use super::visit::Visit;
use crate::error::Error;

/// How many entries are shown.
const SHOWN: usize = 200;

impl Visit {
    /// Writes an action into the audit log.
    pub(super) async fn log(&self, action: &str, target: &str, result: &str) -> Result<(), Failure> {
        let broker = self.inspector().await?.broker();
        Ok(broker.audit(self.by(), action, target, result).await.map_err(Error::from)?)
    }
}

/// The last actions, newest first.
pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let entries = visit.inspector().await?.broker().audits(SHOWN).await.map_err(Error::from)?;
    let rows: Vec<_> = (entries.iter())
        .map(|entry| {
            let text = |name| String::from_utf8_lossy(entry.fields.get(name).map_or(&[][..], Vec::as_slice));
            let at_ms = entry.id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0);
            html! {
                tr {
                    td { (when(at_ms)) }
                    td { (text("by")) }
                    td { (text("action")) }
                    td.text { (text("target")) }
                    td.text { (text("result")) }
                }
            }
        })
        .collect();
    let body = html! {
        h1 { "Audit log" }
        p.hint { "What was done in dashboards, newest first. Redis keeps about the last 1,000 entries." }
        (table("Actions", &["when", "who", "action", "of what", "result"], &rows, "Nothing was done yet."))
    };
    Ok(View { title: "Audit log".to_owned(), section: Section::Audit, body })
}
