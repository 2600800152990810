//! What limits cost. With the variable `DELAYED_TEST_FULL`, with ten thousand calls, and for long enough to print figures.

use std::time::{Duration, Instant};

use delayed::Limit;

use super::rate::{excess, times};
use super::{Site, most, tasks};
use crate::support::trial::{PATIENCE, marks};
use crate::support::{is_full, wait};

/// Requests to Redis for each limited call at the most, claim and release included: about eight where nothing else runs, with
/// which they would be shared.
const REQUESTS: f64 = 10.0;

/// How many of the lines are of limited calls: two for each.
fn limited(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with(['+', '-'])).count()
}

/// Runs so many calls without a limit. Gives how many of them ran in a second.
fn run_others(site: &mut Site, count: usize) -> f64 {
    let began = Instant::now();
    site.trial.push(&marks(count));
    wait::until("others to run", PATIENCE, || {
        let lines = site.trial.ledger.lines();
        lines.len() - limited(&lines) == count
    });
    count as f64 / began.elapsed().as_secs_f64()
}

#[test]
fn many_waiting_calls_cost_others_little_and_are_not_polled() {
    let (waiting, others, runs) = if is_full() { (10_000, 60_000, 2_000) } else { (500, 2_000, 200) };
    let mut alone = Site::new();
    let mut worker = alone.trial.worker(&["--concurrency", "64"]);
    let rate_alone = run_others(&mut alone, others);
    alone.trial.stop(&mut worker);

    let mut site = Site::new();
    site.set("few", Limit::concurrent(4));
    let mut worker = site.trial.worker(&["--concurrency", "64"]);
    site.enqueue((0..waiting).map(|n| tasks::span::call(n.to_string(), 5)));
    wait::until("calls to be parked", PATIENCE, || site.len("LLEN", "q:l:few") > waiting * 8 / 10);
    let rate = run_others(&mut site, others);
    let before = limited(&site.trial.ledger.lines());
    site.trial.commands();
    wait::until("limited calls to run", PATIENCE, || {
        limited(&site.trial.ledger.lines()) >= (before + 2 * runs).min(2 * waiting as usize)
    });
    let commands = site.trial.commands();
    let lines = site.trial.ledger.lines();
    let requests: u64 = ["evalsha", "echo", "blmove"].iter().filter_map(|name| commands.get(*name)).sum();
    let each = 2.0 * requests as f64 / (limited(&lines) - before) as f64;
    println!("{each:.1} requests for each limited call; {rate:.0} others in a second, {rate_alone:.0} alone");
    assert!(each <= REQUESTS, "expected at most {REQUESTS} requests for each limited call: {each}");
    let of_limited: Vec<String> = lines.into_iter().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(most(&of_limited), 4);
    site.trial.stop(&mut worker);
}

/// How many runs there were in each second but the first, in which workers begin to learn how quick the task is, and the last.
fn in_each_second(times: &[u64]) -> Vec<usize> {
    let seconds = times[times.len() - 1] / 1000;
    let count = |second| times.iter().filter(|time| **time / 1000 == second).count();
    (1..seconds).map(count).collect()
}

/// So many calls begin in each second, with two workers, give or take so many percent.
#[track_caller]
fn assert_rate(rate: u32, seconds: u32, percent: usize, site: &Site) {
    let runs = rate * (seconds + 1);
    let mut workers = [site.trial.worker(&[]), site.trial.worker(&[])];
    site.trial.wait_runs(runs as usize);
    let times = times(site);
    let counts = in_each_second(&times);
    println!("runs in each second: {counts:?}");
    assert_eq!(excess(&times, rate), 0.0, "expected no runs above the rate: {counts:?}");
    let took = times[times.len() - 1];
    let slowest = u64::from(seconds + 1) * 1200 + 2000;
    assert!(took <= slowest, "expected the rate to be reached: {runs} runs took {took} ms");
    // What a machine does that is busy with other tests: some begin late.
    let is_kept = |count: &usize| count.abs_diff(rate as usize) * 100 <= percent * rate as usize;
    assert!(!is_full() || counts.iter().all(is_kept), "expected {rate} runs in each second: {counts:?}");
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
}

#[test]
fn rate_of_many_calls_is_kept_in_every_second() {
    let (rate, seconds) = if is_full() { (1000, 10) } else { (500, 2) };
    let site = Site::new();
    site.set("rate", Limit::at_rate(rate, Duration::from_secs(1)));
    site.enqueue((0..rate * (seconds + 1)).map(|_| tasks::stamp::call(false)));
    assert_rate(rate, seconds, 2, &site);
}

/// A fifth of the runs are of calls that fail in their first attempt, a tenth of calls that die, and a tenth of calls that are
/// delayed. Retries come when others have their tokens already, so more begin a few milliseconds late.
#[test]
fn rate_is_kept_in_every_second_whatever_becomes_of_calls() {
    let (rate, seconds) = if is_full() { (1000, 10) } else { (500, 2) };
    let mut site = Site::new();
    site.set("rate", Limit::at_rate(rate, Duration::from_secs(1)));
    let tenth = rate * (seconds + 1) / 10;
    let delayed = |n: u32| tasks::stamp::call(false).after(Duration::from_secs(1) * seconds * n / tenth);
    for n in 0..tenth {
        let kinds = [
            tasks::stamp::call(true).untyped(),
            tasks::stamp_and_die::call().untyped(),
            delayed(n).untyped(),
        ];
        let plain = (0..6).map(|_| tasks::stamp::call(false).untyped());
        site.enqueue(kinds.into_iter().chain(plain));
    }
    assert_rate(rate, seconds, 5, &site);
    assert_eq!(site.trial.dead(), tenth as usize);
}
