//! Flows of a Python program.

use serde_json::{Value, json};

use super::Site;
use crate::support::python::{QUEUES, follow};
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// A flow that is waited for.
fn waited(flow: Value) -> Value {
    json!({"kind": "flow", "flow": flow, "wait": 60})
}

fn number(n: u64) -> Value {
    json!({"call": "flows.number", "args": [n]})
}

fn add(n: u64) -> Value {
    json!({"step": "flows.add", "args": [n]})
}

fn double() -> Value {
    json!({"step": "flows.double", "queue": "other"})
}

#[test]
fn flows_of_python_come_to_their_results() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let sums: Vec<Value> = (1..4).map(|n| json!({"chain": [add(n), double()]})).collect();
    let nested = json!([number(10), {"group": sums}, {"step": "flows.sum"}]);
    let many: Vec<Value> = (0..50).map(number).collect();
    let list = json!({"call": "flows.sum", "args": [[1, 2, 3]]});
    let by_name = json!({"step": "flows.add", "kwargs": {"n": 5}, "retry": 1});
    let apart =
        json!({"step": "flows.add_apart", "args": [3], "queue": "other", "after": 0.2, "expires": 60});
    let flows = [
        waited(json!({"chain": [number(1), add(2), apart, double()]})),
        waited(json!({"group": many, "at_most": 3})),
        waited(json!({"chain": nested})),
        waited(json!({"chain": [number(1), number(2), by_name]})),
        waited(json!({"chain": [{"group": []}, {"step": "flows.sum"}], "after": 0.1, "keep": 60})),
        waited(json!({"group": [list, {"call": "flows.note", "args": ["a"]}]})),
        waited(json!({"chain": [{"call": "flows.flaky", "args": [4]}, add(1)]})),
    ];
    let results = [
        json!(12),
        json!((0..50).collect::<Vec<_>>()),
        json!(72),
        json!(7),
        json!(0),
        json!([6, "a"]),
        json!(5),
    ];
    for queue in QUEUES {
        let said = follow(&site.trial, queue, &flows);
        let found: Vec<&Value> = said.iter().map(|line| &line["result"]).collect();
        assert_eq!(found, results.iter().collect::<Vec<_>>(), "{said:#?}");
    }
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn flow_of_python_fails_as_its_policy_says() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let (missing, never) = (site.trial.gate("missing"), site.trial.gate("never"));
    let needs = json!({"call": "flows.needs", "args": [missing]});
    let gated = json!({"call": "flows.gated", "args": ["a", never]});
    let end = json!({"call": "flows.note", "args": ["never"]});
    let flows = [
        waited(json!({"chain": [needs, end], "on_error": {"step": "flows.alert"}})),
        waited(json!({"group": [gated, needs], "policy": "fail_fast",
            "on_error": {"call": "flows.note", "args": ["failed"]}})),
        waited(json!({"group": [needs, number(3)], "policy": "successes"})),
    ];
    let said = follow(&site.trial, &[], &flows);
    for failed in &said[..2] {
        assert_eq!((&failed["raised"], &failed["reason"]), (&json!("CallFailedError"), &json!("failed")));
        assert!(failed["error"].as_str().unwrap().ends_with("is dead: failed: no such file"), "{failed}");
    }
    assert_eq!(said[2]["result"], json!([3]), "{said:#?}");
    site.assert_done();
    let ran = |line: &str| site.trial.ledger.lines().iter().any(|found| found == line);
    wait::until("both to be told of the failures", PATIENCE, || {
        ran("failed") && ran("alert flows.needs dead failed: no such file")
    });
    assert!(!ran("never") && !ran("-a"), "{:?}", site.trial.ledger.lines());
    site.trial.stop(&mut worker);
}

#[test]
fn flow_is_cancelled_by_python_with_its_steps() {
    for queue in QUEUES {
        let mut site = Site::new();
        let mut worker = site.worker(&[]);
        let never = site.trial.gate("never");
        let gated = |n: &str| json!({"call": "flows.gated", "args": [n, never]});
        let flow = json!({"chain": [{"group": [gated("a"), gated("b")]}, {"call": "flows.note", "args": ["c"]}],
            "id": "order:7"});
        let said = follow(&site.trial, queue, &[json!({"kind": "flow", "flow": flow})]);
        assert_eq!(said[0]["is_new"], true, "{said:#?}");
        site.trial.wait_runs(2);
        let line = json!({"kind": "known", "path": "order:7", "cancel": true, "wait": 60});
        let said = follow(&site.trial, queue, &[line.clone(), line]);
        let cancelled = [&said[0]["cancelled"], &said[1]["cancelled"]];
        assert_eq!(cancelled, [&json!("running"), &json!("cancelled")], "{said:#?}");
        assert!(said.iter().all(|said| said["raised"] == "CallCancelledError"), "{said:#?}");
        site.assert_done();
        site.trial.wait_settled();
        let mut lines = site.trial.ledger.lines();
        lines.sort_unstable();
        assert_eq!(lines, ["+a", "+b"]);
        site.trial.stop(&mut worker);
    }
}

#[test]
fn flow_that_waits_is_cancelled_by_python() {
    for queue in QUEUES {
        let site = Site::new();
        let flow = json!({"chain": [{"call": "flows.note", "args": ["never"]}], "id": "order:7"});
        let said = follow(&site.trial, queue, &[json!({"kind": "flow", "flow": flow, "cancel": true})]);
        assert_eq!(said[0]["cancelled"], "waiting", "{said:#?}");
        let mut worker = site.worker(&["--burst"]);
        site.trial.ended(&mut worker);
        let said = follow(&site.trial, queue, &[json!({"kind": "known", "path": "order:7", "wait": 60})]);
        assert_eq!(said[0]["raised"], "CallCancelledError", "{said:#?}");
        assert_eq!(site.trial.ledger.lines(), [""; 0]);
    }
}
