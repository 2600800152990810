//! Calls with one key run one after the other, in the order of their enqueue, whatever happens.

use std::time::Duration;

use delayed::{Call, CallState, Cancelled};
use redis::Commands;

use super::{Site, most, tasks};
use crate::support::trial::{PATIENCE, marks, open};
use crate::support::wait;

impl Site {
    /// The calls that wait behind an ordered one.
    fn behind(&mut self) -> u64 {
        let orders: Vec<String> = self.trial.redis.keys("q:l:order:*").unwrap();
        orders.iter().map(|order| self.trial.redis.llen::<_, u64>(order).unwrap()).sum()
    }

    /// Nothing but what is there without any calls.
    fn assert_nothing_left(&mut self) {
        self.trial.wait_settled();
        let keys: Vec<String> = self.trial.redis.keys("q:[clu]:*").unwrap();
        let parked: bool = self.trial.redis.exists("q_parked").unwrap();
        assert_eq!((keys, parked), (Vec::new(), false));
    }
}

fn span(n: usize, ms: u64) -> Call {
    tasks::free_span::call(n.to_string(), ms).untyped()
}

/// The calls that began, in that order.
fn begun(lines: &[String]) -> Vec<String> {
    lines.iter().filter_map(|line| line.strip_prefix('+')).map(str::to_owned).collect()
}

#[test]
fn calls_of_one_key_run_in_order_over_several_workers() {
    let mut site = Site::new();
    let key = |n: usize| format!("customer:{}", n % 5);
    site.enqueue((0..200).map(|n| span(n, (n % 3) as u64).ordered(key(n))));
    let mut workers = [(); 3].map(|()| site.trial.worker(&["--concurrency", "8"]));
    site.enqueue((200..300).map(|n| span(n, 0).ordered(key(n))));
    site.trial.wait_runs(600);
    let lines = site.trial.ledger.lines();
    for customer in 0..5 {
        let is_of = |line: &&String| line[1..].parse::<usize>().unwrap() % 5 == customer;
        let own: Vec<String> = lines.iter().filter(is_of).cloned().collect();
        let expected = (customer..300).step_by(5).flat_map(|n| [format!("+{n}"), format!("-{n}")]);
        assert_eq!(own, expected.collect::<Vec<_>>(), "expected the calls of customer {customer} one by one");
    }
    assert!(most(&lines) > 1, "expected calls of several keys to run at a time");
    site.assert_nothing_left();
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
}

#[test]
fn retried_call_keeps_its_place_before_later_ones() {
    let mut site = Site::new();
    let flaky = |n: &str| tasks::free_flaky::call(n.into()).backoff("fixed:300ms".parse().unwrap()).untyped();
    site.enqueue([flaky("a").ordered("k"), flaky("b").ordered("k"), span(3, 0).ordered("k")]);
    let mut workers = [(); 2].map(|()| site.trial.worker(&["--concurrency", "4"]));
    site.trial.push(&marks(10));
    site.trial.wait_runs(10 + 4 + 2);
    let lines = site.trial.ledger.lines();
    let own: Vec<&String> = lines.iter().filter(|line| line.starts_with(['+', 'a', 'b'])).collect();
    assert_eq!(own, ["a 1", "a 2", "b 1", "b 2", "+3"]);
    site.assert_nothing_left();
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
}

#[test]
fn call_of_a_killed_worker_runs_again_before_later_ones() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let held = || tasks::free_gated::call("held".into(), gate.clone()).ordered("k").untyped();
    site.enqueue([held(), span(1, 0).ordered("k"), span(2, 0).ordered("k")]);
    let mut first = site.trial.worker(&["--lease", "1s"]);
    site.trial.wait_runs(1);
    let mut second = site.trial.worker(&["--lease", "1s"]);
    assert_eq!(site.behind(), 2);
    first.kill9();
    site.trial.wait_runs(2);
    open(&gate);
    site.trial.wait_runs(2 + 1 + 4);
    let lines = site.trial.ledger.lines();
    assert_eq!(begun(&lines), ["held", "held", "1", "2"]);
    site.assert_nothing_left();
    site.trial.stop(&mut second);
}

#[test]
fn every_end_of_a_call_lets_the_next_one_run() {
    let mut site = Site::new();
    let client = site.client.clone();
    let send = |call: Call| site.runtime.block_on(client.enqueue(call)).unwrap();
    let first = send(tasks::free_gated::call("a".into(), "never".into()).ordered("k").untyped());
    let fails = send(tasks::free_fails::call().ordered("k").untyped());
    let expired =
        send(span(3, 0).ordered("k").keep(Duration::from_secs(60)).expires(Duration::from_millis(1)));
    let dropped = send(span(4, 0).ordered("k"));
    send(span(5, 0).ordered("k"));
    assert_eq!(site.runtime.block_on(fails.state()).unwrap(), Some(CallState::Waiting));
    assert_eq!(site.runtime.block_on(dropped.cancel()).unwrap(), Cancelled::Waiting);
    assert_eq!(site.behind(), 4);
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(1);
    assert_eq!(site.runtime.block_on(first.cancel()).unwrap(), Cancelled::Running);
    site.trial.wait_runs(3);
    site.trial.wait_settled();
    assert_eq!(begun(&site.trial.ledger.lines()), ["a", "5"]);
    assert_eq!(site.runtime.block_on(expired.state()).unwrap(), Some(CallState::Expired));
    assert_eq!((site.trial.dead(), site.behind()), (2, 0));
    site.trial.stop(&mut worker);
}

#[test]
fn purge_drops_calls_that_wait_for_their_turn() {
    let mut site = Site::new();
    site.enqueue((0..30).map(|n| span(n, 0).ordered("k")));
    assert_eq!((site.behind(), site.trial.state().waiting.len()), (29, 1));
    let inspector = site.runtime.block_on(delayed::Inspector::connect(&site.trial.server.url())).unwrap();
    assert_eq!(site.runtime.block_on(inspector.purge(&"q".parse().unwrap(), &mut |_, _| {})).unwrap(), 30);
    site.assert_nothing_left();
}

/// The holder of the lock is dropped by somebody who knows no locks.
#[test]
fn sweep_goes_on_with_calls_whose_predecessor_is_gone() {
    let mut site = Site::new();
    site.enqueue((0..3).map(|n| span(n, 0).ordered("k")));
    let () = redis::cmd("LPOP").arg("q").query(&mut site.trial.redis).unwrap();
    let () = redis::cmd("LPOP").arg("q_noti").query(&mut site.trial.redis).unwrap();
    let locks: Vec<String> = site.trial.redis.keys("q:u:*").unwrap();
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    site.trial.push(&marks(1));
    site.trial.wait_runs(1);
    assert_eq!(site.behind(), 2, "expected them to wait as long as the lock is held");
    let () = site.trial.redis.del(locks).unwrap();
    site.trial.wait_runs(1 + 4);
    wait::until("all to be settled", PATIENCE, || site.trial.redis.llen::<_, u64>("q").unwrap() == 0);
    assert_eq!(begun(&site.trial.ledger.lines()), ["1", "2"]);
    site.trial.stop(&mut worker);
}
