//! Keeps what was done in dashboards, and what they have refused.

use crate::broker::Broker;
use crate::broker::StreamEntry;
use crate::broker::error::BrokerError;
use crate::broker::read::Entry;
use crate::protocol::names::{AUDIT, REFUSED};

/// A log of the dashboards. Each has a stream of its own, so that many refusals do not push out what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditLog {
    /// Actions that were carried out, or tried.
    Done,
    /// Attempts that were refused.
    Refused,
}

impl AuditLog {
    /// Its stream, and about how many entries are kept.
    fn stream(self) -> (&'static str, usize) {
        match self {
            Self::Done => (AUDIT, 1000),
            Self::Refused => (REFUSED, 200),
        }
    }
}

impl Broker {
    /// Adds an entry: who did what with what, and how that ended.
    pub(crate) async fn audit(
        &self,
        log: AuditLog,
        by: &str,
        action: &str,
        target: &str,
        result: &str,
    ) -> Result<(), BrokerError> {
        let (stream, kept) = log.stream();
        let mut command = redis::cmd("XADD");
        command.arg(stream).arg("MAXLEN").arg("~").arg(kept).arg("*");
        for (name, value) in [("by", by), ("action", action), ("target", target), ("result", result)] {
            command.arg(name).arg(value);
        }
        self.read("audit", &command).await
    }

    /// The last entries, newest first.
    pub(crate) async fn audits(&self, log: AuditLog, count: usize) -> Result<Vec<StreamEntry>, BrokerError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(log.stream().0).arg("+").arg("-").arg("COUNT").arg(count);
        let entries: Vec<Entry> = self.read("audits", &command).await?;
        Ok(entries.into_iter().map(StreamEntry::from).collect())
    }
}
