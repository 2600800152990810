//! How many calls begin in a period.

use std::time::Duration;

use delayed::Limit;

use super::{Site, tasks};
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// When calls began, in milliseconds, from the first on.
pub(super) fn times(site: &Site) -> Vec<u64> {
    let mut times: Vec<u64> = site.trial.ledger.lines().iter().map(|line| line.parse().unwrap()).collect();
    times.sort_unstable();
    times.iter().map(|time| time - times[0]).collect()
}

/// How many runs there were in each second but the first, in which workers begin to learn how quick the task is, and the last.
pub(super) fn in_each_second(times: &[u64]) -> Vec<usize> {
    let seconds = times[times.len() - 1] / 1000;
    let count = |second| times.iter().filter(|time| **time / 1000 == second).count();
    let counts: Vec<usize> = (1..seconds).map(count).collect();
    println!("runs in each second: {counts:?}");
    counts
}

#[test]
fn rate_is_kept_with_delayed_failing_and_dying_calls() {
    let mut site = Site::new();
    site.set("rate", Limit::at_rate(200, "1s"));
    let call = |n: u64| tasks::stamp::call(n.is_multiple_of(10));
    site.enqueue((0..700).map(call));
    site.enqueue((700..800).map(|n| call(n).after(Duration::from_millis(n))));
    let mut killed = site.trial.worker(&["--lease", "1s"]);
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    site.trial.wait_runs(300);
    killed.kill9();
    wait::until("all calls to be done", PATIENCE, || {
        site.trial.left() == (0, 0)
            && site.len("ZCARD", "q_due") == 0
            && site.trial.ledger.lines().len() >= 880
    });
    // A death may delay calls for as long as a lease, and they do not begin all at once then.
    let counts = in_each_second(&times(&site));
    assert!(counts.iter().all(|count| *count <= 210), "expected at most 200 runs in each second: {counts:?}");
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
    site.set("rate", Limit::at_rate(10, "1s").burst(5));
    site.enqueue((0..8).map(|_| tasks::stamp::call(false)));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(8);
    let times = times(&site);
    assert!(times[4] < 90 && times[5] >= 95 && times[7] >= 295, "{times:?}");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
}
