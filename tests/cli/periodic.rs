//! Do the commands of `periodic` define tasks, change them, and show when they are due and what became of them?

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, Ended, PATIENCE, WORKER, on, start, task};
use crate::support::redis::TestRedis;
use crate::support::wait;

fn periodic(redis: &TestRedis, words: &[&str]) -> Ended {
    on(redis, WORKER, &[&["periodic"][..], words].concat())
}

/// All of them, in JSON.
fn listed(redis: &TestRedis) -> Vec<Value> {
    periodic(redis, &["list", "--json"]).json().as_array().unwrap().clone()
}

#[test]
fn task_is_added_listed_with_ten_ticks_and_removed() {
    let redis = TestRedis::start();
    periodic(&redis, &["list"]).expect(0).says("no periodic tasks are defined: `periodic add` defines one");
    let words =
        ["add", "nightly", "0 3 * * *", &task("add"), "[1, 2]", "--tz", "Europe/Berlin", "--queue", "mail"];
    periodic(&redis, &words).expect(0).says("defined nightly in mail; next: ");
    periodic(&redis, &words)
        .expect(2)
        .says("mail has a periodic task nightly already: --replace replaces it");
    let all = listed(&redis);
    let times: Vec<u64> =
        all[0]["next_ms"].as_array().unwrap().iter().map(|ms| ms.as_u64().unwrap()).collect();
    assert_eq!(times.len(), 10);
    // A day, and an hour less or more where the clocks change.
    assert!(
        times.windows(2).all(|pair| (82_800_000..=90_000_000).contains(&(pair[1] - pair[0]))),
        "{times:?}"
    );
    for (field, expected) in [
        ("cron", "0 3 * * *"),
        ("tz", "Europe/Berlin"),
        ("overlap", "allow"),
        ("missed", "once"),
        ("queue", "mail"),
    ] {
        assert_eq!(all[0][field], expected, "{field}");
    }
    assert_eq!(
        (&all[0]["task"], &all[0]["code"], &all[0]["orphaned"]),
        (&task("add").into(), &false.into(), &false.into())
    );
    periodic(&redis, &["list"]).expect(0).says("nightly").says(" 03:00:00 CE").says("by hand");
    let shown = periodic(&redis, &["list", "nightly"]).expect(0).says("time zone  Europe/Berlin");
    assert_eq!(shown.out.matches(" 03:00:00 CE").count(), 10, "{shown:?}");
    let replaced = ["add", "nightly", "@every 90s", &task("fail"), "--queue", "mail", "--replace", "--json"];
    let replaced = periodic(&redis, &replaced).json();
    assert_eq!((&replaced["name"], &replaced["queue"]), (&"nightly".into(), &"mail".into()));
    assert_eq!(listed(&redis)[0]["cron"], "@every 90s");
    periodic(&redis, &["remove", "nightly"]).expect(0).says("removed nightly");
    periodic(&redis, &["remove", "nightly"]).expect(6).says("there is no periodic task nightly");
    assert!(listed(&redis).is_empty());
}

#[test]
fn what_cannot_be_defined_is_refused_with_the_reason() {
    let redis = TestRedis::start();
    let add = |cron: &str, more: &[&str]| {
        periodic(&redis, &[&["add", "name", cron, &task("add"), "[1, 2]"][..], more].concat())
    };
    add("0 0 30 2 *", &[]).expect(2).says("has no tick: no date matches it");
    add("61 * * * *", &[]).expect(2).says("the cron expression \"61 * * * *\" is not valid");
    add("@every 1ms", &[]).expect(2).says("write a time from `1s` to `366d`");
    add("@daily", &["--tz", "Europe/Atlantis"]).expect(2).says("there is no time zone \"Europe/Atlantis\"");
    add("@daily", &["--overlap", "wait"]).expect(2).says("none of allow, skip and queue");
    add("@daily", &["--missed", "all:0"]).expect(2).says("none of skip, once, all and all:N");
    let spaced = ["add", "two words", "@daily", &task("add"), "[1, 2]"];
    periodic(&redis, &spaced).expect(2).says("the name \"two words\" of a periodic task is not valid");
    periodic(&redis, &["add", "n", "@daily", &task("add"), "[1]"]).expect(2).says("`b`");
    periodic(&redis, &["add", "n", "@daily", &task("ad"), "[1]"]).expect(6).says("did you mean");
    let python = ["add", "n", "@daily", "mails:send", "--as", "python", "--overlap", "skip"];
    periodic(&redis, &python).expect(2).says("nobody knows when such a call ends");
    assert!(listed(&redis).is_empty());
}

#[test]
fn paused_task_makes_no_call_until_it_is_resumed() {
    let redis = TestRedis::start();
    periodic(&redis, &["add", "often", "* * * * * *", &task("record"), "[1]"]).expect(0);
    periodic(&redis, &["pause", "often", "--by", "anna"]).expect(0).says("paused often");
    periodic(&redis, &["pause", "often"]).expect(0).says("often is paused already");
    assert_eq!(redis.connection().zcard::<_, u64>("default_due").unwrap(), 0);
    periodic(&redis, &["list", "often"]).expect(0).says("state      paused").says("by anna");
    let paused = listed(&redis);
    assert_eq!((&paused[0]["paused"]["by"], &paused[0]["next_ms"]), (&"anna".into(), &Value::Array(vec![])));
    // Another definition does not end the pause.
    periodic(&redis, &["add", "often", "* * * * * *", &task("record"), "[2]", "--replace"])
        .expect(0)
        .says("never");
    let resumed = periodic(&redis, &["resume", "often", "--json"]).json();
    assert_eq!((&resumed["name"], &resumed["changed"]), (&"often".into(), &true.into()));
    periodic(&redis, &["resume", "often"]).expect(0).says("often is not paused");
    assert_eq!(redis.connection().zcard::<_, u64>("default_due").unwrap(), 1);
}

#[test]
fn history_tells_ticks_with_their_calls_and_outcomes() {
    let redis = TestRedis::start();
    periodic(&redis, &["add", "yearly", "@yearly", &task("fail"), "--keep", "1h"]).expect(0);
    periodic(&redis, &["history", "yearly"]).expect(0).says("no tick was made yet");
    let ran = periodic(&redis, &["run", "yearly", "--json"]).json();
    assert_eq!(ran["enqueued"], true);
    periodic(&redis, &["pause", "yearly"]).expect(0);
    periodic(&redis, &["run", "yearly"]).expect(0).says("enqueued a call of yearly to default: ");
    let mut worker = start(&redis, &["worker", "--burst"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    let ticks = periodic(&redis, &["history", "yearly", "--json"]).json();
    let ticks = ticks.as_array().unwrap();
    assert_eq!(ticks.len(), 2);
    assert_eq!((&ticks[1]["call"], &ticks[1]["state"]), (&ran["call"], &"dead".into()));
    assert_eq!((&ticks[0]["tick_ms"], &ticks[0]["result"]), (&Value::Null, &"enqueued".into()));
    periodic(&redis, &["history", "yearly"]).expect(0).says("by hand").says("dead");
    periodic(&redis, &["history", "none"]).expect(6).says("there is no periodic task none");
}

#[test]
fn call_by_hand_respects_the_overlap() {
    let redis = TestRedis::start();
    periodic(&redis, &["add", "n", "@yearly", &task("record"), "[1]", "--overlap", "skip"]).expect(0);
    assert_eq!(periodic(&redis, &["run", "n", "--json"]).json()["enqueued"], true);
    periodic(&redis, &["run", "n"]).expect(0).says("n was not called: an earlier call has not ended");
    let mut worker = start(&redis, &["worker", "--burst"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    assert_eq!(periodic(&redis, &["run", "n", "--json"]).json()["enqueued"], true);
}

#[test]
fn name_in_several_queues_needs_the_queue() {
    let redis = TestRedis::start();
    for queue in ["a", "b"] {
        periodic(&redis, &["add", "n", "@daily", &task("record"), "[1]", "--queue", queue]).expect(0);
    }
    periodic(&redis, &["remove", "n"]).expect(2).says("give --queue, one of a, b");
    periodic(&redis, &["remove", "n", "--queue", "a"]).expect(0);
    assert_eq!(listed(&redis)[0]["queue"], "b");
}

#[test]
fn task_from_code_is_orphaned_when_no_worker_declares_it() {
    let redis = TestRedis::start();
    let mut worker = start(&redis, &["worker", "--queue", "nightly"]);
    worker.wait_for_line("serving");
    let state = |redis: &TestRedis| {
        let all = listed(redis);
        (all[0]["name"].clone(), all[0]["code"].clone(), all[0]["orphaned"].clone())
    };
    assert_eq!(state(&redis), ("periodic.nightly".into(), true.into(), false.into()));
    periodic(&redis, &["list"]).expect(0).says("from code");
    let workers = on(&redis, DELAYED, &["workers", "--json"]).json();
    assert_eq!(workers[0]["info"]["periodic"], serde_json::json!(["periodic.nightly"]));
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    worker.wait_exit(PATIENCE);
    wait::until("the task to be orphaned", PATIENCE, || state(&redis).2 == true);
    periodic(&redis, &["list"]).expect(0).says("orphaned");
    periodic(&redis, &["remove", "periodic.nightly"]).expect(0);
    assert!(listed(&redis).is_empty());
}

#[test]
fn flow_that_cannot_be_one_is_refused_with_the_reason() {
    let redis = TestRedis::start();
    let add = |flow: &str, more: &[&str]| {
        periodic(&redis, &[&["add", "n", "@daily", "--flow", flow], more].concat())
    };
    let call = |more: &str| format!(r#"{{"chain": [{{"call": "flows.number"{more}}}]}}"#);
    let one = call(r#", "args": [1]"#);
    add(&one, &[&task("add")]).expect(2).says("cannot be used with");
    add(&one, &["--retry", "3"]).expect(2).says("cannot be used with");
    add(&one, &["--as", "go"]).expect(2).says("does not say how a call ended");
    add(&one, &["--overlap", "queue"]).expect(2).says("use the overlap `allow` or `skip`");
    add("flow.json", &[]).expect(2).says("cannot be read from flow.json");
    add("{", &[]).expect(2).says("that cannot be a flow: EOF");
    add(&call(""), &[]).expect(2).says("`flows.number`: ").says("`n`");
    add(&call(r#", "args": ["one"]"#), &[]).expect(2).says("`n`");
    add(&call(r#", "args": {"m": 1}"#), &[]).expect(2).says("`m`");
    add(&call(r#", "retry": 3"#), &[]).expect(2).says("unknown field `retry`");
    add(&call(r#", "at_most": 3"#), &[]).expect(2).says("a part is one of a `call` and a `step`");
    add(r#"{"call": "flows.number", "args": [1]}"#, &[])
        .expect(2)
        .says("its outermost part is a chain or a group");
    add(r#"{"chain": []}"#, &[]).expect(2).says("a chain has at least one part");
    add(r#"{"group": [{"chain": [{"step": "flows.double"}]}]}"#, &[]).expect(2).says("begins with a `step`");
    add(r#"{"chain": [{"call": "flows.none"}]}"#, &[]).expect(6).says("no task `flows.none`");
    add(r#"{"chain": [{"call": "delayed.flow"}]}"#, &[])
        .expect(2)
        .says("a flow cannot be a step of another one");
    let after = |step: &str| format!(r#"{{"chain": [{{"call": "flows.number", "args": [1]}}, {step}]}}"#);
    for step in [r#"{"step": "flows.add"}"#, r#"{"step": "flows.add", "args": [1, 2]}"#] {
        add(&after(step), &[]).expect(2).says("the arguments behind its first one");
    }
    let by_name = after(r#"{"step": "flows.add", "args": {"n": 1}}"#);
    on(&redis, DELAYED, &["periodic", "add", "n", "@daily", "--flow", &by_name])
        .expect(2)
        .says("use an array");
    let group = r#"{"group": [], "on_error": {"group": []}}"#;
    add(group, &[]).expect(2).says("a single call or step");
    assert!(listed(&redis).is_empty());
    add(&by_name, &[]).expect(0);
    assert_eq!(
        (&listed(&redis)[0]["task"], &listed(&redis)[0]["queue"]),
        (&"delayed.flow".into(), &"q".into())
    );
}
