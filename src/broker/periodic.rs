//! Reads the periodic tasks of a queue: their definitions, when they are due, and their histories.

use std::collections::BTreeMap;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::transitions::Paused;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::periodic::{DEFINITION_FIELD, Definition, PAUSED_FIELD, TickEntry};

/// How many definitions one command reads.
const PAGE: usize = 500;

/// A periodic task, as it is stored.
#[derive(Debug)]
pub(crate) struct StoredTask {
    /// Its definition, as it is stored.
    pub(crate) bytes: Vec<u8>,
    /// The same. `None` if it cannot be read.
    pub(crate) definition: Option<Definition>,
    pub(crate) paused: Option<Paused>,
    /// When it is due, in milliseconds since 1970. `None` while it is paused.
    pub(crate) due: Option<u64>,
}

impl Broker {
    /// The periodic tasks of a queue, by name.
    pub(crate) async fn periodic(&self, keys: &QueueKeys) -> Result<BTreeMap<String, StoredTask>, BrokerError> {
        let (mut tasks, mut pauses) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = 0_u64;
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&keys.periodic).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, fields): (u64, Vec<(Vec<u8>, Vec<u8>)>) = self.read("periodic", &command).await?;
            for (field, value) in fields {
                let Ok(field) = String::from_utf8(field) else { continue };
                if let Some(name) = field.strip_prefix(DEFINITION_FIELD) {
                    tasks.insert(name.to_owned(), StoredTask::new(value));
                } else if let Some(name) = field.strip_prefix(PAUSED_FIELD) {
                    pauses.insert(name.to_owned(), Paused::parse(&value));
                }
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        for (name, paused) in pauses {
            if let Some(task) = tasks.get_mut(&name) {
                task.paused = paused;
            }
        }
        let mut all: Vec<(&String, &mut StoredTask)> = tasks.iter_mut().collect();
        for page in all.chunks_mut(PAGE) {
            let mut command = redis::cmd("ZMSCORE");
            command.arg(&keys.due);
            for (name, _) in page.iter() {
                command.arg(format!("p{name}"));
            }
            let dues: Vec<Option<f64>> = self.read("periodic", &command).await?;
            for ((_, task), due) in page.iter_mut().zip(dues) {
                task.due = due.map(|due| due.max(0.0) as u64);
            }
        }
        Ok(tasks)
    }

    /// One periodic task.
    pub(crate) async fn periodic_task(
        &self,
        keys: &QueueKeys,
        name: &str,
    ) -> Result<Option<StoredTask>, BrokerError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.periodic).arg(format!("{DEFINITION_FIELD}{name}")).arg(format!("{PAUSED_FIELD}{name}"));
        let (bytes, paused): (Option<Vec<u8>>, Option<Vec<u8>>) = self.read("periodic", &command).await?;
        let Some(bytes) = bytes else { return Ok(None) };
        let due: Option<f64> =
            self.read("periodic", redis::cmd("ZSCORE").arg(&keys.due).arg(format!("p{name}"))).await?;
        let due = due.map(|due| due.max(0.0) as u64);
        Ok(Some(StoredTask { due, paused: paused.and_then(|text| Paused::parse(&text)), ..StoredTask::new(bytes) }))
    }

    /// The last ticks of a periodic task, newest first. Skips entries that cannot be read.
    pub(crate) async fn history(&self, keys: &QueueKeys, name: &str) -> Result<Vec<TickEntry>, BrokerError> {
        let key = keys::history(&keys.queue, name);
        let entries: Vec<Vec<u8>> =
            self.read("history", redis::cmd("LRANGE").arg(key).arg(0).arg(-1)).await?;
        Ok(entries.iter().filter_map(|entry| TickEntry::decode(entry)).collect())
    }
}

impl StoredTask {
    fn new(bytes: Vec<u8>) -> Self {
        Self { definition: Definition::decode(&bytes), bytes, paused: None, due: None }
    }
}
