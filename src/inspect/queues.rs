//! Which queues are there, and how full are they?

use std::collections::BTreeSet;

use serde::Serialize;

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// Keys by which a queue is found that nobody registered.
pub(super) const BESIDE: [(&str, &str); 3] =
    [("_processing", "hash"), ("_noti", "list"), ("_dead", "stream")];

/// How full a queue is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its name.
    pub queue: String,
    /// Messages that wait.
    pub waiting: u64,
    /// Notifications: as many as messages, but for the one that a worker may hold in hand.
    pub tokens: u64,
    /// Messages that workers own.
    pub owned: u64,
    /// Dead letters.
    pub dead: u64,
    /// Messages that took a worker down and are not buried yet.
    pub suspects: u64,
    /// Workers of ours that serve it now.
    pub workers: u64,
    /// Why it cannot be read; all numbers are 0 then.
    pub problem: Option<String>,
}

impl Inspector {
    /// All queues that somebody registered, or that have something in hand, sorted by name.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let mut all = Vec::new();
        for queue in self.queue_names().await? {
            all.push(self.queue(&queue).await?);
        }
        Ok(all)
    }

    /// One queue.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn queue(&self, queue: &QueueName) -> Result<QueueStatus, Error> {
        let (numbers, problem) = match self.numbers(queue).await {
            Ok(numbers) => (numbers, None),
            Err(error) if error.kind() == BrokerErrorKind::WrongType => ([0; 6], Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let [waiting, tokens, owned, dead, suspects, workers] = numbers;
        let queue = queue.to_string();
        Ok(QueueStatus { queue, waiting, tokens, owned, dead, suspects, workers, problem })
    }

    async fn numbers(&self, queue: &QueueName) -> Result<[u64; 6], BrokerError> {
        let keys = QueueKeys::new(queue);
        let [waiting, tokens, owned, dead, suspects] = self.broker.lengths(&keys).await?;
        let now = self.server_ms().await?;
        let leases = self.broker.workers(&keys).await?;
        let workers = leases.iter().filter(|(_, end)| *end > now).count() as u64;
        Ok([waiting, tokens, owned, dead, suspects, workers])
    }

    pub(super) async fn queue_names(&self) -> Result<BTreeSet<QueueName>, BrokerError> {
        self.broker.find_queues(&BESIDE).await
    }

    /// The server's clock in milliseconds since 1970.
    pub(super) async fn server_ms(&self) -> Result<u64, BrokerError> {
        let now = self.broker.server_time().await?;
        Ok(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }
}
