//! Keeps what was done in dashboards.

use crate::broker::Broker;
use crate::broker::StreamEntry;
use crate::broker::error::BrokerError;
use crate::broker::read::Entry;
use crate::protocol::names::AUDIT;

/// About how many entries are kept.
const KEPT: usize = 1000;

impl Broker {
    /// Adds an entry: who did what with what, and how that ended.
    pub(crate) async fn audit(
        &self,
        by: &str,
        action: &str,
        target: &str,
        result: &str,
    ) -> Result<(), BrokerError> {
        let mut command = redis::cmd("XADD");
        command.arg(AUDIT).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        command
            .arg("by")
            .arg(by)
            .arg("action")
            .arg(action)
            .arg("target")
            .arg(target)
            .arg("result")
            .arg(result);
        self.read("audit", &command).await
    }

    /// The last entries, newest first.
    pub(crate) async fn audits(&self, count: usize) -> Result<Vec<StreamEntry>, BrokerError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(AUDIT).arg("+").arg("-").arg("COUNT").arg(count);
        let entries: Vec<Entry> = self.read("audits", &command).await?;
        Ok(entries.into_iter().map(StreamEntry::from).collect())
    }
}
