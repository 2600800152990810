//! Does `tasks kill` end what runs, and say what became of it?

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, PATIENCE, WORKER, on, start, task};
use crate::support::process::Program;
use crate::support::redis::{TestRedis, snapshot};
use crate::support::wait;

/// A worker that runs a call of this task, and the slot that owns it.
fn running(redis: &TestRedis, name: &str) -> (Program, Value) {
    let worker = start(redis, &["worker", "--queue", "default", "--queue", "reports"]);
    on(redis, WORKER, &["enqueue", &task(name), "--with-id"]).expect(0);
    let run = wait::until_some("a run", PATIENCE, || {
        let workers = on(redis, DELAYED, &["workers", "--json"]).json();
        let run = &workers[0]["running"][0];
        (!run.is_null()).then(|| run.clone())
    });
    (worker, run)
}

#[test]
fn a_run_is_killed_by_the_id_of_its_call() {
    let redis = TestRedis::start();
    let (_worker, run) = running(&redis, "never_ends");
    let id = run["call_id"].as_str().unwrap();
    on(&redis, DELAYED, &["tasks", "kill", id, "--queue", "reports"])
        .expect(6)
        .says("no running call has the id");
    let killed = on(&redis, DELAYED, &["tasks", "kill", id, "--queue", "default", "--json"]).json();
    assert_eq!(
        (&killed["fate"], &killed["wire_id"], &killed["queue"]),
        (&"killed".into(), &run["wire_id"], &"default".into())
    );
    assert_eq!((&killed["task"], &killed["call_id"]), (&task("never_ends").into(), &id.into()));
    let by = killed["by"].as_str().unwrap();
    assert!(by.contains('@') && by.len() > 3, "expected user@host: {killed}");
    let letter = on(&redis, DELAYED, &["dead", "show", killed["letter"].as_str().unwrap(), "--json"]).json();
    assert_eq!((&letter["reason"], &letter["detail"]), (&"killed".into(), &format!("killed by {by}").into()));
    on(&redis, DELAYED, &["tasks", "kill", id]).expect(6).says("`dead list` buried ones");
}

#[test]
fn a_run_is_killed_by_its_slot_as_workers_shows_it() {
    let redis = TestRedis::start();
    let (_worker, run) = running(&redis, "never_ends");
    let slot = run["wire_id"].as_str().unwrap();
    // The table shows the id of a call that has one, and `--json` the slot too.
    on(&redis, DELAYED, &["workers"]).expect(0).says(run["call_id"].as_str().unwrap());
    on(&redis, WORKER, &["tasks", "kill", slot, "--by", "anna of operations"])
        .expect(0)
        .says(&format!("killed {}() in {slot}, by anna of operations: `dead show ", task("never_ends")));
    let dead = snapshot(&mut redis.connection(), "default").dead;
    assert_eq!(dead[0]["detail"], b"killed by anna of operations");
}

#[test]
fn a_function_that_blocks_is_said_to_go_on() {
    let redis = TestRedis::start();
    let (mut worker, run) = running(&redis, "never_ends_blocking");
    let slot = run["wire_id"].as_str().unwrap();
    let ended = on(&redis, DELAYED, &["tasks", "kill", slot, "--json"]).expect(1);
    let ended = ended.says("it was asked to end, but a function that blocks cannot be stopped");
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&told["fate"], &told["letter"]), (&"blocks".into(), &Value::Null));
    assert_eq!(snapshot(&mut redis.connection(), "default").processing.len(), 1);
    worker.kill9();
}

#[test]
fn what_is_not_to_be_killed_has_its_codes() {
    let redis = TestRedis::start();
    on(&redis, DELAYED, &["tasks", "kill"]).expect(2);
    on(&redis, DELAYED, &["tasks", "kill", "x"]).expect(2).says("neither the id of a call");
    on(&redis, DELAYED, &["tasks", "kill", "x", "--by", "a\nb"]).expect(2).says("printable text");
    on(&redis, DELAYED, &["tasks", "kill", "x", "--queue", "a b"]).expect(2);
    on(&redis, DELAYED, &["tasks", "kill", "q:abcdefghijklmn27:0"])
        .expect(6)
        .says("`workers` shows running calls");
    let sent = on(&redis, WORKER, &["enqueue", &task("never_ends"), "--with-id", "--json"]).json();
    let id = sent["id"].as_str().unwrap();
    on(&redis, DELAYED, &["tasks", "kill", id]).expect(6).says("waits in default");
    let () = redis.connection().hset("default_processing", "4711", b"\x92\xa1f\x91\x01").unwrap();
    on(&redis, DELAYED, &["tasks", "kill", "4711"]).expect(1).says("Python or Go worker");
    let () = redis.connection().set("reports_processing", "text").unwrap();
    on(&redis, DELAYED, &["tasks", "kill", id, "--queue", "reports"]).expect(4).says("has the wrong type");
}
