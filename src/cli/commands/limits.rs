//! `limits`: shows, sets and removes limits.

use crate::cli::Program;
use crate::cli::args::{Limits, SetLimit};
use crate::cli::commands::{inspector, time};
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::inspect::LimitStatus;
use crate::protocol::limit::Limit;

/// How many holders and queues are named in the table.
const SHOWN: usize = 3;

pub(super) async fn run(program: &Program, verb: &Limits) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    match verb {
        Limits::List(output) => {
            let limits = inspector.limits().await?;
            if output.json { output::json(&limits) } else { print(&limits) }
        }
        Limits::Set(args) => {
            inspector.set_limit(&args.name, &limit(args)).await?;
            output::print(&output::clean(&format!("set {}", args.name)))
        }
        Limits::Remove(args) => match inspector.remove_limit(&args.name).await? {
            true => output::print(&output::clean(&format!("removed {}", args.name))),
            false => output::print(&output::clean(&format!("{} is no limit", args.name))),
        },
    }
}

fn limit(args: &SetLimit) -> Limit {
    let SetLimit { concurrency, rate, burst, .. } = args;
    let limit = match (*concurrency, *rate) {
        (Some(most), Some((count, period))) => Limit::concurrent(most).rate(count, period),
        (Some(most), None) => Limit::concurrent(most),
        (None, Some((count, period))) => Limit::at_rate(count, period),
        (None, None) => Limit::concurrent(0), // It is refused, with the reason.
    };
    match burst {
        Some(burst) => limit.burst(*burst),
        None => limit,
    }
}

fn print(limits: &[LimitStatus]) -> Result<(), Failure> {
    if limits.is_empty() {
        return output::print("no limits are set: `limits set` sets one");
    }
    let number = |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
    let rows = limits.iter().map(|limit| {
        let rate = limit.rate.zip(limit.period_ms);
        [
            limit.name.clone(),
            number(limit.concurrency),
            rate.map_or_else(|| "-".into(), |(rate, period)| format!("{rate}/{}", time(period))),
            number(limit.burst),
            limit.held.to_string(),
            limit.waiting.to_string(),
            some(&limit.holders),
            some(&limit.waiters),
        ]
        .map(Cell::from)
    });
    let heads = ["limit", "concurrency", "rate", "burst", "held", "waiting", "held by", "waiting in"];
    output::table(heads, rows.collect(), &[(0, 10), (6, 10), (7, 10)])
}

/// The first of many, without repetitions.
fn some(all: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for one in all {
        if !distinct.contains(&one.as_str()) {
            distinct.push(one);
        }
    }
    let more = if distinct.len() > SHOWN { ", …" } else { "" };
    let shown = distinct[..distinct.len().min(SHOWN)].join(", ");
    if distinct.is_empty() { "-".into() } else { format!("{shown}{more}") }
}
