//! Lists scheduled calls, cancels them, and runs them early.

use serde::Serialize;

use crate::broker::MAX_SCHEDULED;
use crate::error::Error;
use crate::inspect::{Inspector, MessageSummary};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// A call in the timetable of its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduledCall {
    /// The id of the call.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// `scheduled`, or `retrying` after a failed attempt.
    pub state: &'static str,
    /// When the call is due, in milliseconds since 1970 by the server's clock.
    pub due_ms: u64,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

impl ScheduledCall {
    fn new(queue: &QueueName, id: CallId, due_ms: u64, message: &[u8], limit: usize) -> Self {
        let message = MessageSummary::of(message, limit);
        let state = if message.attempts > 0 { "retrying" } else { "scheduled" };
        Self { id: id.to_string(), queue: queue.to_string(), state, due_ms, message }
    }

    /// The id, as [`Inspector::cancel`] takes it.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        CallId::parse(&self.id).ok()
    }
}

impl Inspector {
    /// Returns up to `count` scheduled calls, earliest first, and only those of `task` if it is given. Arguments are cut at `limit`
    /// characters. Reads 500 calls at a time.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the timetable has a wrong type.
    pub async fn scheduled(
        &self,
        queue: &QueueName,
        task: Option<&str>,
        count: usize,
        limit: usize,
    ) -> Result<Vec<ScheduledCall>, Error> {
        let (keys, mut calls) = (QueueKeys::new(queue), Vec::new());
        let mut start = 0;
        while calls.len() < count
            && let Some(dues) = self.broker.dues(&keys, start, MAX_SCHEDULED as u64).await?
        {
            start += MAX_SCHEDULED as u64;
            let ids: Vec<CallId> = dues.iter().map(|(id, _)| *id).collect();
            let messages = self.broker.later(&keys, &ids).await?;
            let found = dues.into_iter().zip(messages).filter_map(|((id, due_ms), message)| {
                let call = ScheduledCall::new(queue, id, due_ms, &message?, limit);
                task.is_none_or(|task| call.message.task.as_deref() == Some(task)).then_some(call)
            });
            calls.extend(found.take(count - calls.len()));
        }
        Ok(calls)
    }

    /// Returns one scheduled call, or `None` if it is not in the timetable. Its arguments are cut at `limit` characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the timetable has a wrong type.
    pub async fn scheduled_call(
        &self,
        queue: &QueueName,
        id: CallId,
        limit: usize,
    ) -> Result<Option<ScheduledCall>, Error> {
        let keys = QueueKeys::new(queue);
        let Some(due_ms) = self.broker.due(&keys, id).await? else { return Ok(None) };
        let message = self.broker.later(&keys, &[id]).await?.pop().flatten();
        Ok(message.map(|message| ScheduledCall::new(queue, id, due_ms, &message, limit)))
    }

    /// Cancels calls, whatever their states, and returns the state in which each was found. A scheduled call is removed. A waiting
    /// one does not run. A running one is asked to end, and killed if it runs in a process of its own; it is not retried. `by` is
    /// who cancels, at most 200 bytes without control characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type. Some calls may have been cancelled before the error;
    /// cancelling them again is harmless.
    pub async fn cancel(&self, queue: &QueueName, ids: &[CallId], by: &str) -> Result<Vec<Cancelled>, Error> {
        let by: String = by.chars().filter(|character| !character.is_control()).take(200).collect();
        Ok(self.broker.cancel_anywhere(queue, ids, &by).await?)
    }

    /// Moves scheduled calls to their queue before they are due. Returns how many there were.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type. Messages moved before the error stay moved.
    pub async fn run_now(&self, queue: &QueueName, ids: &[CallId]) -> Result<u64, Error> {
        let (keys, mut done) = (QueueKeys::new(queue), 0);
        for ids in ids.chunks(MAX_SCHEDULED) {
            done += self.broker.run_now(&keys, ids).await?;
        }
        Ok(done)
    }
}
