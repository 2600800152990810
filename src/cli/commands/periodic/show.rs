//! Writes periodic tasks and their ticks.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::commands::or_dash;
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::inspect::{PeriodicStatus, PeriodicTick};

/// All of them in a table.
pub(super) fn table(tasks: &[PeriodicStatus]) -> Result<(), Failure> {
    if tasks.is_empty() {
        return output::print("no periodic tasks are defined: `periodic add` defines one");
    }
    let rows = tasks.iter().map(|task| {
        let next = task.next_ms.first().map(|next| local(task, *next));
        let distance = task.next_ms.first().map(|next| output::distance(*next));
        [
            Cell::from(task.name.clone()),
            Cell::from(task.queue.clone()),
            Cell::from(task.cron.clone()),
            Cell::from(or_dash(next)),
            Cell::from(or_dash(distance)),
            Cell::from(task.overlap.to_string()),
            Cell::from(task.missed.to_string()),
            Cell::from(state(task))
                .red_if(task.problem.is_some())
                .yellow_if(task.orphaned || task.paused.is_some()),
        ]
    });
    let heads = ["name", "queue", "cron", "next", "", "overlap", "missed", "state"];
    output::table(heads, rows.collect(), &[(0, 20), (1, 10), (2, 12)])
}

/// One of them in full.
pub(super) fn one(task: &PeriodicStatus) -> String {
    let paused =
        task.paused.as_ref().map(|paused| format!("by {} {}", paused.by, output::distance(paused.since_ms)));
    let mut lines: Vec<(&str, Option<String>)> = vec![
        ("name", Some(task.name.clone())),
        ("queue", Some(task.queue.clone())),
        ("task", Some(task.task.clone())),
        ("cron", Some(task.cron.clone())),
        ("time zone", Some(task.tz.clone().unwrap_or_else(|| "UTC".into()))),
        ("overlap", Some(task.overlap.to_string())),
        ("missed", Some(task.missed.to_string())),
        ("state", Some(state(task))),
        ("paused", paused),
        ("problem", task.problem.clone()),
    ];
    lines.extend((1..).zip(&task.next_ms).map(|(nth, next)| {
        let text = format!("{} ({})", local(task, *next), output::distance(*next));
        (if nth == 1 { "next" } else { "" }, Some(text))
    }));
    let lines = lines.into_iter().filter_map(|(name, text)| Some((name, text?)));
    lines.map(|(name, text)| format!("{name:<10} {}", output::clean(&text))).collect::<Vec<_>>().join("\n")
}

fn state(task: &PeriodicStatus) -> String {
    let word = match task {
        PeriodicStatus { problem: Some(_), .. } => "broken",
        PeriodicStatus { paused: Some(_), .. } => "paused",
        PeriodicStatus { orphaned: true, .. } => "orphaned",
        PeriodicStatus { code: true, .. } => "from code",
        _ => "by hand",
    };
    word.into()
}

/// A moment by the clock of the task's time zone.
fn local(task: &PeriodicStatus, ms: u64) -> String {
    let zone = task.tz.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    match i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        Some(moment) => moment.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        None => format!("{ms} ms"),
    }
}

/// The last ticks.
pub(super) fn history(ticks: &[PeriodicTick]) -> Result<(), Failure> {
    if ticks.is_empty() {
        return output::print("no tick was made yet");
    }
    let rows = ticks.iter().map(|tick| {
        let late = tick.tick_ms.map(|due| format!("{} ms", tick.made_ms.saturating_sub(due)));
        let result = match tick.missed {
            Some(count) => format!("{count} {}", tick.result),
            None => tick.result.to_owned(),
        };
        let is_bad = tick.state.as_deref().is_some_and(|state| state == "dead" || state == "expired");
        [
            Cell::from(tick.tick_ms.map_or_else(|| "by hand".into(), output::moment)),
            Cell::from(or_dash(late)),
            Cell::from(result).yellow_if(tick.result != "enqueued"),
            Cell::from(or_dash(tick.call.clone())),
            Cell::from(or_dash(tick.state.clone())).red_if(is_bad),
        ]
    });
    output::table(["tick", "late", "result", "call", "state"], rows.collect(), &[])
}
