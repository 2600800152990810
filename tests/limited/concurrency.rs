//! How many calls run at a time, and in which order.

use delayed::Limit;

use super::{KEYS, Site, most, tasks};
use crate::support::trial::{PATIENCE, marks, open};
use crate::support::wait;

#[test]
fn tasks_of_all_kinds_share_a_limit() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(3));
    let name = |n: u64| n.to_string();
    site.enqueue((0..40).map(|n| tasks::span::call(name(n), n % 7)));
    site.enqueue((40..80).map(|n| tasks::span_blocking::call(name(n), n % 7)));
    site.enqueue((80..90).map(|n| tasks::span_apart::call(name(n), n % 7)));
    let mut workers =
        [site.trial.worker(&["--concurrency", "16"]), site.trial.worker(&["--concurrency", "16"])];
    site.trial.wait_runs(180);
    assert_eq!(most(&site.trial.ledger.lines()), 3);
    site.trial.ledger.assert_each_once((0..90).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
    site.assert_free("few");
    site.trial.wait_settled();
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
}

#[test]
fn calls_at_their_limit_hold_no_slot_and_wait_in_order() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(1));
    let gate = site.trial.gate("gate");
    site.enqueue([tasks::gated::call("first".into(), gate.clone())]);
    let mut worker = site.trial.worker(&["--concurrency", "2"]);
    site.trial.wait_runs(1);
    site.enqueue((0..50).map(|n| tasks::span::call(n.to_string(), 0)));
    site.wait_parked("few", 50);
    site.trial.push(&marks(100));
    site.trial.wait_runs(101);
    open(&gate);
    site.trial.wait_runs(1 + 100 + 1 + 100);
    let lines = site.trial.ledger.lines();
    let order: Vec<&str> = lines[102..].iter().filter_map(|line| line.strip_prefix('+')).collect();
    assert_eq!(order, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    site.assert_free("few");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    site.trial.assert_only(&KEYS);
}

#[test]
fn calls_with_the_same_bytes_are_limited_and_run_once_each() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(4));
    site.enqueue((0..300).map(|_| tasks::alike::call()));
    let mut worker = site.trial.worker(&["--concurrency", "64"]);
    site.trial.wait_runs(600);
    site.assert_free("few");
    site.trial.wait_settled();
    let lines = site.trial.ledger.lines();
    assert_eq!((lines.len(), most(&lines)), (600, 4));
    site.trial.stop(&mut worker);
    site.trial.assert_only(&KEYS);
}

#[test]
fn limit_can_be_lowered_below_its_holders_and_raised() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(4));
    let gates: Vec<_> = (0..8).map(|n| site.trial.gate(&format!("gate{n}"))).collect();
    site.enqueue((0..8).map(|n| tasks::gated::call(n.to_string(), gates[n].clone())));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(4);
    site.wait_parked("few", 4);
    site.set("few", Limit::concurrent(2));
    open(&gates[0]);
    open(&gates[1]);
    site.trial.wait_runs(6);
    wait::until("two to hold the limit", PATIENCE, || site.len("ZCARD", "{delayed:few}:holders") == 2);
    assert_eq!(site.len("LLEN", "q:l:few"), 4, "expected nobody to begin");
    site.set("few", Limit::concurrent(6));
    site.trial.wait_runs(10);
    gates.iter().for_each(|gate| open(gate));
    site.trial.wait_runs(16);
    site.assert_free("few");
    site.trial.stop(&mut worker);
}

#[test]
fn call_with_several_limits_holds_none_while_it_waits() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(1));
    site.set("a", Limit::concurrent(1));
    let gate = site.trial.gate("gate");
    site.enqueue([tasks::gated::call("first".into(), gate.clone())]);
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(1);
    site.enqueue([tasks::span::call("second".into(), 0).limit("a")]);
    site.wait_parked("few", 1);
    wait::until("the other limit to be free", PATIENCE, || site.len("ZCARD", "{delayed:a}:holders") == 0);
    site.enqueue([tasks::plain::call("third".into()).limit("a")]);
    site.trial.wait_runs(2);
    open(&gate);
    site.trial.wait_runs(5);
    ["few", "a"].into_iter().for_each(|limit| site.assert_free(limit));
    site.trial.stop(&mut worker);
}

#[test]
fn limit_without_a_policy_warns_once_and_limits_nothing() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    site.enqueue((0..20).map(|n| tasks::plain::call(n.to_string()).limit("unset")));
    site.trial.wait_runs(20);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert_eq!(worker.printed().matches("limit has no policy").count(), 1);
}

#[test]
fn limit_of_a_queue_holds_for_each_of_its_calls() {
    let mut site = Site::new();
    site.set("smtp", Limit::concurrent(2));
    let name = |n: u64| n.to_string();
    site.enqueue((0..30).map(|n| tasks::free_span::call(name(n), 3)));
    site.enqueue((30..60).map(|n| tasks::free_span::call(name(n), 3).limit("smtp").limit("other")));
    let words = ["--concurrency", "16", "--queue-limit", "q=smtp"];
    let mut workers = [site.trial.worker(&words), site.trial.worker(&words)];
    site.trial.wait_runs(120);
    assert_eq!(most(&site.trial.ledger.lines()), 2);
    site.trial.ledger.assert_each_once((0..60).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
    site.assert_free("smtp");
    site.trial.wait_settled();
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));
    for (limit, says) in
        [("smtp", "such as `mail=github`"), ("r=smtp", "does not serve the queue"), ("q=a b", "a b")]
    {
        let mut refused = site.trial.start(&["--queue-limit", limit]);
        let code = refused.wait_exit(PATIENCE).code();
        assert!(
            code != Some(0) && refused.printed().contains(says),
            "{limit}: {code:?} {}",
            refused.printed()
        );
    }
}

#[test]
fn builder_refuses_limits_of_queues_that_it_cannot_have() {
    let site = Site::new();
    for (queue, limit, says) in [("q", "a b", "a b"), ("other", "smtp", "does not serve the queue")] {
        let worker = delayed::Worker::builder(&site.trial.server.url()).queue("q").queue_limit(queue, limit);
        let error = site.runtime.block_on(worker.connect()).unwrap_err();
        assert!(error.to_string().contains(says), "{queue}={limit}: {error}");
    }
}
