//! Lists queues, with the numbers of their messages and workers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use crate::broker::{BrokerError, BrokerErrorKind, KeyKind, Pace, ScannedQueues};
use crate::error::Error;
use crate::inspect::workers::{SOON_MS, holds};
use crate::inspect::{Inspector, Pause};
use crate::protocol::info::WorkerInfo;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};

/// Suffixes of keys by which an unregistered queue is found.
const REGISTERED_BY: [KeyKind; 3] = [KeyKind::Processing, KeyKind::Notifications, KeyKind::Dead];
/// How long to scan for unregistered queues.
const SCAN: Duration = Duration::from_millis(250);

/// Queues, and whether they are complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueList {
    /// The queues, sorted by name.
    pub queues: Vec<QueueStatus>,
    /// Whether all keys of the database were scanned for unregistered queues.
    pub is_complete: bool,
}

/// The state of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The name.
    pub queue: String,
    /// Waiting messages.
    pub waiting: u64,
    /// When the oldest waiting message was enqueued, in milliseconds since 1970 by its producer's clock. `None` where it does not
    /// say, such as one without an id.
    pub oldest_ms: Option<u64>,
    /// Notification tokens: one per waiting message, except for a token that a worker holds.
    pub tokens: u64,
    /// Messages that workers own.
    pub owned: u64,
    /// Scheduled calls, including failed calls that wait for their next attempt.
    pub scheduled: u64,
    /// When the earliest entry of its timetable is due, in milliseconds since 1970 by the server's clock: a scheduled call, a
    /// periodic task or a batch that fills. An entry that has been due for more than a moment means that no process moves it.
    pub next_due_ms: Option<u64>,
    /// Dead letters.
    pub dead: u64,
    /// Suspects: messages that took workers down and are not buried.
    pub suspects: u64,
    /// Workers that serve the queue; those of Python and Go only while they own a message.
    pub workers: u64,
    /// The pause of the queue, if it is paused.
    pub paused: Option<Pause>,
    /// Why the queue cannot be read, or not all of it; what cannot be read is 0 then.
    pub problem: Option<String>,
}

impl Inspector {
    /// Returns all registered queues, and those found by a token, an owned message or a dead letter, sorted by name. In a database
    /// with very many keys, some of the latter are missing: see [`list_queues`](Self::list_queues).
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        self.list_queues(Some(SCAN)).await.map(|list| list.queues)
    }

    /// Returns the queues, and whether they are complete. Scans for unregistered queues for about this time, or, if it is `None`,
    /// until all keys of the database were scanned.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn list_queues(&self, scan: Option<Duration>) -> Result<QueueList, Error> {
        let names = self.broker.registered_queues().await?;
        let mut found = self.scan(scan.unwrap_or(Duration::MAX)).await?;
        found.queues.extend(names.iter().filter_map(|name| QueueName::parse(name).ok()));
        let mut queues = Vec::with_capacity(found.queues.len());
        for queue in &found.queues {
            queues.push(self.queue(queue).await?);
        }
        Ok(QueueList { queues, is_complete: found.is_complete })
    }

    /// Returns one queue.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn queue(&self, queue: &QueueName) -> Result<QueueStatus, Error> {
        let (numbers, mut problem) = match self.numbers(queue).await {
            Ok(numbers) => (numbers, None),
            Err(error) if error.kind() == BrokerErrorKind::WrongType => ([0; 7], Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let next_due_ms = match self.broker.next_due(&QueueKeys::new(queue)).await {
            // What waits can be read all the same. `doctor` names the key.
            Err(error) if error.kind() == BrokerErrorKind::WrongType => None,
            next => next?,
        };
        let [waiting, tokens, owned, dead, suspects, scheduled, workers] = numbers;
        let oldest_ms = if waiting > 0 { self.oldest_ms(queue).await? } else { None };
        let paused = match self.broker.paused(&QueueKeys::new(queue)).await {
            Err(error) if error.kind() == BrokerErrorKind::WrongType => {
                problem.get_or_insert(error.to_string());
                None
            }
            paused => paused?.map(Pause::from),
        };
        let queue = queue.to_string();
        Ok(QueueStatus {
            queue,
            waiting,
            oldest_ms,
            tokens,
            owned,
            scheduled,
            next_due_ms,
            dead,
            suspects,
            workers,
            paused,
            problem,
        })
    }

    /// When the next message of a queue was enqueued, by the time in its id. Reads that message alone.
    async fn oldest_ms(&self, queue: &QueueName) -> Result<Option<u64>, BrokerError> {
        let next = self.broker.waiting(&QueueKeys::new(queue), 0, 1).await?;
        let message = next.first().and_then(|bytes| Message::decode(bytes).ok());
        Ok(message.and_then(|message| message.id()?.made_ms()))
    }

    async fn numbers(&self, queue: &QueueName) -> Result<[u64; 7], BrokerError> {
        let keys = QueueKeys::new(queue);
        let [waiting, tokens, owned, dead, suspects, scheduled] = self.broker.lengths(&keys).await?;
        let now = self.server_ms().await?;
        let leases = self.broker.workers(&keys).await?;
        let mut workers = self.foreign_workers(queue, &keys, owned).await?;
        for (id, end) in leases.iter().filter(|(_, end)| *end > now) {
            let info = match end - now <= SOON_MS {
                true => None,
                false => self.broker.worker_info(&format!("{queue}:{id}")).await?,
            };
            workers += u64::from(holds(*end, now, info.as_deref().and_then(WorkerInfo::decode).as_ref()));
        }
        Ok([waiting, tokens, owned, dead, suspects, scheduled, workers])
    }

    /// The number of living Python and Go workers that own one of the `owned` messages.
    async fn foreign_workers(
        &self,
        queue: &QueueName,
        keys: &QueueKeys,
        owned: u64,
    ) -> Result<u64, BrokerError> {
        if owned == 0 {
            return Ok(0);
        }
        let owners = self.broker.owners(keys).await?;
        let foreign: Vec<&str> = owners
            .iter()
            .map(String::as_str)
            .filter(|wire_id| WorkerId::of_wire_id(queue, wire_id).is_none())
            .collect();
        let alive = self.broker.alive(&foreign).await?;
        Ok(alive.into_iter().filter(|alive| *alive).count() as u64)
    }

    /// The names of the registered queues.
    #[cfg(feature = "web")]
    pub(crate) async fn registered_names(&self) -> Result<Vec<QueueName>, Error> {
        let names = self.broker.registered_queues().await?;
        Ok(names.iter().filter_map(|name| QueueName::parse(name).ok()).collect())
    }

    pub(crate) async fn queue_names(&self) -> Result<BTreeSet<QueueName>, BrokerError> {
        let names = self.broker.registered_queues().await?;
        let mut queues = self.scan(SCAN).await?.queues;
        queues.extend(names.iter().filter_map(|name| QueueName::parse(name).ok()));
        Ok(queues)
    }

    /// Scans for unregistered queues, for about this time.
    pub(super) async fn scan(&self, time: Duration) -> Result<ScannedQueues, BrokerError> {
        self.broker.scan_queues(&REGISTERED_BY, Pace::Within(time)).await
    }

    /// The server's clock in milliseconds since 1970.
    pub(super) async fn server_ms(&self) -> Result<u64, BrokerError> {
        let now = self.broker.server_time().await?;
        Ok(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }
}
