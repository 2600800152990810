//! Cancels calls, and runs scheduled ones early.

use crate::broker::MAX_SCHEDULED;
use crate::error::Error;
use crate::flow::Flows;
use crate::inspect::Inspector;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

impl Inspector {
    /// Cancels calls, whatever their states, and returns the state in which each was found. A scheduled call is
    /// removed. A waiting call does not run. A running call is asked to end, or killed if it is isolated; it is not
    /// retried. `by` names who cancels it, at most 200 bytes without control characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type. Some calls may have been cancelled before the error;
    /// cancelling them again is harmless.
    pub async fn cancel(&self, queue: &QueueName, ids: &[CallId], by: &str) -> Result<Vec<Cancelled>, Error> {
        let by: String = by.chars().filter(|character| !character.is_control()).take(200).collect();
        Ok(Flows::new(self.broker.clone()).cancel_calls(queue, ids, &by).await?)
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
