//! Declares the periodic tasks of the program when a worker starts: those whose attributes have a `cron`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::{Broker, BrokerError, Change, PutTask};
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;
use crate::protocol::periodic::PeriodicError;
use crate::task::{Periodic, PeriodicEntry, Registry};
use crate::worker::Owned;

/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(5);
/// Its name in the log.
const DECLARE: &str = "declaring periodic tasks";

/// The periodic tasks that a program declares in the queues of its worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared(Arc<BTreeMap<QueueName, Vec<PeriodicEntry>>>);

impl Declared {
    /// Those of these tasks.
    ///
    /// # Errors
    /// An expression or a time zone is not valid, or a task needs arguments.
    pub(super) fn new<'a>(
        registry: &Registry,
        queues: impl Iterator<Item = &'a QueueName>,
    ) -> Result<Self, PeriodicError> {
        let mut all: BTreeMap<QueueName, Vec<PeriodicEntry>> =
            queues.map(|queue| (queue.clone(), Vec::new())).collect();
        for task in registry.iter() {
            let Some(entry) = Periodic::of_task(task)?.map(Periodic::into_entry).transpose()? else {
                continue;
            };
            if let Some(entries) = all.get_mut(&entry.queue) {
                entries.push(entry);
            }
        }
        all.retain(|_, entries| !entries.is_empty());
        Ok(Self(Arc::new(all)))
    }

    /// The names of those of a queue.
    pub(super) fn names(&self, queue: &QueueName) -> Vec<String> {
        let entries = self.0.get(queue).into_iter().flatten();
        entries.map(|entry| entry.name.clone()).collect()
    }

    /// Stores them; in the background, if Redis does not let it. A new version of the program replaces those of an older one.
    pub(super) async fn declare(&self, broker: &Broker) -> Option<Owned<()>> {
        match self.store(broker).await {
            Ok(()) => None,
            Err(_) => Some(Owned::spawn(self.clone().store_until_done(broker.clone()))),
        }
    }

    async fn store(&self, broker: &Broker) -> Result<(), BrokerError> {
        for (queue, entries) in self.0.iter() {
            let tasks: Vec<PutTask<'_>> = entries.iter().map(PutTask::of).collect();
            broker.put_periodic(&QueueKeys::new(queue), Change::Put, &tasks).await?;
        }
        Ok(())
    }

    async fn store_until_done(self, broker: Broker) {
        while let Err(error) = self.store(&broker).await {
            broker.outage().failed(DECLARE, "", &error);
            tokio::time::sleep(PAUSE).await;
        }
        broker.outage().succeeded(DECLARE, "");
    }
}
