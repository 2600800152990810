//! Reads the timetable of a queue: calls that are scheduled for later.

#[cfg(feature = "testing")]
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Up to `count` ids in the timetable, earliest first, without the first `start`, and when each is due, in milliseconds
    /// since 1970. Skips entries that are not calls. `None` if there are no more.
    pub(crate) async fn dues(
        &self,
        keys: &QueueKeys,
        start: u64,
        count: u64,
    ) -> Result<Option<Vec<(CallId, u64)>>, BrokerError> {
        let mut command = redis::cmd("ZRANGE");
        let last = start.saturating_add(count).saturating_sub(1);
        command.arg(&keys.due).arg(start).arg(last).arg("WITHSCORES");
        let members: Vec<(Vec<u8>, f64)> = self.read("scheduled", &command).await?;
        if members.is_empty() {
            return Ok(None);
        }
        let call = |(member, due): (Vec<u8>, f64)| {
            let id = member.strip_prefix(b"c").and_then(|id| <[u8; 16]>::try_from(id).ok())?;
            Some((CallId::from_bytes(id), due.max(0.0) as u64))
        };
        Ok(Some(members.into_iter().filter_map(call).collect()))
    }

    /// When the earliest entry of the timetable is due, in milliseconds since 1970; `None` if it is empty.
    pub(crate) async fn next_due(&self, keys: &QueueKeys) -> Result<Option<u64>, BrokerError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(&keys.due).arg(0).arg(0).arg("WITHSCORES");
        let first: Vec<(Vec<u8>, f64)> = self.read("scheduled", &command).await?;
        Ok(first.first().map(|(_, due)| due.max(0.0) as u64))
    }

    /// When a call is due, in milliseconds since 1970; `None` if it is not in the timetable.
    pub(crate) async fn due(&self, keys: &QueueKeys, id: CallId) -> Result<Option<u64>, BrokerError> {
        let mut command = redis::cmd("ZSCORE");
        command.arg(&keys.due).arg([b"c", &id.as_bytes()[..]].concat());
        let due: Option<f64> = self.read("scheduled", &command).await?;
        Ok(due.map(|due| due.max(0.0) as u64))
    }

    /// Makes everything in the timetable due earlier by this much, and has the processes that move calls check again.
    #[cfg(feature = "testing")]
    pub(crate) async fn advance(&self, keys: &QueueKeys, by: Duration) -> Result<(), BrokerError> {
        let mut command = redis::cmd("ZRANGE");
        let members: Vec<Vec<u8>> = self.read("advance", command.arg(&keys.due).arg(0).arg(-1)).await?;
        let mut pipe = redis::pipe();
        // The ticks of periodic tasks are moments that are fixed.
        for member in members.into_iter().filter(|member| !member.starts_with(b"p")) {
            // Does nothing for a call that was moved meanwhile.
            pipe.cmd("ZADD").arg(&keys.due).arg("XX").arg("INCR").arg(-(by.as_millis() as f64)).arg(member);
        }
        pipe.cmd("PUBLISH").arg(&keys.due_channel).arg(0);
        let advanced = pipe.query_async::<()>(&mut self.commands.clone()).await;
        advanced.map_err(|error| BrokerError::from_redis("advance", &error))
    }

    /// The messages of calls in the timetable; `None` for a call that is gone.
    pub(crate) async fn later(
        &self,
        keys: &QueueKeys,
        ids: &[CallId],
    ) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.later);
        for id in ids {
            command.arg(&id.as_bytes()[..]);
        }
        self.read("scheduled", &command).await
    }
}
