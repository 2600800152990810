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

/// Each ten consecutive windows of a second have as many runs as the rate allows, within so many percent: a machine that is busy with other tests
/// lets some begin late.
#[track_caller]
pub(super) fn assert_rate(times: &[u64], rate: usize, percent: usize) {
    let windows = (times[times.len() - 1] / 1000) as usize;
    for window in 0..windows {
        let of_window = |time: &&u64| (window as u64 * 1000..(window as u64 + 1) * 1000).contains(*time);
        let count = times.iter().filter(of_window).count();
        assert!(
            count.abs_diff(rate) * 100 <= rate * percent,
            "expected {rate} runs in second {window}, not {count}"
        );
    }
}

#[test]
fn rate_is_kept_with_delayed_and_failing_calls() {
    let mut site = Site::new();
    site.set("rate", Limit::at_rate(200, "1s"));
    let call = |n: u64| tasks::stamp::call(n.is_multiple_of(10));
    site.enqueue((0..500).map(call));
    site.enqueue((500..600).map(|n| call(n).after(Duration::from_millis(n))));
    let mut workers = [site.trial.worker(&[]), site.trial.worker(&[])];
    site.trial.wait_runs(660);
    site.trial.wait_settled();
    assert_rate(&times(&site), 200, 10);
    wait::until("nobody to hold it", PATIENCE, || site.len("ZCARD", "{delayed:rate}:holders") == 0);
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
    assert_eq!(site.trial.ledger.total(), 660);
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
