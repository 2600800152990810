//! Reads the calls that are enqueued.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::broker::MAX_SCHEDULED;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::arguments::Param;
use crate::protocol::call_id::CallId;
use crate::protocol::encode;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::protocol::value::describe_arguments;
use crate::task::Registry;
use crate::testing::arguments::{MOST, next, reader};
use crate::testing::run::SHOWN;
use crate::testing::value::Value;

/// How many messages are read at a time.
const PAGE: u64 = 500;

/// A call that waits in its queue, or is scheduled.
///
/// Its `Display` is for the messages of assertions: `mail: shop::mail::send("ann@example.org"), after 1m`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueuedCall {
    queue: String,
    message: Vec<u8>,
    after: Option<Duration>,
}

impl EnqueuedCall {
    /// The path of the task; empty if the message cannot be read.
    #[must_use]
    pub fn task(&self) -> &str {
        self.message().map_or("", |message| message.task())
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The id, if the call has one. A scheduled call always has one.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.message()?.id()
    }

    /// The number of its next attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.message().map_or(1, |message| message.attempts().saturating_add(1))
    }

    /// How long after it was enqueued, or after its last failed attempt, the call is due, in whole milliseconds, less what
    /// [`Redis::advance`](crate::testing::Redis::advance) took away. `None` if it waits in its queue.
    ///
    /// The id of a call tells when it was enqueued. Without such an id, the time is counted from now.
    #[must_use]
    pub fn after(&self) -> Option<Duration> {
        self.after
    }

    /// Decodes an argument; the first one is 0.
    ///
    /// # Panics
    /// There is no such argument, or it has another type.
    #[must_use]
    #[track_caller]
    pub fn argument<T: DeserializeOwned>(&self, index: usize) -> T {
        let read = || {
            let message = self.message()?;
            let mut reader = reader(&message, params(message.task()), MOST).ok()?;
            for _ in 0..index {
                next::<Value>(&mut reader)?;
            }
            next(&mut reader)
        };
        let ty = std::any::type_name::<T>();
        read().unwrap_or_else(|| panic!("expected argument {index} of {self} to be of type {ty}"))
    }

    pub(super) fn message(&self) -> Option<Message<'_>> {
        Message::decode(&self.message).ok()
    }
}

impl fmt::Display for EnqueuedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.queue)?;
        match self.message() {
            Some(message) => write!(f, "{}{}", message.task(), describe_arguments(&message, SHOWN))?,
            None => f.write_str("(no message)")?,
        }
        self.after.map_or(Ok(()), |after| write!(f, ", after {}", in_words(after)))
    }
}

/// `1m 5s`: in whole seconds where there are some.
fn in_words(time: Duration) -> humantime::FormattedDuration {
    let whole = Duration::from_secs(time.as_secs());
    humantime::format_duration(if whole.is_zero() { time } else { whole })
}

/// The parameters of a task, if this program has it.
pub(super) fn params(task: &str) -> Option<&'static [Param]> {
    Registry::collect().ok()?.get(task).map(|task| task.params)
}

/// All calls, by queue: first those that wait.
pub(super) async fn all(inspector: &Inspector) -> Result<Vec<EnqueuedCall>, Error> {
    let mut calls = Vec::new();
    for queue in inspector.queue_names().await? {
        waiting(inspector, &queue, &mut calls).await?;
        scheduled(inspector, &queue, &mut calls).await?;
        filling(inspector, &queue, &mut calls).await?;
    }
    Ok(calls)
}

/// The items of batches that fill, each as a call with a list of one.
async fn filling(
    inspector: &Inspector,
    queue: &QueueName,
    calls: &mut Vec<EnqueuedCall>,
) -> Result<(), Error> {
    let broker = inspector.broker();
    for batch in broker.batches(queue).await? {
        let task = batch.name.split(' ').next().unwrap_or_default();
        let after = Some(Duration::from_millis(batch.due_ms.saturating_sub(batch.since_ms)));
        let call = |item: Vec<u8>| EnqueuedCall {
            queue: queue.to_string(),
            message: encode::go_task(task, &[&[0x91], &item[..]].concat()),
            after,
        };
        calls.extend(broker.batch_items(queue, &batch.name).await?.into_iter().map(call));
    }
    Ok(())
}

async fn waiting(
    inspector: &Inspector,
    queue: &QueueName,
    calls: &mut Vec<EnqueuedCall>,
) -> Result<(), Error> {
    let keys = QueueKeys::new(queue);
    for page in 0.. {
        let messages = inspector.broker().waiting(&keys, page * PAGE, PAGE).await?;
        if messages.is_empty() {
            break;
        }
        let call = |message| EnqueuedCall { queue: queue.to_string(), message, after: None };
        calls.extend(messages.into_iter().map(call));
    }
    Ok(())
}

async fn scheduled(
    inspector: &Inspector,
    queue: &QueueName,
    calls: &mut Vec<EnqueuedCall>,
) -> Result<(), Error> {
    let (broker, keys) = (inspector.broker(), QueueKeys::new(queue));
    let now_ms = u64::try_from(broker.server_time(&keys).await?.as_millis()).unwrap_or(u64::MAX);
    let mut start = 0;
    while let Some(dues) = broker.dues(&keys, start, MAX_SCHEDULED as u64).await? {
        start += MAX_SCHEDULED as u64;
        let ids: Vec<CallId> = dues.iter().map(|(id, _)| *id).collect();
        let messages = broker.later(&keys, &ids).await?;
        for ((id, due_ms), message) in dues.into_iter().zip(messages) {
            let Some(message) = message else { continue };
            let since_ms = last_failed_ms(&message).or_else(|| id.made_ms()).unwrap_or(now_ms);
            let after = Some(Duration::from_millis(due_ms.saturating_sub(since_ms)));
            calls.push(EnqueuedCall { queue: queue.to_string(), message, after });
        }
    }
    Ok(())
}

fn last_failed_ms(message: &[u8]) -> Option<u64> {
    Some(Message::decode(message).ok()?.errors().last()?.at_ms)
}
