//! Shows who did what in dashboards, and what was refused.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use maud::html;

use super::failure::Failure;
use super::page::{Section, View, table};
use super::shared::Shared;
use super::text::{cut, number, when};
use super::visit::Visit;
use crate::broker::AuditLog;
use crate::error::Error;
use crate::inspect::order;

/// How many entries are shown.
const SHOWN: usize = 200;
/// Maximum length of each part of a refusal, in characters.
const KEPT: usize = 200;

/// The name in the log of one who is refused before a login.
pub(super) const NOBODY: &str = "nobody";

impl Visit {
    /// Writes an action into the audit log.
    pub(super) async fn log(&self, action: &str, target: &str, result: &str) -> Result<(), Failure> {
        self.shared.audit(AuditLog::Done, self.by(), action, target, result).await
    }
}

impl Shared {
    async fn audit(
        &self,
        log: AuditLog,
        by: &str,
        action: &str,
        target: &str,
        result: &str,
    ) -> Result<(), Failure> {
        let broker = self.inspector().await?.broker();
        Ok(broker.audit(log, by, action, target, result).await.map_err(Error::from)?)
    }

    /// Writes what was refused into the audit log, without keeping the one who is refused waiting.
    pub(super) fn refused(self: &Arc<Self>, by: &str, action: &str, target: &str, why: &str) {
        let Some(others) = self.refusals.admit(Instant::now()) else { return };
        let others = match others {
            0 => String::new(),
            others => format!(" (and {} other requests before)", number(others)),
        };
        let [by, action, target] = [by, action, target].map(|text| cut(text, KEPT));
        let (shared, result) = (Arc::clone(self), format!("refused: {}{others}", cut(why, KEPT)));
        tokio::spawn(async move {
            // Redis may be away: then nothing can be done either.
            let _ = shared.audit(AuditLog::Refused, &by, &action, &target, &result).await;
        });
    }
}

/// The last actions and refusals, newest first.
pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let mut entries = Vec::new();
    for log in [AuditLog::Done, AuditLog::Refused] {
        entries.extend(visit.inspector().await?.broker().audits(log, SHOWN).await.map_err(Error::from)?);
    }
    entries.sort_by_key(|entry| Reverse(order(&entry.id)));
    entries.truncate(SHOWN);
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
        p.hint { "What was done in dashboards, and what they refused, newest first. Redis keeps about the last 1,000 and 200 of these." }
        (table("Actions", &["when", "who", "action", "of what", "result"], &rows, "Nothing was done yet."))
    };
    Ok(View { title: "Audit log".to_owned(), section: Section::Audit, body })
}
