//! Workers that die while they hold a limit, and calls that are retried.

use delayed::Limit;

use super::{KEYS, Site, most, tasks};
use crate::support::trial::open;

#[test]
fn limit_of_a_killed_worker_is_free_when_its_lease_ends() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(1));
    let gate = site.trial.gate("gate");
    site.enqueue((0..3).map(|n| tasks::gated::call(n.to_string(), gate.clone())));
    let mut killed = site.trial.worker(&["--lease", "1s"]);
    site.trial.wait_runs(1);
    site.wait_parked("few", 2);
    killed.kill9();
    open(&gate);
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    site.trial.wait_runs(1 + 6);
    site.assert_free("few");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
}

#[test]
fn retried_calls_give_their_limit_back_meanwhile() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(2));
    site.enqueue((0..10).map(|n| tasks::flaky::call(n.to_string())));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(40);
    assert_eq!(most(&site.trial.ledger.lines()), 2);
    site.assert_free("few");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    site.trial.assert_only(&KEYS);
}

#[test]
fn stopped_worker_gives_its_limits_back() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(2));
    let gate = site.trial.gate("gate");
    site.enqueue((0..4).map(|n| tasks::gated::call(n.to_string(), gate.clone())));
    let mut stopped = site.trial.worker(&["--shutdown", "100ms"]);
    site.trial.wait_runs(2);
    site.wait_parked("few", 2);
    site.trial.stop(&mut stopped);
    assert_eq!(site.len("ZCARD", "{delayed:few}:holders"), 0);
    open(&gate);
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(2 + 8);
    site.assert_free("few");
    site.trial.stop(&mut worker);
}
