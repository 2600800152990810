//! What becomes of followed and cancelled calls when a right is missing, until it is given.

use delayed::{CallState, Inspector};
use redis::Commands;

use super::{Site, tasks};
use crate::support::redis::everything;
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

#[test]
fn cancelled_calls_never_run_whatever_their_worker_may() {
    for right in [
        "-zscore", "-exists", "-zrem", "-get", "-hget", "-lpop", "-set", "-hset", "-hsetnx", "-hdel",
        "-zadd", "-unlink", "-publish",
    ] {
        let mut site = Site::new();
        let url = site.without("+@all");
        let mut worker = site.trial.worker_at(&url, &["--lease", "1s", "--concurrency", "4"]);
        site.allow(&[right]);
        // None is claimed before half of them are cancelled.
        let queue = "q".parse().unwrap();
        let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
        site.runtime.block_on(inspector.pause(&queue, "anna")).unwrap();
        let calls: Vec<_> = (0..8).map(|n| site.enqueue(tasks::noted::call(n.to_string()))).collect();
        for handle in calls.iter().step_by(2) {
            assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), delayed::Cancelled::Waiting);
        }
        site.runtime.block_on(inspector.resume(&queue, "anna")).unwrap();
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            worker.printed().contains("grant it") || site.trial.left() == (0, 0)
        });
        site.allow(&["+@all"]);
        for (place, handle) in calls.iter().enumerate() {
            let end = if place % 2 == 0 { CallState::Cancelled } else { CallState::Succeeded };
            site.wait_state(handle, end);
        }
        site.trial.wait_settled();
        site.trial.stop(&mut worker);
        site.trial.ledger.assert_each_once((0..8).filter(|n| n % 2 == 1));
        // A mark is removed with its call. One that its worker might not remove is of no other call, and expires.
        let marks: Vec<Vec<u8>> = site.trial.redis.zrange("q_cancelled", 0, -1).unwrap();
        let is_cancelled = |mark: &Vec<u8>| {
            calls.iter().step_by(2).any(|handle| handle.id().unwrap().as_bytes()[..] == mark[..])
        };
        assert!(marks.iter().all(is_cancelled), "{right}: expected marks of cancelled calls only: {marks:?}");
        assert!(marks.is_empty() || right == "-zrem", "{right}: expected no marks, not {marks:?}");
        let left_ms: i64 = site.trial.redis.pttl("q_cancelled").unwrap();
        assert!(marks.is_empty() || left_ms > 0, "{right}: expected the marks to expire");
    }
}

#[test]
fn progress_that_may_not_be_written_holds_up_no_run() {
    for right in ["-hset", "-hget", "-evalsha"] {
        let mut site = Site::new();
        let url = site.without("+@all");
        let gate = site.trial.gate("gate");
        let mut worker = site.trial.worker_at(&url, &["--lease", "2s"]);
        let first = site.enqueue(tasks::gated::call(gate.clone()));
        site.wait_state(&first, CallState::Running);
        site.allow(&[right]);
        let handle = site.enqueue(tasks::steps::call(gate.clone()));
        wait::until("a refusal", PATIENCE, || worker.printed().contains("grant it"));
        site.allow(&["+@all"]);
        open(&gate);
        site.wait(&handle).unwrap();
        site.wait(&first).unwrap();
        site.trial.stop(&mut worker);
    }
}

#[test]
fn pause_without_a_right_changes_nothing() {
    let queue = "q".parse().unwrap();
    for (paused, right) in [(false, "-set"), (false, "-evalsha"), (true, "-unlink"), (true, "-get")] {
        let mut site = Site::new();
        let url = site.without("+@all");
        let poor = site.runtime.block_on(Inspector::connect(&url)).unwrap();
        if paused {
            site.runtime.block_on(poor.pause(&queue, "anna")).unwrap();
        }
        let change = |site: &Site| match paused {
            true => site.runtime.block_on(poor.resume(&queue, "berta")),
            false => site.runtime.block_on(poor.pause(&queue, "berta")),
        };
        site.allow(&[right]);
        let before = everything(&mut site.trial.redis);
        let error = change(&site).expect_err(right);
        assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Denied), "{right}: {error}");
        assert_eq!(everything(&mut site.trial.redis), before, "{right}");
        site.allow(&["+@all"]);
        assert!(change(&site).unwrap().changed, "{right}");
    }
}
