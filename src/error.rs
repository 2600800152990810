//! The error of the public API.

use std::fmt;

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::config::ConfigError;
use crate::isolation::Isolation;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::EncodeError;
use crate::protocol::limit::LimitError;
use crate::protocol::names::{NameError, QueueName};
#[cfg(feature = "worker")]
use crate::runner::ZygoteError;
use crate::task::RegistryError;
use crate::task::error::chain;

/// The error of a program that talks to its queues.
///
/// `Debug` prints what `Display` does, with its causes: that is what a `main` shows that returns this error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, or rejected the request.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The name of a limit is invalid, or nothing could run under it.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A queue name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There are no tasks, two tasks have one name, or a state is missing.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A call could not be encoded: its arguments, or the path of its task.
    #[error("the call to `{task}` cannot be encoded")]
    Encode {
        /// The task's path.
        task: String,
        /// The reason.
        #[source]
        source: EncodeError,
    },
    /// A message is larger than the limit; it was not sent.
    #[error(
        "the call to `{task}` has {size} bytes, but the limit is {limit}: send large data by reference, or raise \
        client.max_message"
    )]
    TooLarge {
        /// The task's path.
        task: String,
        /// The message's size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The timetable of the queue already has a call with this id.
    #[error(
        "a call with the id {id} is already scheduled in {queue}: this call was not enqueued; use another id"
    )]
    AlreadyScheduled {
        /// The id.
        id: CallId,
        /// The queue.
        queue: QueueName,
    },
    /// A call with this id exists: it keeps a record, or is scheduled.
    #[error(
        "a call with the id {id} exists in {queue} and is {state}: this call was not enqueued; use another id"
    )]
    Exists {
        /// The id.
        id: CallId,
        /// The queue.
        queue: QueueName,
        /// The state of the call that exists, such as `succeeded`.
        state: String,
    },
    /// As many calls wait in the queue as [`Call::max_len`](crate::Call::max_len) allows.
    #[error(
        "{waiting} calls wait in {queue}, which is the maximum: this call was not enqueued; try again later, or start \
        more workers"
    )]
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// How many wait.
        waiting: u64,
    },
    /// A layer of the client rejected the call; it was not sent.
    #[error("the call was refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// A task needs a process of its own, and the worker has no zygote.
    #[error(
        "the task `{task}` needs a separate process (isolation = \"{isolation}\"), but the worker has no zygote: call \
        `Zygote::builder().start()` first in a plain `fn main`, and pass it to `Worker::builder(…).zygote(…)`; \
        `delayed::main()` does this by itself"
    )]
    NoZygote {
        /// The task's name.
        task: &'static str,
        /// The isolation of the task.
        isolation: Isolation,
    },
    /// The zygote could not be started.
    #[cfg(feature = "worker")]
    #[error(transparent)]
    Zygote(#[from] ZygoteError),
    /// The zygote was killed, and its children with it. A sweeper counts a death and requeues the calls that had begun; the others
    /// were put back.
    #[error(
        "the zygote was killed, and with it the processes of its tasks: a sweeper requeues the calls that had begun; \
        this process has threads, so it cannot fork another zygote: restart the worker"
    )]
    ZygoteDied,
    /// A system call failed.
    #[error("a system call failed")]
    Io(#[source] std::io::Error),
}

/// As a program that returns it from `main` prints it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self))
    }
}

impl Error {
    /// The error with which a layer of a client refuses a call: see [`Client::layer`](crate::Client::layer).
    #[must_use]
    pub fn refused(reason: impl fmt::Display) -> Self {
        Self::Refused { reason: reason.to_string() }
    }

    /// Whether the call may have been applied although it failed. If so, repeating it may run it twice.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        matches!(self, Self::Broker(error) if error.may_have_been_applied())
    }

    /// Whether the same call may succeed later, without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Broker(error) if error.is_retryable())
    }

    /// The kind of the Redis error, if it is one.
    #[must_use]
    pub fn broker_kind(&self) -> Option<BrokerErrorKind> {
        match self {
            Self::Broker(error) => Some(error.kind()),
            _ => None,
        }
    }
}
