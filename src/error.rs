//! The few ways in which we can fail, over all rooms.

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::config::ConfigError;
use crate::isolation::Isolation;
use crate::protocol::encode::EncodeError;
use crate::protocol::names::NameError;
#[cfg(feature = "worker")]
use crate::runner::ZygoteError;
use crate::task::RegistryError;

/// What can go wrong when a program talks to its queues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, or did not do what it was asked.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A queue's name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No tasks, two of one name, or a state is missing.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A call could not be written: its arguments, or the path of its task.
    #[error("the call of `{task}` cannot be written")]
    Encode {
        /// The task's path.
        task: String,
        /// Why.
        #[source]
        source: EncodeError,
    },
    /// A message is larger than the limit; it was not sent.
    #[error(
        "the call of `{task}` has {size} bytes, the limit is {limit}: send large data by reference, or raise \
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
    /// A task is to run in a process of its own, and there is nobody to fork one.
    #[error(
        "the task `{task}` is to run in a process of its own (isolation = \"{isolation}\"), and the worker has no zygote: \
         call `Zygote::builder().start()` first in a plain `fn main`, and give it to `Worker::builder(…).zygote(…)`; \
         `delayed::main()` does that by itself"
    )]
    NoZygote {
        /// The task's name.
        task: &'static str,
        /// How it is to be isolated.
        isolation: Isolation,
    },
    /// The zygote could not be started.
    #[cfg(feature = "worker")]
    #[error(transparent)]
    Zygote(#[from] ZygoteError),
    /// The process that forks children was killed, and they with it. What they had begun is brought back by a sweeper, which
    /// counts a death; the rest was put back.
    #[error(
        "the zygote was killed, and with it the processes of its tasks: a sweeper brings back what they had begun; \
         this process has threads and cannot fork another one: start the worker again"
    )]
    ZygoteDied,
    /// The operating system refused something.
    #[error("the operating system refused")]
    Io(#[source] std::io::Error),
}

impl Error {
    /// Whether the call may have been applied although it failed: then to repeat it may run it twice.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        matches!(self, Self::Broker(error) if error.may_have_been_applied())
    }

    /// Whether the same call may succeed later, without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Broker(error) if error.is_retryable())
    }

    /// The kind of trouble with Redis, when that is what it is.
    #[must_use]
    pub fn broker_kind(&self) -> Option<BrokerErrorKind> {
        match self {
            Self::Broker(error) => Some(error.kind()),
            _ => None,
        }
    }
}
