//! Does `calls` list, show, cancel, run and await calls in every state?

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{DELAYED, Ended, PATIENCE, WORKER, command, ended, on, start, task};
use crate::support::redis::{TestRedis, snapshot};
use crate::support::wait;

/// Schedules a call. Gives its id.
fn schedule(redis: &TestRedis, queue: &str, n: u32, after: &str) -> String {
    let words = ["enqueue", &task("add"), &format!("[{n}, 1]"), "--queue", queue, "--after", after, "--json"];
    on(redis, WORKER, &words).json()["id"].as_str().unwrap().to_owned()
}

fn calls(redis: &TestRedis, words: &[&str]) -> Ended {
    on(redis, DELAYED, &[&["calls"][..], words].concat())
}

fn listed(redis: &TestRedis, words: &[&str]) -> Vec<Value> {
    let calls = calls(redis, &[&["list", "--json"][..], words].concat()).json();
    calls.as_array().unwrap().iter().map(|call| call["arguments"][0].clone()).collect()
}

#[test]
fn calls_of_all_queues_are_listed_by_their_times() {
    let redis = TestRedis::start();
    calls(&redis, &["list"]).expect(0).says("there are no such calls");
    schedule(&redis, "default", 1, "3h");
    schedule(&redis, "other", 2, "1h");
    schedule(&redis, "default", 3, "2h");
    assert_eq!(listed(&redis, &[]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--queue", "default", "--count", "1"]), [3]);
    assert_eq!(listed(&redis, &["--task", &task("add")]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--task", "other"]), Vec::<u32>::new());
    assert_eq!(listed(&redis, &["--state", "scheduled"]), [2, 3, 1]);
    assert_eq!(listed(&redis, &["--state", "retrying"]), Vec::<u32>::new());
    let shown = calls(&redis, &["list", "--count", "2"]).expect(0);
    shown
        .says("other")
        .says(&format!("{}(2, 1)", task("add")))
        .says("only the first 2 are shown: use --count for more");
}

#[test]
fn call_that_waits_for_another_attempt_is_shown_with_its_errors() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", &task("fail"), r#"["no way"]"#, "--retry", "3"]).expect(0);
    on(&redis, WORKER, &["worker", "--burst", "--backoff", "fixed:1h"]).expect(0);
    let found = calls(&redis, &["list", "--json", "--state", "retrying"]).json();
    let call = &found[0];
    assert_eq!((&call["state"], &call["attempts"]), (&json!("retrying"), &json!(1)), "{found}");
    assert_eq!(call["errors"][0]["detail"], "no way", "{found}");
    let id = call["id"].as_str().unwrap();
    assert_eq!(calls(&redis, &["show", id, "--json"]).json(), *call);
    calls(&redis, &["show", id]).expect(0).says("state      retrying").says("failed: no way");
    calls(&redis, &["show", id, "--queue", "other"]).expect(6).says("is known: it may have run");
}

#[test]
fn cancelled_call_never_runs_and_the_others_do() {
    let redis = TestRedis::start();
    let [first, second] = [1, 2].map(|n| schedule(&redis, "default", n, "1h"));
    schedule(&redis, "other", 3, "1h");
    calls(&redis, &["cancel", &first, "018bcfe5-687b-7b5c-8a3e-0123456789ab"])
        .expect(6)
        .says("cancelled 1 call")
        .says("018bcfe5-687b-7b5c-8a3e-0123456789ab");
    assert_eq!(listed(&redis, &[]), [2, 3]);
    calls(&redis, &["run", &first]).expect(6).says(&first);
    calls(&redis, &["cancel", "--all"]).expect(2).says("2 scheduled calls of all queues").says("--yes");
    calls(&redis, &["cancel", "--task", "other"]).expect(6).says("`calls list` shows");
    let cancelled = calls(&redis, &["cancel", "--all", "--yes", "--queue", "other", "--json"]).json();
    assert_eq!((&cancelled["cancelled"], &cancelled["missing"]), (&json!(1), &json!([])));
    assert_eq!(cancelled["calls"][0]["found"], "scheduled", "{cancelled}");
    calls(&redis, &["run", &second]).expect(0).says("enqueued 1 call");
    on(&redis, WORKER, &["worker", "--burst", "--queue", "default,other"]).expect(0).says("succeeded=1");
    calls(&redis, &["cancel"]).expect(2);
    calls(&redis, &["cancel", "nonsense"]).expect(6).says("the id of a text that is not a UUID");
    calls(&redis, &["cancel", ""]).expect(2).says("give a UUID, or a text");
}

#[test]
fn queue_by_itself_is_cancelled_once_confirmed() {
    let redis = TestRedis::start();
    let [first, second] = [1, 2].map(|n| schedule(&redis, "default", n, "1h"));
    schedule(&redis, "other", 3, "1h");
    let question = "2 scheduled calls of default would be cancelled for good: confirm with --yes";
    calls(&redis, &["cancel", "--queue", "default"]).expect(2).says(question);
    assert_eq!(listed(&redis, &[]), [1, 2, 3], "expected nothing to be cancelled without --yes");
    // Ids and a task say which calls are meant: nobody has to confirm them.
    calls(&redis, &["cancel", &first, "--queue", "default"]).expect(0).says("cancelled 1 call");
    calls(&redis, &["cancel", "--task", "other", "--queue", "default"]).expect(6).says("`calls list` shows");
    calls(&redis, &["cancel", "--queue", "default", "--yes"])
        .expect(0)
        .says(&second)
        .says("cancelled 1 call");
    assert_eq!(listed(&redis, &[]), [3], "expected the calls of the other queue to stay");
    calls(&redis, &["cancel", "--queue", "default"]).expect(0).says("cancelled 0 calls");
    calls(&redis, &["cancel", "--queue", "othr", "--yes"]).expect(0).says("did you mean `other`?");
    for contradiction in [&["cancel", &second, "--all"][..], &["cancel", "--task", "other", "--all"]] {
        calls(&redis, contradiction).expect(2);
    }
    calls(&redis, &["cancel", "--yes"]).expect(2).says("--queue");
}

#[test]
fn call_that_is_run_now_runs_once() {
    let redis = TestRedis::start();
    let worker = start(&redis, &["worker"]);
    worker.wait_for_line("serving");
    let id = schedule(&redis, "default", 7, "1h");
    let ran = calls(&redis, &["run", &id, &id, "--json"]).json();
    assert_eq!(ran, json!({ "enqueued": 1, "missing": [] }));
    wait::until("its end", PATIENCE, || {
        let state = snapshot(&mut redis.connection(), "default");
        state.waiting.is_empty() && state.processing.is_empty()
    });
    assert!(listed(&redis, &[]).is_empty());
    calls(&redis, &["run", &id]).expect(6);
}

/// Enqueues a call whose record is kept. Gives its id.
fn keep(redis: &TestRedis, path: &str, arguments: &str, words: &[&str]) -> String {
    let words = [&["enqueue", path, arguments, "--keep", "1h", "--json"][..], words].concat();
    on(redis, WORKER, &words).json()["id"].as_str().unwrap().to_owned()
}

fn burst(redis: &TestRedis) {
    on(redis, WORKER, &["worker", "--burst", "--queue", "default,q"]).expect(0);
}

/// The states of the calls that are listed.
fn states(redis: &TestRedis, words: &[&str]) -> Vec<String> {
    let calls = calls(redis, &[&["list", "--json"][..], words].concat()).json();
    calls.as_array().unwrap().iter().map(|call| call["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn calls_are_listed_by_state_with_and_without_record() {
    let redis = TestRedis::start();
    let fail = task("fail");
    keep(&redis, &task("add"), "[1, 2]", &[]);
    keep(&redis, &fail, r#"["no way"]"#, &["--retry", "0"]);
    keep(&redis, &task("add"), "[3, 4]", &["--expires", "1ms"]);
    on(&redis, WORKER, &["enqueue", &fail, r#"["no way"]"#, "--with-id"]).expect(0);
    assert_eq!(states(&redis, &[]), ["waiting"; 4]);
    burst(&redis);
    assert_eq!(states(&redis, &[]), Vec::<String>::new());
    let cancelled = keep(&redis, &task("add"), "[5, 6]", &["--after", "1h"]);
    calls(&redis, &["cancel", &cancelled, "--by", "anna"]).expect(0);
    let first = keep(&redis, &task("add"), "[7, 8]", &[]);
    on(&redis, WORKER, &["enqueue", &task("add"), "[9, 9]"]).expect(0);
    schedule(&redis, "default", 10, "1h");
    assert_eq!(states(&redis, &[]), ["waiting", "waiting", "scheduled"]);
    for (state, count) in [("succeeded", 1), ("dead", 2), ("expired", 1), ("cancelled", 1), ("retrying", 0)] {
        assert_eq!(states(&redis, &["--state", state]), vec![state; count]);
    }
    assert_eq!(states(&redis, &["--state", "dead,succeeded", "--task", &task("add")]), ["succeeded"]);
    assert_eq!(states(&redis, &["--id", &first[..30]]), ["waiting"]);
    calls(&redis, &["list", "--state", "gone"]).expect(2).says("not a state: use one of scheduled, waiting");
    let shown = calls(&redis, &["list", "--state", "cancelled,succeeded"]).expect(0);
    shown.says(&cancelled).says(" ago").says("succeeded");
}

#[test]
fn finished_call_is_shown_with_its_times_and_result() {
    let redis = TestRedis::start();
    let [id, dead] = [("followed.charge", "[7]"), ("followed.fail", r#"["no way"]"#)]
        .map(|(path, arguments)| keep(&redis, path, arguments, &[]));
    let waiting = calls(&redis, &["show", &id, "--json"]).json();
    assert_eq!((&waiting["state"], &waiting["arguments"]), (&json!("waiting"), &json!([7])), "{waiting}");
    assert!(waiting["queued_ms"].is_u64() && waiting["has_record"] == true, "{waiting}");
    burst(&redis);
    let shown = calls(&redis, &["show", &id, "--json"]).json();
    let time = |name: &str| shown[name].as_u64().unwrap_or_else(|| panic!("expected {name} in {shown}"));
    assert!(time("queued_ms") <= time("began_ms") && time("began_ms") <= time("ended_ms"), "{shown}");
    assert_eq!((&shown["state"], &shown["attempt"]), (&json!("succeeded"), &json!(1)), "{shown}");
    assert_eq!((&shown["task"], &shown["arguments"]), (&json!("followed.charge"), &Value::Null), "{shown}");
    assert_eq!(shown["result"], json!({ "order": 7, "paid": "7 EUR" }), "{shown}");
    calls(&redis, &["show", &id])
        .expect(0)
        .says("state      succeeded")
        .says(r#"result     {"order":7,"paid":"7 EUR"}"#);
    let shown = calls(&redis, &["show", &dead, "--json"]).json();
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("dead"), &json!("failed")), "{shown}");
    assert_eq!((&shown["attempt"], &shown["arguments"]), (&json!(2), &json!(["no way"])), "{shown}");
    calls(&redis, &["show", &dead]).expect(0).says("error      no way").says("errors     ");
}

#[test]
fn finished_call_is_shown_with_progress_log_and_errors() {
    for backoff in ["none", "fixed:1ms"] {
        let redis = TestRedis::start();
        let id = keep(&redis, "followed.second_time", "[]", &[]);
        let mut worker = start(&redis, &["worker", "--queue", "q", "--backoff", backoff]);
        calls(&redis, &["wait", &id]).expect(0);
        worker.signal(Signal::SIGTERM);
        worker.wait_exit(PATIENCE);
        let shown = calls(&redis, &["show", &id, "--json"]).json();
        assert_eq!((&shown["result"], &shown["attempt"]), (&json!(2), &json!(2)), "{shown}");
        let said = (&shown["progress"], &shown["progress_text"], &shown["log"]);
        assert_eq!(
            said,
            (&json!(0.75), &json!("nearly\u{1b}there"), &json!(["attempt 1", "attempt 2"])),
            "{shown}"
        );
        let [error] = shown["errors"].as_array().unwrap().as_slice() else { panic!("expected one: {shown}") };
        assert_eq!((&error["reason"], &error["detail"]), (&json!("failed"), &json!("not yet")), "{shown}");
        assert!(error["at_ms"].as_u64() <= shown["ended_ms"].as_u64(), "{shown}");
        let text = calls(&redis, &["show", &id]).expect(0).says("failed: not yet");
        text.says("progress   75 %: nearly\\u{1b}there")
            .says("log        attempt 1\n           attempt 2")
            .says(&format!("worker     {}", shown["worker"].as_str().unwrap()));
        let listed = calls(&redis, &["list", "--state", "succeeded", "--json"]).json();
        assert_eq!((&listed[0]["errors"], &listed[0]["log"]), (&shown["errors"], &json!([])), "{listed}");
    }
}

#[test]
fn running_call_is_shown_with_its_slot_and_cancelled() {
    let redis = TestRedis::start();
    let id = keep(&redis, "followed.endless", "[]", &[]);
    let worker = start(&redis, &["worker", "--queue", "q"]);
    let running = wait::until_some("a run", PATIENCE, || {
        let call = calls(&redis, &["show", &id, "--json"]).json();
        (call["state"] == "running").then_some(call)
    });
    assert!(running["began_ms"].is_u64() && running["worker"].is_string(), "{running}");
    assert_eq!(states(&redis, &["--state", "running"]), ["running"]);
    calls(&redis, &["wait", &id, "--timeout", "50ms"])
        .expect(7)
        .says("has not ended in time")
        .says("running");
    calls(&redis, &["cancel", &id])
        .expect(0)
        .says("is running: its worker was asked to end it")
        .says("cancelled 1 call");
    let ended = calls(&redis, &["wait", &id, "--json"]).expect(1).says("was cancelled by");
    let ended: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(ended["state"], "cancelled", "{ended}");
    calls(&redis, &["cancel", &id]).expect(0).says("had already ended: cancelled").says("cancelled 0 calls");
    drop(worker);
}

#[test]
fn waiting_calls_of_one_task_are_cancelled_and_never_run() {
    let redis = TestRedis::start();
    let [kept, other] = ["[1]", "[2]"].map(|arguments| keep(&redis, &task("record"), arguments, &[]));
    let plain = on(&redis, WORKER, &["enqueue", &task("record"), "[3]", "--with-id", "--json"]).json();
    on(&redis, WORKER, &["enqueue", &task("record"), "[4]"]).expect(0);
    on(&redis, WORKER, &["enqueue", &task("add"), "[1, 1]", "--with-id"]).expect(0);
    calls(&redis, &["cancel", &kept])
        .expect(0)
        .says(&format!("{kept} in default was waiting, and will not run"));
    calls(&redis, &["cancel", "--all"]).expect(2).says("4 waiting calls of all queues would be cancelled");
    let cancelled = calls(&redis, &["cancel", "--task", &task("record")]).expect(0);
    cancelled
        .says(&other)
        .says(plain["id"].as_str().unwrap())
        .says("1 call without an id cannot be cancelled");
    let worker = start(&redis, &["worker", "--burst"]);
    worker.wait_for_line("succeeded=2");
    let record = std::fs::read_to_string(redis.directory().join("record")).unwrap();
    assert_eq!(record, "4\n");
    assert_eq!(states(&redis, &["--state", "cancelled"]), ["cancelled"; 2]);
}

#[test]
fn call_is_awaited_until_its_end_or_said_to_have_no_record() {
    let redis = TestRedis::start();
    let id = keep(&redis, "followed.charge", "[7]", &[]);
    let dead = keep(&redis, "followed.fail", r#"["no way"]"#, &[]);
    let plain = on(&redis, WORKER, &["enqueue", &task("add"), "[1, 2]", "--with-id", "--json"]).json();
    calls(&redis, &["wait", plain["id"].as_str().unwrap()]).expect(6).says("has no record").says("--keep");
    calls(&redis, &["wait", "018bcfe5-687b-7b5c-8a3e-0123456789ab"])
        .expect(6)
        .says("is known: it may have run");
    let worker = start(&redis, &["worker", "--queue", "q"]);
    assert_eq!(calls(&redis, &["wait", &id]).json(), json!({ "order": 7, "paid": "7 EUR" }));
    let whole = calls(&redis, &["wait", &id, "--timeout", "30s", "--json"]).json();
    assert_eq!(
        (&whole["state"], &whole["result"]),
        (&json!("succeeded"), &json!({ "order": 7, "paid": "7 EUR" }))
    );
    calls(&redis, &["wait", &dead]).expect(1).says("is dead: failed: no way; `dead show ").never_says("null");
    drop(worker);
}

#[test]
fn text_is_the_id_of_a_call_in_each_command() {
    let redis = TestRedis::start();
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue"], words].concat());
    let id = keep(&redis, "followed.charge", "[7]", &["--id", "order:7"]);
    assert_eq!(id, "33fe6d75-c3fc-59bb-bf42-d06fc16bdf64");
    send(&["followed.charge", "[7]", "--id", "order:7"]).expect(4).says("exists in q and is waiting");
    calls(&redis, &["show", "order:7"]).expect(0).says(&id).says("state      waiting");
    burst(&redis);
    assert_eq!(calls(&redis, &["wait", "order:7"]).json(), json!({ "order": 7, "paid": "7 EUR" }));
    send(&["mails:send", "--as", "python", "--id", "mail:7", "--after", "1h"]).expect(0);
    calls(&redis, &["cancel", "mail:7"]).expect(0).says("was scheduled, and has been removed");
    send(&["mails:send", "--as", "python", "--id", "mail:7"]).expect(2).says("while it is not scheduled");
    send(&["followed.charge", "[7]", "--id="]).expect(2).says("give a UUID, or a text");
    send(&["followed.charge", "[7]", "--id", "a", "--with-id"]).expect(2);
}

#[test]
fn ordered_calls_run_one_after_the_other() {
    let redis = TestRedis::start();
    let send =
        |n: &str, words: &[&str]| on(&redis, WORKER, &[&["enqueue", &task("record"), n][..], words].concat());
    for n in ["[1]", "[2]", "[3]"] {
        send(n, &["--ordered", "customer:42"]).expect(0);
    }
    send("[4]", &["--ordered", "a", "--after", "1h"]).expect(2).says("--after");
    let waiting = snapshot(&mut redis.connection(), "default").waiting.len();
    assert_eq!((waiting, states(&redis, &[]).len()), (1, 3), "expected the others to wait for their turn");
    let record = redis.directory().join("record");
    let mut worker = command(WORKER, redis.directory(), &["worker", "--burst", "--concurrency", "4"]);
    worker.env("DELAYED_REDIS_URL", redis.url()).env("RECORD_FILE", &record);
    ended(&mut worker).expect(0).says("succeeded=3");
    assert_eq!(std::fs::read_to_string(record).unwrap(), "1\n2\n3\n");
}

#[test]
fn dead_call_that_was_requeued_is_shown_as_waiting() {
    let redis = TestRedis::start();
    let id = keep(&redis, "followed.fail", r#"["no way"]"#, &[]);
    burst(&redis);
    let dead = calls(&redis, &["show", &id, "--json"]).json();
    on(&redis, DELAYED, &["dead", "requeue", dead["letter"].as_str().unwrap()]).expect(0);
    let waiting = calls(&redis, &["show", &id, "--json"]).json();
    assert_eq!((&waiting["state"], &waiting["error"]), (&json!("waiting"), &Value::Null), "{waiting}");
    assert_eq!(states(&redis, &["--queue", "q"]), ["waiting"]);
    burst(&redis);
    assert_eq!(states(&redis, &["--state", "dead"]), ["dead"]);
}
