//! Processes that die, a Redis that is full, and keys of other types.

use std::collections::BTreeMap;

use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

#[test]
fn worker_that_dies_loses_no_item() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    site.enqueue((0..10).map(|n| tasks::gated::call((n, gate.clone()))));
    let mut first = site.trial.worker(&["--lease", "1s"]);
    wait::until("all batches to be taken", PATIENCE, || site.trial.left() == (0, 3));
    first.kill9();
    let worker = site.trial.worker(&["--lease", "1s"]);
    open(&gate);
    site.trial.wait_runs(10);
    site.wait_done();
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    site.trial.ledger.lines().iter().for_each(|line| *counts.entry(line.parse().unwrap()).or_default() += 1);
    assert_eq!(counts, (0..10).map(|n| (n, 1)).collect(), "expected each item to run once");
    drop(worker);
}

#[test]
fn filling_batch_outlives_all_processes() {
    let mut site = Site::new();
    site.enqueue((0..3).map(|n| tasks::collect::call(format!("ok:{n}"))));
    assert_eq!(site.filling("batches.collect"), 3);
    wait::until("it to be due", PATIENCE, || {
        let due: f64 = site.trial.redis.zscore("q_due", "gbatches.collect").unwrap();
        let now: (f64, f64) = redis::cmd("TIME").query(&mut site.trial.redis).unwrap();
        now.0 * 1000.0 > due
    });
    let worker = site.trial.worker(&[]);
    site.trial.wait_runs(1);
    assert_eq!(site.trial.ledger.lines(), ["ok:0 ok:1 ok:2"]);
    drop(worker);
}

#[test]
fn full_redis_takes_no_item_and_loses_none() {
    let mut site = Site::new();
    site.enqueue((0..4).map(|n| tasks::collect::call(format!("ok:{n}"))));
    let limit = |site: &mut Site, bytes: u64| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut site.trial.redis).unwrap();
    };
    limit(&mut site, 1);
    let refused = site.runtime.block_on(site.client.enqueue(tasks::collect::call("ok:4".into())));
    let refused = refused.map(drop).unwrap_err();
    assert!(!refused.may_have_been_applied(), "{refused:?}");
    limit(&mut site, 0);
    assert_eq!((site.filling("batches.collect"), site.trial.left()), (4, (0, 0)));
    site.enqueue_one(tasks::collect::call("ok:4".into()));
    assert_eq!((site.filling("batches.collect"), site.trial.left()), (0, (1, 0)));
}

#[test]
fn key_of_another_type_is_reported_and_kept() {
    let mut site = Site::new();
    let () = site.trial.redis.set("q:g:batches.collect", "text").unwrap();
    let refused = site.runtime.block_on(site.client.enqueue(tasks::collect::call("ok:1".into())));
    let refused = format!("{:?}", refused.map(drop).unwrap_err());
    assert!(refused.contains("q:g:"), "expected the key to be told: {refused}");
    // Others are not held up by it.
    let () = site.trial.redis.zadd("q_due", "gbatches.collect", 1).unwrap();
    site.enqueue((0..5).map(|n| tasks::collect_at_once::call(format!("ok:{n}"))));
    site.enqueue((0..2).map(|n| tasks::collect_at_once::call(format!("ok:{n}"))));
    let worker = site.trial.worker(&[]);
    site.trial.wait_runs(2);
    let text: String = site.trial.redis.get("q:g:batches.collect").unwrap();
    assert_eq!(text, "text");
    drop(worker);
}
