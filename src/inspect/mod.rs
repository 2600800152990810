//! Typed reads of queues, workers and dead letters, and the actions of an operator: see [`Inspector`].
//!
//! All results are `Serialize`, with the field names that the command line uses with `--json`.

mod batches;
mod calls;
mod consistency;
mod dead;
mod flows;
mod health;
mod history;
mod kill;
mod limits;
mod locks;
mod messages;
mod orders;
mod outbox;
mod pause;
#[cfg(feature = "periodic")]
mod periodic;
mod portion;
mod queues;
mod unregistered;
mod workers;

pub use self::batches::BatchStatus;
pub use self::calls::{CallFilter, CallRecord};
#[cfg(feature = "cli")]
pub(crate) use self::dead::is_letter_id;
#[cfg(any(feature = "cli", feature = "web"))]
pub(crate) use self::dead::order;
pub use self::dead::{DeadLetter, Handled, Selection};
pub use self::flows::FlowStatus;
pub use self::health::{Finding, Level};
pub use self::history::{Deployment, History, HistoryBucket, HistorySpan, TaskHistory};
pub use self::kill::{Ending, KillError, Killed};
pub use self::limits::LimitStatus;
pub use self::messages::{MessageSummary, Waiting};
pub use self::pause::{Pause, PauseChange};
#[cfg(feature = "periodic")]
pub use self::periodic::{PeriodicRun, PeriodicStatus, PeriodicTick};
pub use self::queues::{QueueList, QueueStatus};
#[cfg(feature = "web")]
pub(crate) use self::workers::WorkerCounts;
pub use self::workers::{Running, WorkerKind, WorkerStatus};
pub use crate::protocol::info::{WorkerInfo, WorkerOrder, WorkerPhase};
pub use crate::protocol::message::FailedAttempt;
pub use crate::protocol::value::PlainValue;

use crate::broker::Broker;
use crate::config::{Config, RedisConfig};
use crate::error::Error;

/// Reads queues, workers and dead letters, and moves or deletes messages.
///
/// ```no_run
/// # async fn example() -> Result<(), delayed::Error> {
/// let inspector = delayed::Inspector::connect("redis://127.0.0.1:6379").await?;
/// for queue in inspector.queues().await? {
///     println!("{}: {} waiting, {} dead", queue.queue, queue.waiting, queue.dead);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    broker: Broker,
}

/// Reports progress: the number of items that are done, and about how many there are.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

impl Inspector {
    /// Connects to the Redis at `url`.
    ///
    /// # Errors
    /// The address is invalid, or Redis cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::with_config(&Config { redis: RedisConfig::new(url), ..Config::default() }).await
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// The address is invalid, or Redis cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        Ok(Self { broker: Broker::connect(&config.redis).await? })
    }

    /// Its broker, for what only a test or a gateway reads or does.
    #[cfg(any(feature = "testing", feature = "gateway"))]
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }
}
