//! What goes on in the queues, and how does an operator step in? Typed reads, and the verbs of the command line.
//!
//! Everything that is read here is `Serialize`; the names of fields are those of `--json`, which `docs/cli.md` lists.

mod consistency;
mod dead;
mod health;
mod kill;
mod messages;
mod queues;
mod unfound;
mod workers;

pub use self::dead::{DeadLetter, Handled, Selection, is_letter_id};
pub use self::health::{Finding, Level};
pub use self::kill::{Ending, KillError, Killed};
pub use self::messages::{MessageSummary, Waiting};
pub use self::queues::QueueStatus;
pub use self::workers::{Running, WorkerKind, WorkerStatus};

use crate::broker::Broker;
use crate::config::{Config, RedisConfig};
use crate::error::Error;

/// Looks into queues, and moves what stands in them.
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

/// Told of progress: how many are done, and how many there are about.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

impl Inspector {
    /// Connects to the Redis at `url`.
    ///
    /// # Errors
    /// An address that is not understood, or a Redis that cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::with_config(&Config { redis: RedisConfig::new(url), ..Config::default() }).await
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// An address that is not understood, or a Redis that cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        Ok(Self { broker: Broker::connect(&config.redis).await? })
    }
}
