//! What has a size, which sizes are measured, and what is measured of each?

use crate::race::WITHOUT_PREFETCH;
use crate::race::systems::SYSTEMS;
use crate::race::trial::{Drained, PLAIN, Trial, Work};

/// One thing that can be small or large.
pub struct Part {
    pub name: &'static str,
    pub table: &'static str,
    /// The column that is missing when a size fails.
    pub first: &'static str,
    pub sizes: &'static [u64],
    pub measure: fn(Trial, u64) -> Result<Columns, String>,
    /// What grows, and why.
    pub why: &'static str,
}

/// With fewer calls, most have run before the first look at what they cost.
const ENOUGH: u64 = 5_000;

/// Name, unit and value of each.
pub type Columns = Vec<(&'static str, &'static str, f64)>;

pub const PARTS: [Part; 5] = [
    Part {
        name: "workers",
        table: "worker processes",
        first: "drained",
        sizes: &[1, 2, 4, 8],
        measure: workers,
        why: "Each has a concurrency of 64, and all serve one queue. No worker asks about another. One of them almost \
              keeps Redis busy, so more of them bring no more calls that do nothing: they are for calls that work.",
    },
    Part {
        name: "queues",
        table: "queues of one worker",
        first: "drained",
        sizes: &[1, 10, 100, 1_000],
        measure: queues,
        why: "The same number of calls, in more queues. One claim is of one queue, so what a batch shares is shared by \
              fewer calls where each queue has few: at a thousand, each has a hundred. Idle, a worker beats for each of its queues once in a lease, \
              and looks whether there is anything to sweep, so that grows with their number.",
    },
    Part {
        name: "slots",
        table: "slots of one worker",
        first: "drained",
        sizes: &[1, 4, 16, 64, 256, 1_024, 4_096],
        measure: slots,
        why: "With `--prefetch 0`, so that a worker owns what it runs and no more; by itself it would claim as many quick \
              calls as with some hundred slots. A round trip is shared by all of a few slots, and by half of more than 16, \
              up to 512, until there is no more to share. A slot costs a few hundred bytes.",
    },
    Part {
        name: "waiting",
        table: "messages that wait",
        first: "drained",
        sizes: &[1_000, 10_000, 100_000, 1_000_000, 10_000_000],
        measure: waiting,
        why: "A hundred thousand of them are drained, or all: a thousand are gone in some milliseconds, in which the worker \
              begins with small claims, and are too few to tell what one costs, which is left out. Redis takes from the \
              head of a list, which it does not have to walk, so a call costs the same however many stand behind it; each \
              has its bytes and those of its token.",
    },
    Part {
        name: "idle",
        table: "idle workers",
        first: "Redis",
        sizes: &[1, 10, 50, 200],
        measure: idle,
        why: "Each waits in a command of its own and beats once in a lease. Where all is empty, a beat is all \
              that it needs; what is found is swept by turns, as often as for one worker.",
    },
];

fn workers(trial: Trial, size: u64) -> Result<Columns, String> {
    let work = Work { workers: size as usize, ..PLAIN };
    Ok(with_costs(&trial.drain(work, 2 * trial.effort.drain.calls)?))
}

fn queues(trial: Trial, size: u64) -> Result<Columns, String> {
    let names: Vec<String> = (0..size).map(|number| format!("bench_{number}")).collect();
    let work = Work { queues: &names.join(","), ..PLAIN };
    let mut columns = with_costs(&trial.drain(work, trial.effort.drain.calls)?);
    let idle = trial.idle(work)?;
    columns.push(("commands while idle", "/s", idle.commands));
    columns.push(("Redis while idle", "% of a core", idle.redis));
    columns.push(("worker while idle", "% of a core", idle.worker));
    columns.push(("memory while idle", "MB", idle.memory as f64 / 1e6));
    Ok(columns)
}

fn slots(trial: Trial, size: u64) -> Result<Columns, String> {
    // One at a time is slow.
    let calls = if size < 16 { trial.effort.drain.calls / 4 } else { trial.effort.drain.calls };
    let system = SYSTEMS.iter().find(|system| system.name == WITHOUT_PREFETCH).ok_or("it is not there")?;
    let drained = Trial { system, ..trial }.drain(Work { concurrency: size as usize, ..PLAIN }, calls)?;
    let mut columns = with_costs(&drained);
    columns.push(("memory", "MB", drained.memory as f64 / 1e6));
    Ok(columns)
}

fn waiting(trial: Trial, size: u64) -> Result<Columns, String> {
    // A tenth more runs first, to warm up.
    let calls = (size / 11 * 10).min(100_000);
    let work = Work { left: size - calls - calls / 10, ..PLAIN };
    let drained = trial.drain(work, calls)?;
    let mut columns = if calls < ENOUGH { rate(&drained) } else { with_costs(&drained) };
    columns.push(("memory of Redis for each", "B", drained.waiting));
    Ok(columns)
}

fn idle(trial: Trial, size: u64) -> Result<Columns, String> {
    let idle = trial.idle(Work { workers: size as usize, ..PLAIN })?;
    Ok(vec![
        ("Redis", "% of a core", idle.redis),
        ("commands", "/s", idle.commands),
        ("all workers", "% of a core", idle.worker),
        ("memory of one", "MB", idle.memory as f64 / size as f64 / 1e6),
    ])
}

fn rate(drained: &Drained) -> Columns {
    vec![("drained", "/s", drained.rate)]
}

fn with_costs(drained: &Drained) -> Columns {
    let costs = [("Redis for a call", "µs", drained.redis), ("worker for a call", "µs", drained.worker)];
    rate(drained).into_iter().chain(costs).collect()
}
