//! Makes the calls of periodic tasks that are due, and computes when these are due next.
//!
//! All times are Redis's. The ticks follow from the definition alone, and `tick` compares when the task was due, so it does not
//! matter how many processes do this at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;

use crate::broker::{Broker, BrokerError, DueTask, MAX_TICK_CALLS, Tick, Ticked};
use crate::protocol::cron::Schedule;
use crate::protocol::keys::{QueueKeys, history};
use crate::protocol::periodic::{Definition, MISSED_AFTER_MS, Missed};

/// How many definitions are kept, so that they need not be read again for each tick.
const KEPT: usize = 50_000;
/// Missed ticks are counted up to this number.
const MOST_COUNTED: u64 = 100;
/// After how many milliseconds a definition that cannot be read is looked at again.
const UNREADABLE_MS: u64 = 60 * 60 * 1000;

/// Makes calls of periodic tasks.
#[derive(Debug, Default)]
pub(super) struct Planner {
    /// By the history's key, which names the queue and the task.
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// A definition that was read.
#[derive(Debug)]
struct Known {
    bytes: Vec<u8>,
    task: Option<(Definition, Schedule)>,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    /// How many calls were enqueued.
    pub(super) calls: u64,
    /// Whether some could not be, and are still due.
    pub(super) has_failed: bool,
}

/// What is due of a task.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    ticks: Vec<u64>,
    /// The first tick that is not made up for, and how many these are.
    missed: Option<(u64, u64)>,
    next: Option<u64>,
}

impl Planner {
    /// Makes the calls of these tasks, which are due at `now`, in milliseconds since 1970.
    pub(super) async fn make(
        &self,
        broker: &Broker,
        keys: &QueueKeys,
        now: u64,
        due: Vec<DueTask>,
    ) -> Result<Made, BrokerError> {
        let known: Vec<Arc<Known>> = due.iter().map(|task| self.known(keys, task)).collect();
        let ticks: Vec<Tick<'_>> =
            due.iter().zip(&known).map(|(task, known)| tick(keys, task, known, now)).collect();
        let mut chunks: Vec<&[Tick<'_>]> = Vec::new();
        let mut rest = &ticks[..];
        while !rest.is_empty() {
            let mut calls = 0;
            let fits = |tick: &&Tick<'_>| {
                calls += tick.calls.len().max(1);
                calls <= MAX_TICK_CALLS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (chunk, others) = rest.split_at(count);
            chunks.push(chunk);
            rest = others;
        }
        let mut made = Made::default();
        let replies = join_all(chunks.iter().map(|chunk| broker.tick(keys, chunk))).await;
        for (chunk, ticked) in chunks.into_iter().zip(replies) {
            for (tick, ticked) in chunk.iter().zip(ticked?) {
                match ticked {
                    Ticked::Made(calls) => made.calls += calls,
                    Ticked::LeftAlone => {}
                    Ticked::Refused(error) => {
                        made.has_failed = true;
                        tracing::error!(
                            queue = keys.queue,
                            periodic = tick.name,
                            error,
                            "tick failed; retrying"
                        );
                    }
                }
            }
        }
        Ok(made)
    }

    /// The definition of a task, read at most once.
    fn known(&self, keys: &QueueKeys, task: &DueTask) -> Arc<Known> {
        let key = history(&keys.queue, &task.name);
        // No foreign code runs under the lock, so a panic leaves nothing half done.
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key).filter(|known| known.bytes == task.definition) {
            return Arc::clone(known);
        }
        let read = Definition::decode(&task.definition).and_then(|definition| {
            let schedule = Schedule::parse(&definition.cron, definition.tz.as_deref(), &task.name).ok()?;
            definition.call(&task.name, task.due, None)?;
            Some((definition, schedule))
        });
        let known = Arc::new(Known { bytes: task.definition.clone(), task: read });
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(key, Arc::clone(&known));
        known
    }
}

/// What is due of a task, with its calls.
fn tick<'a>(keys: &QueueKeys, task: &'a DueTask, known: &'a Known, now: u64) -> Tick<'a> {
    let DueTask { name, due, definition: bytes } = task;
    let mut tick = Tick {
        name,
        due: Some(*due),
        definition: bytes,
        next: Some(now + UNREADABLE_MS),
        missed: None,
        calls: Vec::new(),
        lock_ms: 0,
    };
    let Some((definition, schedule)) = &known.task else {
        tracing::error!(
            queue = keys.queue,
            periodic = name,
            hint = "a newer version may have written it; `periodic remove` removes it",
            "periodic task cannot be read; skipping it for an hour"
        );
        return tick;
    };
    let Plan { ticks, missed, next } = plan(schedule, definition.missed, *due, now);
    if let Some((first, count)) = missed {
        tracing::warn!(queue = keys.queue, periodic = name, first, count, "ticks missed");
    }
    let until_next = |tick| schedule.after(tick).map(|next| next - tick);
    let calls = ticks.into_iter().filter_map(|tick| definition.call(name, tick, until_next(tick)));
    tick.calls = calls.collect();
    tick.lock_ms = definition.lock_ms.unwrap_or(0);
    (tick.missed, tick.next) = (missed, next);
    tick
}

/// Which ticks of a task are made at `now`, when it is due since `due`.
fn plan(schedule: &Schedule, missed: Missed, due: u64, now: u64) -> Plan {
    if due == 0 {
        // It was defined by a program that computes no ticks.
        return Plan { ticks: Vec::new(), missed: None, next: schedule.after(now) };
    }
    let is_late = now > due.saturating_add(MISSED_AFTER_MS);
    let mut ticks = match missed {
        _ if !is_late => schedule.between(due, now, MAX_TICK_CALLS),
        Missed::All(most) => schedule.between(due, now, most.max(1) as usize),
        Missed::Once | Missed::Skip => schedule.between(due, now, 1),
    };
    if is_late && missed == Missed::Skip {
        ticks.retain(|tick| now - tick <= MISSED_AFTER_MS);
    }
    let begins = ticks.first().copied().unwrap_or(now + 1);
    let left_out = schedule.count(due, begins, MOST_COUNTED);
    let next = match ticks.get(MAX_TICK_CALLS) {
        Some(next) => Some(*next),
        None => schedule.after(now.max(due)),
    };
    ticks.truncate(MAX_TICK_CALLS);
    Plan { ticks, missed: (left_out > 0).then_some((due, left_out)), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn made(text: &str, missed: Missed, due: u64, now: u64) -> Plan {
        plan(&Schedule::parse(text, None, "name").unwrap(), missed, due, now)
    }

    #[test]
    fn tick_that_is_on_time_is_made_whatever_the_policy() {
        for missed in [Missed::Skip, Missed::Once, Missed::All(1)] {
            let plan = made("* * * * *", missed, 10 * MINUTE, 10 * MINUTE + 7);
            assert_eq!(plan, Plan { ticks: vec![10 * MINUTE], missed: None, next: Some(11 * MINUTE) });
            // Several that are late by seconds, as after the death of the process that should have made them.
            let plan = made("* * * * * *", missed, 10 * MINUTE, 10 * MINUTE + 2_500);
            assert_eq!(plan.ticks, [600_000, 601_000, 602_000]);
            assert_eq!((plan.missed, plan.next), (None, Some(603_000)));
        }
    }

    #[test]
    fn missed_ticks_are_made_up_for_as_the_policy_says() {
        let (due, now) = (10 * MINUTE, 20 * MINUTE + 30_000);
        let of = |missed| made("* * * * *", missed, due, now);
        let next = Some(21 * MINUTE);
        assert_eq!(of(Missed::Skip), Plan { ticks: vec![20 * MINUTE], missed: Some((due, 10)), next });
        assert_eq!(of(Missed::Once), Plan { ticks: vec![20 * MINUTE], missed: Some((due, 10)), next });
        let ticks = (10..=20).map(|n| n * MINUTE).collect();
        assert_eq!(of(Missed::All(100)), Plan { ticks, missed: None, next });
        let last = vec![18 * MINUTE, 19 * MINUTE, 20 * MINUTE];
        assert_eq!(of(Missed::All(3)), Plan { ticks: last, missed: Some((due, 8)), next });
        // The last one is more than a minute ago as well.
        let of = |missed| made("0 * * * *", missed, 60 * MINUTE, 150 * MINUTE);
        let next = Some(180 * MINUTE);
        assert_eq!(of(Missed::Skip), Plan { ticks: vec![], missed: Some((60 * MINUTE, 2)), next });
        assert_eq!(
            of(Missed::Once),
            Plan { ticks: vec![120 * MINUTE], missed: Some((60 * MINUTE, 1)), next }
        );
    }

    #[test]
    fn task_without_a_time_gets_its_next_tick() {
        let plan = made("* * * * *", Missed::All(7), 0, 20 * MINUTE + 1);
        assert_eq!(plan, Plan { ticks: vec![], missed: None, next: Some(21 * MINUTE) });
    }

    #[test]
    fn many_missed_ticks_are_made_in_parts_without_a_gap() {
        let (mut due, now) = (MINUTE, 300 * MINUTE);
        let mut all = Vec::new();
        for _ in 0..3 {
            let plan = made("* * * * *", Missed::All(250), due, now);
            all.extend(plan.ticks);
            due = plan.next.unwrap();
        }
        assert_eq!(all, (51..=300).map(|n| n * MINUTE).collect::<Vec<_>>());
        assert_eq!(due, 301 * MINUTE);
    }
}
