//! Follows a call that was enqueued: its state, its result, its cancellation.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::broker::Record;
use crate::client::Client;
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::decode::from_slice;
use crate::protocol::names::QueueName;

/// A call that was enqueued. `R` is what its task returns.
///
/// ```no_run
/// mod tasks {
///     #[delayed::task(keep = "1h")]
///     pub fn add(a: i64, b: i64) -> i64 { a + b }
/// }
///
/// # async fn example(client: delayed::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let handle = client.enqueue(tasks::add::call(1, 2)).await?;
/// let sum: i64 = handle.wait(Duration::from_secs(10)).await?;
/// # Ok(()) }
/// ```
pub struct Handle<R = ()> {
    client: Client,
    queue: QueueName,
    id: Option<CallId>,
    conflict: Option<Conflict>,
    returns: PhantomData<fn() -> R>,
}

/// Why a unique call was not enqueued as a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// Another call holds the lock, and is in this state. `None`: it has ended and its record is gone.
    Held(Option<CallState>),
    /// The call took the place of an earlier one, which was not due yet, and has its id.
    Replaced,
}

/// The progress that a run has reported.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done, from 0 to 1; `None` if the run has not reported it.
    pub share: Option<f64>,
    /// The text of the last report.
    pub text: String,
    /// The last lines of the log.
    pub log: Vec<String>,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The call keeps no record: it has no id, was enqueued without [`keep`](crate::Call::keep), or its record is gone.
    #[error(
        "the call has no record: enqueue it with `keep`, such as `#[delayed::task(keep = \"1h\")]` or `Call::keep`, and wait \
         before that time has passed"
    )]
    NotFound,
    /// The call has not ended in time. It continues.
    #[error("the call has not ended in time: it is {state}")]
    TimedOut {
        /// The state of the call.
        state: CallState,
    },
    /// The call became a dead letter.
    #[error("the call is dead ({reason}): {error}")]
    Dead {
        /// One word, such as `failed` or `timed_out`.
        reason: String,
        /// The error of the last attempt.
        error: String,
        /// The id of the dead letter.
        letter: String,
    },
    /// The call expired before it could run.
    #[error("the call expired before it could run")]
    Expired,
    /// The call was cancelled.
    #[error("the call was cancelled by {by}")]
    Cancelled {
        /// Who cancelled it.
        by: String,
    },
    /// The call succeeded, and its result is larger than the limit of 1 MiB.
    #[error(
        "the call succeeded, and its result has {bytes} bytes: at most 1 MiB is kept; return a reference to large data"
    )]
    TooLarge {
        /// The size of the encoded result.
        bytes: u64,
    },
    /// The call succeeded, and its result cannot be read as the type asked for, or was not encoded.
    #[error("the call succeeded, and its result cannot be read as {expected}: {reason}")]
    Result {
        /// The type asked for.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Redis could not be reached, or rejected the request.
    #[error(transparent)]
    Client(#[from] Error),
}

impl<R> Handle<R> {
    pub(super) fn new(
        client: Client,
        queue: QueueName,
        id: Option<CallId>,
        conflict: Option<Conflict>,
    ) -> Self {
        Self { client, queue, id, conflict, returns: PhantomData }
    }

    /// The id of the call. `None` for one without options, and for one of Python or Go that is not scheduled: see
    /// [`Call::with_id`](crate::Call::with_id).
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.id
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The queue of the call.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Whether the call is a new one. Otherwise a [unique](crate::Call::unique) call existed already, and this is its
    /// handle.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.conflict.is_none()
    }

    /// Why the call is not a new one.
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        self.conflict.as_ref()
    }

    /// The state of the call; `None` if it has no record, or its record has expired.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn state(&self) -> Result<Option<CallState>, Error> {
        let record = self.record().await?;
        Ok(record.as_ref().and_then(Record::state))
    }

    /// The result of the call, if it has ended.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); [`WaitError::TimedOut`] while it has not ended.
    pub async fn result(&self) -> Result<R, WaitError>
    where
        R: DeserializeOwned,
    {
        let record = self.record().await?.ok_or(WaitError::NotFound)?;
        outcome(&record).and_then(|result| read(&result))
    }

    /// Waits until the call has ended, at most for `timeout`, and returns what its task returned. Nothing is polled: the end is
    /// pushed, and no end is missed when the connection breaks.
    ///
    /// # Errors
    /// The call became a dead letter, expired, was cancelled, has not ended in time, or keeps no record; its result is of
    /// another type; or Redis cannot be used.
    pub async fn wait(&self, timeout: Duration) -> Result<R, WaitError>
    where
        R: DeserializeOwned,
    {
        self.wait_as(timeout).await
    }

    /// The same with the type of the result given here, for a handle without it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_as<T: DeserializeOwned>(&self, timeout: Duration) -> Result<T, WaitError> {
        let id = self.id.ok_or(WaitError::NotFound)?;
        let record = self.client.wait_for(&self.queue, id, timeout).await?.ok_or(WaitError::NotFound)?;
        outcome(&record).and_then(|result| read(&result))
    }

    /// The progress that the run has reported, and its log: see [`Context::progress`](crate::Context::progress). `None`
    /// if the call has no record, or its record has expired.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn progress(&self) -> Result<Option<Progress>, Error> {
        let record = self.record().await?;
        Ok(record.map(|record| Progress {
            share: record.text("progress").and_then(|share| share.parse().ok()),
            text: record.text("text").unwrap_or_default().to_owned(),
            log: record.text("log").unwrap_or_default().lines().map(str::to_owned).collect(),
        }))
    }

    /// Cancels the call, whatever its state, and returns the state in which it was found. A scheduled call is removed.
    /// A waiting call does not run. A running call is asked to end, or killed if it is isolated; it is not retried.
    ///
    /// # Errors
    /// Redis cannot be reached or used. Cancelling again is harmless.
    pub async fn cancel(&self) -> Result<Cancelled, Error> {
        self.client.cancel(self).await
    }

    /// Waits until the call has ended, at most for `timeout`, and returns its record as it is then; `None` if it has none.
    #[cfg(feature = "gateway")]
    pub(crate) async fn ended(&self, timeout: Duration) -> Result<Option<Record>, Error> {
        match self.id {
            Some(id) => self.client.wait_for(&self.queue, id, timeout).await,
            None => Ok(None),
        }
    }

    async fn record(&self) -> Result<Option<Record>, Error> {
        match self.id {
            Some(id) => self.client.record(&self.queue, id).await,
            None => Ok(None),
        }
    }
}

/// The encoded result of a call that has ended.
fn outcome(record: &Record) -> Result<Vec<u8>, WaitError> {
    let text = |name| record.text(name).unwrap_or_default().to_owned();
    match record.state() {
        Some(CallState::Succeeded) => {}
        Some(CallState::Dead) => {
            return Err(WaitError::Dead {
                reason: text("reason"),
                error: text("error"),
                letter: text("letter"),
            });
        }
        Some(CallState::Expired) => return Err(WaitError::Expired),
        Some(CallState::Cancelled) => return Err(WaitError::Cancelled { by: text("by") }),
        Some(state) => return Err(WaitError::TimedOut { state }),
        None => return Err(WaitError::NotFound),
    }
    if let Some(bytes) = record.number("too_large") {
        return Err(WaitError::TooLarge { bytes });
    }
    if let Some(reason) = record.text("unencodable") {
        return Err(WaitError::Result { expected: "MessagePack", reason: reason.to_owned() });
    }
    // A unique call without `keep` tells of its end, and of no result.
    Ok(record.bytes("result").map_or_else(|| vec![0xc0], <[u8]>::to_vec))
}

fn read<T: DeserializeOwned>(result: &[u8]) -> Result<T, WaitError> {
    from_slice(result).map_err(|error| WaitError::Result {
        expected: std::any::type_name::<T>(),
        reason: error.to_string(),
    })
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone(), self.queue.clone(), self.id, self.conflict.clone())
    }
}

impl<R> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("queue", &self.queue)
            .field("id", &self.id)
            .field("conflict", &self.conflict)
            .finish_non_exhaustive()
    }
}
