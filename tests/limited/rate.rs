//! How many calls begin in a period.

use std::time::{Duration, UNIX_EPOCH};

use delayed::Limit;

use super::{Site, tasks};
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// When calls began, in milliseconds since 1970.
fn stamps(site: &Site) -> Vec<u64> {
    let mut stamps: Vec<u64> = site.trial.ledger.lines().iter().map(|line| line.parse().unwrap()).collect();
    stamps.sort_unstable();
    stamps
}

/// The same from the first on.
pub(super) fn times(site: &Site) -> Vec<u64> {
    let stamps = stamps(site);
    stamps.iter().map(|stamp| stamp - stamps[0]).collect()
}

/// How long after its token a call may begin on a machine that is busy with other tests, in milliseconds.
const LATE: f64 = 1000.0;

/// From any start to any other, no more calls begin than the rate allows in the time between them and in [`LATE`]: whenever a
/// call gets its token, it may begin that much later. `rate` is for a second. Gives by how many runs it is not so.
pub(super) fn excess(times: &[u64], rate: u32) -> f64 {
    // As far as calls that are late come to be on time again.
    let each_ms = f64::from(rate) * 1.02 / 1000.0;
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for (begun, time) in (0_u32..).zip(times) {
        let ahead = f64::from(begun) - each_ms * *time as f64;
        least = least.min(ahead);
        most = most.max(ahead + 1.0 - least);
    }
    let allowed = each_ms * LATE + 1.0;
    println!("at most {most:.0} runs more than {rate} in each second; {allowed:.0} are allowed");
    (most - allowed).max(0.0)
}

#[test]
fn runs_above_a_rate_are_told_apart_from_late_ones() {
    let at_rate = |rate: u64, count: u64| (0..count).map(move |n| n * 1000 / rate);
    let times = |rate, count| at_rate(rate, count).collect::<Vec<u64>>();
    assert_eq!(excess(&times(200, 1000), 200), 0.0);
    // All that was to begin within nine tenths of a second begins behind them.
    let stalled: Vec<u64> =
        at_rate(200, 1000).map(|time| if (2000..2900).contains(&time) { 2900 } else { time }).collect();
    assert_eq!(excess(&stalled, 200), 0.0);
    // Each token lets two calls begin, or the second attempt of each call needs none: both for the number of calls below.
    assert!(excess(&times(400, 1000), 200) > 100.0);
    // So many come at once that they had no tokens.
    let flood: Vec<u64> = at_rate(200, 1000).map(|time| if time < 3000 { time } else { 3000 }).collect();
    assert!(excess(&flood, 200) > 100.0);
}

#[test]
fn rate_is_kept_with_delayed_failing_and_dying_calls() {
    let mut site = Site::new();
    site.set("rate", Limit::at_rate(200, "1s"));
    // Each fails once, so that a rate that did not count these runs would be twice as high.
    site.enqueue((0..450).map(|_| tasks::stamp::call(true)));
    site.enqueue((450..500).map(|n| tasks::stamp::call(true).after(Duration::from_millis(n))));
    let mut killed = site.trial.worker(&["--lease", "1s"]);
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    site.trial.wait_runs(300);
    killed.kill9();
    wait::until("all calls to be done", PATIENCE, || {
        site.trial.left() == (0, 0)
            && site.len("ZCARD", "q_due") == 0
            && site.trial.ledger.lines().len() >= 1000
    });
    let times = times(&site);
    assert_eq!(excess(&times, 200), 0.0, "expected no runs above the rate: {times:?}");
    wait::until("nobody to hold it", PATIENCE, || {
        let ends: Vec<(String, f64)> = redis::cmd("ZRANGE")
            .arg(&["{delayed:rate}:holders", "0", "-1", "WITHSCORES"])
            .query(&mut site.trial.redis)
            .unwrap();
        ends.iter().all(|(holder, _)| !holder.contains(worker_id(&worker.printed())))
    });
    site.trial.stop(&mut worker);
}

/// The id of a worker, as it says when it serves.
fn worker_id(said: &str) -> &str {
    let (_, rest) = said.split_once("\"worker\":\"").expect("a worker says who it is");
    &rest[..16]
}

#[test]
fn burst_lets_calls_begin_at_once_and_the_rest_evenly() {
    let mut site = Site::new();
    site.set("rate", Limit::at_rate(1, "1h").burst(5));
    site.enqueue((0..8).map(|_| tasks::stamp::call(false)));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(5);
    wait::until("the rest to wait for its tokens", PATIENCE, || site.len("ZCARD", "q_due") == 3);
    site.trial.wait_settled();
    assert_eq!(site.trial.ledger.lines().len(), 5);
    site.trial.stop(&mut worker);

    let mut site = Site::new();
    site.set("rate", Limit::at_rate(10, "1s").burst(5));
    let began = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    site.enqueue((0..8).map(|_| tasks::stamp::call(false)));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(8);
    let times: Vec<u64> = stamps(&site).iter().map(|time| time - began).collect();
    assert!((5..8).all(|n| times[n] as usize >= 95 + (n - 5) * 100), "{times:?}");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
}
