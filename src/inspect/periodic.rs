//! Lists periodic tasks with their next and last ticks, and changes them.

use std::collections::HashSet;

use serde::Serialize;

use crate::broker::{Change, Changed, PutTask, StoredTask, Tick, Ticked};
use crate::error::Error;
use crate::inspect::pause::kept;
use crate::inspect::workers::holds;
use crate::inspect::{Inspector, Pause};
use crate::protocol::call_id::CallId;
use crate::protocol::cron::Schedule;
use crate::protocol::info::WorkerInfo;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::protocol::periodic::{
    Definition, Missed, Overlap, PeriodicError, TickCall, TickEntry, TickResult,
};
use crate::task::{Periodic, PeriodicEntry};

/// How many ticks are shown ahead.
const AHEAD: usize = 10;

/// A periodic task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeriodicStatus {
    /// The name.
    pub name: String,
    /// The queue of its calls.
    pub queue: String,
    /// The path of the task that it calls. Empty if the definition cannot be read.
    pub task: String,
    /// The cron expression.
    pub cron: String,
    /// The name of its time zone. `None`: UTC.
    pub tz: Option<String>,
    /// What happens when an earlier call has not ended.
    pub overlap: Overlap,
    /// What happens to missed ticks.
    pub missed: Missed,
    /// Whether it comes from the attribute of a task.
    pub code: bool,
    /// Whether it comes from an attribute, and no living worker declares it.
    pub orphaned: bool,
    /// The pause, if it is paused.
    pub paused: Option<Pause>,
    /// The next ten ticks, in milliseconds since 1970; none while it is paused.
    pub next_ms: Vec<u64>,
    /// Why the definition cannot be used.
    pub problem: Option<String>,
}

/// A tick of a periodic task that was made, skipped or missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeriodicTick {
    /// When the tick was due, in milliseconds since 1970. `None`: its call was made by hand.
    pub tick_ms: Option<u64>,
    /// When it was made, in milliseconds since 1970 by the server's clock.
    pub made_ms: u64,
    /// What became of it: `enqueued`, `skipped` because an earlier call had not ended, or `missed`.
    pub result: &'static str,
    /// The id of its call; of a skipped tick, of the earlier call. `None` for a call of a Python or Go function.
    pub call: Option<String>,
    /// The state of that call, as far as it is known: a record is kept for the last ten ticks or so.
    pub state: Option<String>,
    /// How many ticks were missed from this one on; up to 100 are counted.
    pub missed: Option<u64>,
}

/// What [`Inspector::run_periodic`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeriodicRun {
    /// Whether the call was enqueued. Otherwise an earlier one has not ended, and the overlap is `skip`.
    pub enqueued: bool,
    /// The id of the call. `None` for a call of a Python or Go function.
    pub call: Option<String>,
}

impl Inspector {
    /// Returns the periodic tasks of these queues, or of all if that is empty, sorted by queue and name.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of a queue has a wrong type.
    pub async fn periodic(&self, queues: &[QueueName]) -> Result<Vec<PeriodicStatus>, Error> {
        let queues = match queues {
            [] => self.queue_names().await?.into_iter().collect(),
            queues => queues.to_vec(),
        };
        let mut all = Vec::new();
        for queue in &queues {
            let tasks = self.broker.periodic(&QueueKeys::new(queue)).await?;
            if tasks.is_empty() {
                continue;
            }
            let now = self.server_ms().await?;
            let declared = self.declared(queue, now).await?;
            let status =
                |(name, task): (String, StoredTask)| PeriodicStatus::new(queue, name, task, &declared, now);
            all.extend(tasks.into_iter().map(status));
        }
        Ok(all)
    }

    /// The names of the periodic tasks that living workers of a queue declare.
    async fn declared(&self, queue: &QueueName, now: u64) -> Result<HashSet<String>, Error> {
        let mut names = HashSet::new();
        let workers = self.broker.workers(&QueueKeys::new(queue)).await?;
        let keys: Vec<String> = workers.iter().map(|(id, _)| format!("{queue}:{id}")).collect();
        let infos = self.broker.worker_infos(&keys).await?;
        for ((_, end), info) in workers.into_iter().zip(infos) {
            let info = info.as_deref().and_then(WorkerInfo::decode);
            if holds(end, now, info.as_ref()) {
                names.extend(info.into_iter().flat_map(|info| info.periodic));
            }
        }
        Ok(names)
    }

    /// Defines a periodic task: see [`Client::define_periodic`](crate::Client::define_periodic). Without `replaces`, only if there
    /// is none of its name. Returns whether it was defined.
    ///
    /// # Errors
    /// As there.
    pub async fn define_periodic(&self, task: Periodic, replaces: bool) -> Result<bool, Error> {
        self.define_entry(&task.into_entry()?, replaces).await
    }

    /// The same for one that was checked.
    pub(crate) async fn define_entry(&self, entry: &PeriodicEntry, replaces: bool) -> Result<bool, Error> {
        self.broker.register_queue(entry.queue.as_str()).await?;
        let change = if replaces { Change::Put } else { Change::New };
        let keys = QueueKeys::new(&entry.queue);
        let changed = self.broker.put_periodic(&keys, change, &[PutTask::of(entry)]).await?;
        Ok(changed != [Changed::Exists])
    }

    /// Whether there is a periodic task of this name.
    #[cfg(feature = "cli")]
    pub(crate) async fn has_periodic(&self, queue: &QueueName, name: &str) -> Result<bool, Error> {
        Ok(self.broker.periodic_task(&QueueKeys::new(queue), name).await?.is_some())
    }

    /// Pauses a periodic task: it makes no calls until it is resumed. Calls that were made stay. `by` says who pauses it.
    /// Returns whether that changed anything; `None` if there is no such task.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn pause_periodic(
        &self,
        queue: &QueueName,
        name: &str,
        by: &str,
    ) -> Result<Option<bool>, Error> {
        let by = kept(by);
        let tasks = [(name, by.as_bytes(), 0)];
        let changed = self.broker.define(&QueueKeys::new(queue), Change::Pause, false, &tasks).await?;
        Ok((changed != [Changed::Absent]).then_some(changed == [Changed::Paused]))
    }

    /// Resumes a periodic task with its next tick. Ticks during the pause are not made up for. Returns whether that changed
    /// anything; `None` if there is no such task.
    ///
    /// # Errors
    /// Redis cannot be reached or used, or the definition cannot be read.
    pub async fn resume_periodic(&self, queue: &QueueName, name: &str) -> Result<Option<bool>, Error> {
        let keys = QueueKeys::new(queue);
        let Some(StoredTask { definition: Some(definition), .. }) =
            self.broker.periodic_task(&keys, name).await?
        else {
            return Ok(None);
        };
        let schedule = schedule(&definition, name)?;
        let task = PutTask { name, text: b"", schedule: &schedule, limit: None };
        let changed = self.broker.put_periodic(&keys, Change::Resume, &[task]).await?;
        Ok((changed != [Changed::Absent]).then_some(changed == [Changed::Resumed]))
    }

    /// Removes a periodic task with its history. Calls that were made stay. A task that comes from an attribute is declared
    /// again by the next worker of its program that starts. Returns whether there was one.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn remove_periodic(&self, queue: &QueueName, name: &str) -> Result<bool, Error> {
        Ok(self.broker.remove_periodic(&QueueKeys::new(queue), queue, name).await?)
    }

    /// Makes a call of a periodic task now, also while it is paused. Its ticks stay as they are. `None` if there is no such
    /// task.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn run_periodic(&self, queue: &QueueName, name: &str) -> Result<Option<PeriodicRun>, Error> {
        let keys = QueueKeys::new(queue);
        loop {
            let Some(task) = self.broker.periodic_task(&keys, name).await? else { return Ok(None) };
            let Some(definition) = &task.definition else { return Ok(None) };
            let (now, id) = (self.server_ms().await?, CallId::new());
            let schedule = schedule(definition, name)?;
            let until_next = schedule.after(now).map(|next| next - now);
            let Some(call) = definition.call_as(id, now, until_next) else { return Ok(None) };
            let id = call.tracking.map(|tracking| tracking.id.to_string());
            let tick = Tick {
                name,
                due: None,
                definition: &task.bytes,
                next: None,
                missed: None,
                calls: vec![TickCall { tick: 0, ..call }],
                lock_ms: definition.lock_ms.unwrap_or(0),
            };
            match self.broker.tick(&keys, &[tick]).await?.pop() {
                Some(Ticked::Made(count)) => {
                    return Ok(Some(PeriodicRun { enqueued: count > 0, call: id.filter(|_| count > 0) }));
                }
                // It was changed meanwhile.
                Some(Ticked::LeftAlone) | None => {}
                Some(Ticked::Refused(error)) => return Err(Error::refused(error)),
            }
        }
    }

    /// Returns the last ticks of a periodic task, newest first: up to 50. `None` if there is no such task.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type.
    pub async fn periodic_history(
        &self,
        queue: &QueueName,
        name: &str,
    ) -> Result<Option<Vec<PeriodicTick>>, Error> {
        let keys = QueueKeys::new(queue);
        if self.broker.periodic_task(&keys, name).await?.is_none() {
            return Ok(None);
        }
        let entries = self.broker.history(&keys, name).await?;
        let ticks: Vec<(TickEntry, &'static str, Option<CallId>, Option<u64>)> = entries
            .into_iter()
            .map(|entry| match entry.result {
                TickResult::Enqueued(id) => (entry, "enqueued", id, None),
                TickResult::Skipped(id) => (entry, "skipped", id, None),
                TickResult::Missed(count) => (entry, "missed", None, Some(count)),
            })
            .collect();
        let ids: Vec<CallId> = ticks.iter().filter_map(|(_, _, id, _)| *id).collect();
        let mut records = self.broker.records(queue, &ids).await?.into_iter();
        let tick = |(entry, result, id, missed): (TickEntry, _, Option<CallId>, _)| {
            let record = id.and_then(|_| records.next()).flatten();
            PeriodicTick {
                tick_ms: entry.tick_ms,
                made_ms: entry.made_ms,
                result,
                call: id.map(|id| id.to_string()),
                state: record.and_then(|record| record.state()).map(|state| state.name().to_owned()),
                missed,
            }
        };
        Ok(Some(ticks.into_iter().map(tick).collect()))
    }
}

fn schedule(definition: &Definition, name: &str) -> Result<Schedule, Error> {
    let schedule = Schedule::parse(&definition.cron, definition.tz.as_deref(), name);
    schedule.map_err(|source| PeriodicError::Schedule { name: name.into(), source }.into())
}

impl PeriodicStatus {
    fn new(queue: &QueueName, name: String, task: StoredTask, declared: &HashSet<String>, now: u64) -> Self {
        let Some(definition) = task.definition else {
            let problem = Some("the definition cannot be read".into());
            return Self { problem, ..Self::unread(queue, name, task.paused.map(Into::into)) };
        };
        let mut problem = None;
        let next_ms = match Schedule::parse(&definition.cron, definition.tz.as_deref(), &name) {
            Ok(schedule) if task.paused.is_none() => {
                let first =
                    task.due.filter(|due| *due > 0).unwrap_or_else(|| schedule.after(now).unwrap_or(now));
                std::iter::successors(Some(first), |tick| schedule.after(*tick)).take(AHEAD).collect()
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                problem = Some(error.to_string());
                Vec::new()
            }
        };
        let task_path = Message::decode(&definition.message).map(|message| message.task().to_owned());
        Self {
            task: task_path.unwrap_or_default(),
            cron: definition.cron,
            tz: definition.tz,
            overlap: definition.overlap,
            missed: definition.missed,
            code: definition.code,
            orphaned: definition.code && !declared.contains(&name),
            next_ms,
            problem,
            ..Self::unread(queue, name, task.paused.map(Into::into))
        }
    }

    fn unread(queue: &QueueName, name: String, paused: Option<Pause>) -> Self {
        let (overlap, missed) = Default::default();
        Self {
            name,
            queue: queue.to_string(),
            task: String::new(),
            cron: String::new(),
            tz: None,
            overlap,
            missed,
            code: false,
            orphaned: false,
            paused,
            next_ms: Vec::new(),
            problem: None,
        }
    }
}
