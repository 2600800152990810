//! Calls that a Python program follows, and shares with Rust.

use delayed::{CallId, CallState, Unique, WaitError};
use redis::Commands;
use serde_json::{Value, json};

use super::Site;
use super::tasks::{self, Receipt};
use crate::support::python::{QUEUES, follow};
use crate::support::trial::open;

/// A call of a task of `tests/programs/followed.rs`, with more options.
fn call(task: &str, args: Value, options: Value) -> Value {
    let mut call = json!({"kind": "rust", "path": format!("followed.{task}"), "args": args, "keep": 3600});
    call.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    call
}

fn known(id: CallId, options: Value) -> Value {
    let mut call = json!({"kind": "known", "path": id.to_string()});
    call.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    call
}

fn id(said: &Value) -> CallId {
    CallId::parse(said["id"].as_str().unwrap()).unwrap()
}

#[test]
fn python_hears_how_its_calls_ended() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for queue in QUEUES {
        let wait = json!({"wait": 60});
        let late = json!({"wait": 60, "expires_at": {"$time": "2001-01-01T00:00:00Z"}});
        let alone = json!({"wait": 60, "keep": null, "unique": "until_done"});
        let said = follow(
            &site.trial,
            queue,
            &[
                call("charge", json!([7]), wait.clone()),
                call("charge_apart", json!([8]), wait.clone()),
                call("text", json!([1 << 20]), wait.clone()),
                call("fail", json!(["no money"]), wait.clone()),
                call("charge", json!([9]), late),
                call("later", json!([]), json!({"wait": 0.05})),
                call("charge", json!([10]), alone),
                known(CallId::new(), wait),
            ],
        );
        assert_eq!(said[0]["result"], json!({"order": 7, "paid": "7 EUR"}), "{said:#?}");
        assert_eq!(said[1]["result"], json!({"order": 8, "paid": null}), "{said:#?}");
        assert_eq!(
            (&said[2]["raised"], &said[2]["size"]),
            (&json!("ResultTooLargeError"), &json!("1048581"))
        );
        let dead = &said[3];
        let told = [&dead["error"], &dead["reason"]];
        assert_eq!(told, [&json!("no money"), &json!("failed")], "{said:#?}");
        let letters: Vec<(String, redis::Value)> =
            redis::cmd("XRANGE").arg(&["q_dead", "-", "+"]).query(&mut site.trial.redis).unwrap();
        assert!(letters.iter().any(|(id, _)| dead["letter"] == json!(id)), "{dead:#?}");
        assert_eq!(said[4]["raised"], "CallExpiredError");
        assert_eq!(said[5]["raised"], "CallTimeoutError");
        assert!(said[6].get("result").is_none_or(Value::is_null), "{said:#?}");
        assert_eq!(said[7]["raised"], "CallNotFoundError");
        let rust = site.client.handle_of::<Receipt>(&"q".parse().unwrap(), id(&said[0]));
        assert_eq!(site.wait(&rust).unwrap().order, 7);
    }
    site.trial.stop(&mut worker);
}

#[test]
fn lock_of_python_is_that_of_rust() {
    let mut site = Site::new();
    for (queue, more) in QUEUES.into_iter().enumerate() {
        let gate = site.trial.gate(&format!("gate-{queue}"));
        let gates = json!([gate]);
        let ours = site.enqueue(tasks::gated::call(gate.clone()));
        let keyed = site.enqueue(tasks::charge::call(1).unique_key(format!("schlüssel {queue}")));
        let none = site.enqueue(tasks::later::call().unique(Unique::UntilDone));
        let said = follow(
            &site.trial,
            more,
            &[
                call("gated", gates.clone(), json!({"unique": "until_done"})),
                call("charge", json!([2]), json!({"unique_key": format!("schlüssel {queue}")})),
                call("later", json!([]), json!({"unique": 60})),
                call("charge", json!([queue]), json!({"unique": "until_started"})),
            ],
        );
        let first = [Some(id(&said[0])), Some(id(&said[1])), Some(id(&said[2]))];
        assert_eq!(first, [ours.id(), keyed.id(), none.id()], "{said:#?}");
        assert_eq!(said[0]["conflict"], json!({"state": "waiting"}));
        assert_eq!(said[3]["is_new"], true);
        let theirs = site.enqueue(tasks::charge::call(queue as u64).unique(Unique::UntilDone));
        assert_eq!((theirs.id(), theirs.is_new()), (Some(id(&said[3])), false));
        let cancelled = follow(&site.trial, more, &[known(none.id().unwrap(), json!({"cancel": true}))]);
        assert_eq!(cancelled[0]["cancelled"], "waiting");
        open(&gate);
    }
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    let again =
        follow(&site.trial, &[], &[call("gated", json!([site.trial.gate("gate-0")]), json!({"wait": 60}))]);
    assert_eq!(again[0]["result"], "opened");
    site.trial.stop(&mut worker);
}

#[test]
fn python_replaces_a_scheduled_call_of_rust() {
    let site = Site::new();
    let later = tasks::charge::call(1).unique_key("k").unique(Unique::Replace);
    let first = site.enqueue(later.clone().after(std::time::Duration::from_secs(3600)));
    let options = json!({"unique": "replace", "unique_key": "k", "after": 0.01});
    let said = follow(&site.trial, &[], &[call("charge", json!([2]), options)]);
    assert_eq!((Some(id(&said[0])), &said[0]["conflict"]), (first.id(), &json!({})));
    let mut worker = site.trial.worker(&[]);
    assert_eq!(site.wait(&first).unwrap().order, 2);
    site.trial.stop(&mut worker);
}

#[test]
fn python_cancels_waiting_and_running_calls() {
    let mut site = Site::new();
    let cancel = json!({"cancel": true});
    let waiting = follow(&site.trial, &[], &[call("charge", json!([1]), cancel.clone())]);
    assert_eq!(waiting[0]["cancelled"], "waiting");
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    let heard = follow(&site.trial, &[], &[known(id(&waiting[0]), json!({"wait": 60}))]);
    assert_eq!(heard[0]["raised"], "CallCancelledError");
    for queue in QUEUES {
        let gate = site.trial.gate("gate");
        let asked = site.enqueue(tasks::gated::call(gate).retry(5));
        let killed = site.enqueue(tasks::endless::call().retry(5));
        site.wait_state(&asked, CallState::Running);
        site.wait_state(&killed, CallState::Running);
        let both = json!({"cancel": true, "wait": 60});
        let said = follow(
            &site.trial,
            queue,
            &[&asked.id(), &killed.id()].map(|id| known(id.unwrap(), both.clone())),
        );
        for said in &said {
            assert_eq!(
                (&said["cancelled"], &said["raised"]),
                (&json!("running"), &json!("CallCancelledError"))
            );
        }
        assert!(matches!(site.wait(&killed), Err(WaitError::Cancelled { .. })));
    }
    site.trial.wait_settled();
    let marks: usize = site.trial.redis.zcard("q_cancelled").unwrap();
    assert_eq!((site.trial.dead(), marks, site.trial.state().later.len()), (0, 0, 0));
    site.trial.stop(&mut worker);
}
