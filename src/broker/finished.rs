//! Lists finished calls that keep no record, the last ones of each queue, and reads that list.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::key_kind::{FINISHED_FIELD, begins_with};
use crate::broker::read::{Entry, StreamEntry};
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// How long an entry is kept: at most 7 days.
const MAX_AGE: Duration = Duration::from_secs(7 * 86_400);

/// A finished call, as it is listed.
#[derive(Debug)]
pub(crate) struct ListedCall<'a> {
    pub(crate) task: &'a str,
    /// `None` for a call without an id.
    pub(crate) id: Option<CallId>,
    /// The state in which the call ended.
    pub(crate) state: &'static str,
    /// The duration of its run; `None` if it did not run.
    pub(crate) took: Option<Duration>,
    /// The number of the last attempt that began; 0 if none did.
    pub(crate) attempt: u32,
    pub(crate) wire_id: &'a str,
    /// Who cancelled its run.
    pub(crate) by: Option<&'a str>,
}

impl Broker {
    /// Adds finished calls to the list of their queue, and drops all but the last `most` of it.
    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) async fn list_finished(
        &self,
        keys: &QueueKeys,
        most: usize,
        calls: &[ListedCall<'_>],
    ) -> Result<(), BrokerError> {
        let failed = |error| BrokerError::from_redis("list_finished", &error).of_key(Some(&keys.finished));
        let mut look = redis::pipe();
        look.cmd("XRANGE").arg(&keys.finished).arg("-").arg("+").arg("COUNT").arg(1).cmd("TIME");
        let (first, (now, _)): (Vec<Value>, (u64, u64)) =
            look.query_async(&mut self.commands.clone()).await.map_err(failed)?;
        if !first.is_empty() && !begins_with(&first, FINISHED_FIELD) {
            let text = format!("the stream `{}` belongs to another program", keys.finished);
            return Err(BrokerError::new("list_finished", BrokerErrorKind::WrongType, text));
        }
        let mut write = redis::pipe();
        for call in calls {
            write.cmd("XADD").arg(&keys.finished).arg("MAXLEN").arg(most).arg("*");
            write.arg(FINISHED_FIELD).arg(call.task).arg("state").arg(call.state);
            write.arg("attempt").arg(call.attempt).arg("slot").arg(call.wire_id);
            if let Some(took) = call.took {
                write.arg("took").arg(took.as_millis() as u64);
            }
            if let Some(id) = call.id {
                write.arg("id").arg(&id.as_bytes()[..]);
            }
            if let Some(by) = call.by {
                write.arg("by").arg(by);
            }
        }
        let oldest = now.saturating_mul(1000).saturating_sub(MAX_AGE.as_millis() as u64);
        write.cmd("XTRIM").arg(&keys.finished).arg("MINID").arg(oldest);
        write.cmd("PEXPIRE").arg(&keys.finished).arg(MAX_AGE.as_millis() as u64);
        write.query_async::<Value>(&mut self.commands.clone()).await.map(drop).map_err(failed)
    }

    /// Up to `count` entries with ids below `before` (`+` for all), newest first. Skips entries of other programs.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn finished(
        &self,
        keys: &QueueKeys,
        before: &str,
        count: usize,
    ) -> Result<Vec<StreamEntry>, BrokerError> {
        let end = if before == "+" { before.to_owned() } else { format!("({before}") };
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&keys.finished).arg(end).arg("-").arg("COUNT").arg(count);
        let entries: Vec<Entry> = self.read("finished", &command).await?;
        Ok(entries.into_iter().map(StreamEntry::from).collect())
    }
}
