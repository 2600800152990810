//! Workers that die while they hold a limit, and calls that are retried.

use delayed::Limit;
use delayed::testing::{Fault, Proxy, Requests, Side, Trap};
use nix::sys::signal::Signal;

use super::{KEYS, Site, most, tasks};
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

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

/// A worker whose limit does not answer.
fn deaf(site: &mut Site, fault: Fault) -> (Proxy, Trap, Program) {
    site.set("few", Limit::concurrent(1));
    let proxy = site.trial.server.proxy();
    let trap = proxy.trap(Side::Reply, Requests::script("acquire").nth(1), fault);
    let worker = site.trial.worker_at(proxy.url(), &["--lease", "2s", "--shutdown", "100ms"]);
    site.enqueue([tasks::span::call("n".into(), 0)]);
    wait::until("the limit to be asked", PATIENCE, || trap.met() >= 1);
    (proxy, trap, worker)
}

#[test]
fn call_whose_limit_does_not_answer_is_put_back_at_the_end() {
    let mut site = Site::new();
    let (_proxy, _trap, mut asking) = deaf(&mut site, Fault::Hold);
    asking.signal(Signal::SIGTERM);
    wait::until("the call to wait", PATIENCE, || site.trial.state().waiting.len() == 1);
    asking.kill9();
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(2);
    site.trial.wait_settled();
    site.trial.ledger.assert_each_once(["+n", "-n"]);
    site.trial.stop(&mut worker);
}

#[test]
fn limit_is_asked_again_when_the_connection_breaks() {
    let mut site = Site::new();
    let (_proxy, _trap, mut worker) = deaf(&mut site, Fault::End);
    site.trial.wait_runs(2);
    site.trial.wait_settled();
    site.trial.ledger.assert_each_once(["+n", "-n"]);
    site.assert_free("few");
    site.trial.stop(&mut worker);
    site.trial.assert_only(&KEYS);
}

#[test]
fn calls_are_parked_and_run_once_each_while_the_network_breaks() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(3));
    let proxy = site.trial.server.proxy();
    for (script, nth) in [("acquire", 2), ("park", 1), ("wake", 3), ("unpark", 2), ("acquire", 9)] {
        proxy.trap(Side::Reply, Requests::script(script).nth(nth), Fault::End);
        proxy.trap(Side::Request, Requests::script(script).nth(nth + 3), Fault::End);
    }
    let mut worker = site.trial.worker_at(proxy.url(), &[]);
    site.enqueue((0..100).map(|n| tasks::span::call(n.to_string(), 1)));
    site.trial.wait_runs(200);
    site.trial.wait_settled();
    assert_eq!(most(&site.trial.ledger.lines()), 3);
    site.trial.ledger.assert_each_once((0..100).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
    site.assert_free("few");
    site.trial.stop(&mut worker);
}
