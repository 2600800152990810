//! Stores the periodic tasks of a queue, and reads them: their definitions, when they are due, and their histories.

use std::collections::BTreeMap;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::transitions::{Change, Changed, MAX_DEFINED, Paused};
use crate::protocol::cron::Schedule;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::limit::{Limit, LimitName};
use crate::protocol::names::QueueName;
use crate::protocol::periodic::{
    DEFINITION_FIELD, Definition, Overlap, PAUSED_FIELD, TickEntry, overlap_limit,
};
use crate::task::PeriodicEntry;

/// How many definitions one command reads.
const PAGE: usize = 100;

/// Fields and their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

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
    pub(crate) async fn periodic(
        &self,
        keys: &QueueKeys,
    ) -> Result<BTreeMap<String, StoredTask>, BrokerError> {
        let (mut tasks, mut pauses) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = 0_u64;
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&keys.periodic).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, fields): (u64, Pairs) = self.read("periodic", &command).await?;
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
        command
            .arg(&keys.periodic)
            .arg(format!("{DEFINITION_FIELD}{name}"))
            .arg(format!("{PAUSED_FIELD}{name}"));
        let (bytes, paused): (Option<Vec<u8>>, Option<Vec<u8>>) = self.read("periodic", &command).await?;
        let Some(bytes) = bytes else { return Ok(None) };
        let due: Option<f64> =
            self.read("periodic", redis::cmd("ZSCORE").arg(&keys.due).arg(format!("p{name}"))).await?;
        let due = due.map(|due| due.max(0.0) as u64);
        Ok(Some(StoredTask {
            due,
            paused: paused.and_then(|text| Paused::parse(&text)),
            ..StoredTask::new(bytes)
        }))
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

/// How often the next tick is computed again because it has passed meanwhile.
const TRIES: u32 = 5;

impl Broker {
    /// Creates or replaces periodic tasks of one queue, or resumes them; `text` says what is stored. Their limits are set
    /// first, so that no call of theirs runs without it. Returns for each what became of it.
    pub(crate) async fn put_periodic(
        &self,
        keys: &QueueKeys,
        change: Change,
        tasks: &[PutTask<'_>],
    ) -> Result<Vec<Changed>, BrokerError> {
        for limit in tasks.iter().filter_map(|task| task.limit) {
            self.set_limit(limit, &Limit::concurrent(1)).await?;
        }
        let mut changed = vec![Changed::Late; tasks.len()];
        for attempt in 1..=TRIES {
            let late: Vec<usize> =
                (0..tasks.len()).filter(|index| changed[*index] == Changed::Late).collect();
            for part in late.chunks(MAX_DEFINED) {
                let now = self.server_time(keys).await?.as_millis() as u64;
                let due = |index: &usize| {
                    let PutTask { name, text, schedule, .. } = &tasks[*index];
                    // There are dates until the year 5000.
                    (*name, *text, schedule.after(now).unwrap_or(u64::MAX >> 12))
                };
                let entries: Vec<(&str, &[u8], u64)> = part.iter().map(due).collect();
                let words = self.define(keys, change, attempt == TRIES, &entries).await?;
                for (index, word) in part.iter().zip(words) {
                    changed[*index] = word;
                }
            }
        }
        Ok(changed)
    }
}

/// A periodic task that is stored or resumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PutTask<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a [u8],
    pub(crate) schedule: &'a Schedule,
    pub(crate) limit: Option<&'a LimitName>,
}

impl<'a> PutTask<'a> {
    /// One that was checked.
    pub(crate) fn of(entry: &'a PeriodicEntry) -> Self {
        let PeriodicEntry { name, definition, schedule, limit, .. } = entry;
        Self { name, text: definition, schedule, limit: limit.as_ref() }
    }
}

impl Broker {
    /// Removes a periodic task with its history and its limit. Returns whether there was one.
    pub(crate) async fn remove_periodic(
        &self,
        keys: &QueueKeys,
        queue: &QueueName,
        name: &str,
    ) -> Result<bool, BrokerError> {
        let task = self.periodic_task(keys, name).await?;
        let removed = self.define(keys, Change::Remove, false, &[(name, b"", 0)]).await?;
        let has_limit =
            task.and_then(|task| task.definition).is_some_and(|task| task.overlap == Overlap::Queue);
        if has_limit && let Ok(limit) = overlap_limit(queue, name) {
            self.remove_limit(&limit).await?;
        }
        Ok(removed == [Changed::Removed])
    }
}
