//! Waits for the end of a call.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::time::timeout_at;

use crate::broker::{BrokerError, Record};
use crate::error::Error;
use crate::inspect::Inspector;
use crate::inspect::calls::CallRecord;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys;
use crate::protocol::names::QueueName;

/// How long to wait before trying again where Redis cannot be reached.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest wait. A clock cannot show an end of all times.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What a wait has heard.
enum Heard {
    /// The call has ended, or the time is over: its record as it is then.
    Over(Option<Record>),
    /// Nothing: the connection broke.
    Nothing,
}

impl Inspector {
    /// Waits until a call has ended, at most for `timeout`, and returns it as it is then; `None` if it has no record. Nothing is
    /// polled: the end is pushed, on a connection that is made for this wait, and no end is missed when that breaks.
    ///
    /// # Errors
    /// Redis cannot be used, or cannot be reached in time.
    pub async fn wait(
        &self,
        queue: &QueueName,
        id: CallId,
        timeout: Duration,
    ) -> Result<Option<CallRecord>, Error> {
        let end = Instant::now() + timeout.min(LONGEST);
        loop {
            match self.listen(queue, id, end).await {
                Ok(Heard::Over(record)) => {
                    return Ok(record.and_then(|record| CallRecord::of_record(queue, id, &record)));
                }
                // The record says what was missed.
                Ok(Heard::Nothing) => {}
                Err(error) if error.is_retryable() && Instant::now() + PAUSE < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits as long as the connection lasts.
    async fn listen(&self, queue: &QueueName, id: CallId, end: Instant) -> Result<Heard, BrokerError> {
        let channel = keys::record(queue, id);
        let (listener, mut ends) = self.broker.listen_to_records().await?;
        listener.subscribe(&channel).await?;
        // Only now: what has ended before is in the record, and what ends from here on is heard.
        let before = self.broker.record(queue, id).await?;
        if before.as_ref().and_then(Record::state).is_none_or(CallState::is_final) {
            return Ok(Heard::Over(before));
        }
        let Ok(heard) = timeout_at(end.into(), ends.next()).await else {
            return self.broker.record(queue, id).await.map(Heard::Over);
        };
        let Some((_, Some(ended))) = heard else { return Ok(Heard::Nothing) };
        // The record has more than was published. That of a call which is only unique is gone.
        let after = self.broker.record(queue, id).await?;
        Ok(Heard::Over(after.or(Some(ended))))
    }
}
