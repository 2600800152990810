//! Limits that a Python program sets.

use std::collections::BTreeMap;

use delayed::Limit;
use redis::Commands;
use serde_json::{Value, json};

use super::{Site, tasks};
use crate::support::python::{QUEUES, follow};
use crate::support::trial::open;

fn set(policy: &Value) -> [Value; 1] {
    [json!({"kind": "limit", "path": "few", "policy": policy})]
}

/// What stands in Redis.
fn policy(site: &mut Site) -> BTreeMap<String, String> {
    let names: Vec<String> = site.trial.redis.smembers("delayed_limits").unwrap();
    assert_eq!(names, ["few"]);
    site.trial.redis.hgetall("{delayed:few}:policy").unwrap()
}

#[test]
fn policy_that_python_sets_is_that_of_rust() {
    let policies = [
        (json!({"concurrency": 4}), Limit::concurrent(4)),
        (json!({"rate": 100, "period": 60}), Limit::at_rate(100, "1m")),
        (
            json!({"concurrency": 4, "rate": 100, "period": 0.5, "burst": 7}),
            Limit::concurrent(4).rate(100, "500ms").burst(7),
        ),
        (json!({"concurrency": 1}), Limit::concurrent(1)),
    ];
    for queue in QUEUES {
        let mut site = Site::new();
        for (ours, theirs) in policies.clone() {
            follow(&site.trial, queue, &set(&ours));
            let found = policy(&mut site);
            site.set("few", theirs);
            assert_eq!(found, policy(&mut site), "{ours}");
        }
    }
}

#[test]
fn limit_that_python_raises_lets_waiting_calls_run() {
    for queue in QUEUES {
        let mut site = Site::new();
        let gate = site.trial.gate("gate");
        follow(&site.trial, queue, &set(&json!({"concurrency": 1})));
        let mut worker = site.trial.worker(&[]);
        site.enqueue((0..4).map(|n| tasks::gated::call(n.to_string(), gate.clone())));
        site.trial.wait_runs(1);
        site.wait_parked("few", 3);
        follow(&site.trial, queue, &set(&json!({"concurrency": 3})));
        assert_eq!(
            site.trial.redis.llen::<_, u64>("q:l:few").unwrap(),
            1,
            "expected two to be called at once"
        );
        site.trial.wait_runs(3);
        open(&gate);
        site.trial.wait_runs(8);
        site.trial.stop(&mut worker);
    }
}
