//! Do an operator's commands show what is there, and move what they are told to?

use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use redis::Commands;
use serde_json::Value;

use super::{DELAYED, PATIENCE, WORKER, on, start, task};
use crate::support::redis::{TestRedis, assert_consistent, snapshot};
use crate::support::wait;

/// The last that a dead letter can have.
const LAST_ID: &str = "18446744073709551615-18446744073709551615";

/// Three calls that failed and one that is not a message.
fn with_dead_letters() -> TestRedis {
    let redis = TestRedis::start();
    for n in ["[\"one\"]", "[\"two\"]"] {
        on(&redis, WORKER, &["enqueue", &task("fail"), n]).expect(0);
    }
    on(&redis, WORKER, &["enqueue", &task("panic"), "--with-id"]).expect(0);
    let () = redis.connection().rpush("default", "junk\u{1b}").unwrap();
    let () = redis.connection().rpush("default_noti", "1").unwrap();
    let mut worker = start(&redis, &["worker", "--burst"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    redis
}

fn letters(redis: &TestRedis, words: &[&str]) -> Vec<Value> {
    let list = on(redis, DELAYED, &[&["dead", "list", "--json"], words].concat()).json();
    list.as_array().unwrap().clone()
}

#[test]
fn dead_letters_are_listed_by_task_and_by_page_and_shown() {
    let redis = with_dead_letters();
    let all = letters(&redis, &[]);
    assert_eq!(all.len(), 4, "{all:#?}");
    let failed = letters(&redis, &["--task", &task("fail")]);
    let one = failed.iter().find(|letter| letter["detail"] == "one").unwrap();
    assert_eq!(failed.len(), 2, "{failed:#?}");
    let first = letters(&redis, &["--count", "1"]);
    let rest = letters(&redis, &["--after", first[0]["id"].as_str().unwrap()]);
    assert_eq!([first, rest].concat(), all, "expected pages to make the whole");
    let malformed = all.iter().find(|letter| letter["reason"] == "malformed").unwrap();
    assert_eq!((&malformed["hex"], &malformed["task"]), (&"6a756e6b1b".into(), &Value::Null));
    let id = one["id"].as_str().unwrap();
    on(&redis, DELAYED, &["dead", "show", id])
        .expect(0)
        .says("arguments  (\"one\")")
        .says("reason     failed");
    assert_eq!(on(&redis, DELAYED, &["dead", "show", id, "--json"]).json(), *one);
    on(&redis, DELAYED, &["dead", "show", "1-1"])
        .expect(6)
        .says("no queue has a dead letter 1-1: `dead list`");
    for words in [&["dead", "list"][..], &["dead", "list", "--task", "f"]] {
        on(&redis, DELAYED, &[words, &["--after", LAST_ID]].concat())
            .expect(0)
            .says("there are no dead letters here");
    }
    on(&redis, DELAYED, &["dead", "list", "--after", "x"]).expect(2).says("not the id of a dead letter");
    let table = on(&redis, DELAYED, &["dead", "list"]).expect(0).says("REASON").says(" ago");
    assert!(!table.out.contains('\u{1b}'), "expected no control characters: {table:?}");
}

#[test]
fn a_dead_letter_shows_what_its_process_wrote() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    for (id, output) in [("1-0", None), ("2-0", Some(&b"first\nlast \x1b[31m\xff"[..]))] {
        let mut letter = redis::cmd("XADD");
        letter.arg("default_dead").arg(id).arg("message").arg("\u{7}").arg("reason").arg("crashed");
        if let Some(output) = output {
            letter.arg("output").arg(output);
        }
        let () = letter.query(&mut connection).unwrap();
    }
    let all = letters(&redis, &[]);
    assert_eq!(
        (&all[0]["output"], &all[1]["output"]),
        (&Value::Null, &"first\nlast \u{1b}[31m\u{fffd}".into())
    );
    on(&redis, DELAYED, &["dead", "show", "2-0"])
        .expect(0)
        .says("output\n    first\n    last \\u{1b}[31m\u{fffd}");
    let without = on(&redis, DELAYED, &["dead", "show", "1-0"]).expect(0);
    assert!(!without.out.contains("output"), "expected nothing of it: {without:?}");
}

#[test]
fn what_is_shown_turns_no_text_around() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let turned = "f\u{202e}\u{2028}g";
    let message = [&[0x92, 0xa8][..], turned.as_bytes(), b"\x91\xa5a\xe2\x80\x8fb"].concat();
    let () = connection.rpush("q", &message).unwrap();
    let () = connection.set_ex("w\u{2066}", 1, 60).unwrap();
    let () = connection.hset("q_processing", "w\u{2066}", &message).unwrap();
    let mut letter = redis::cmd("XADD");
    letter.arg("q_dead").arg("1-0").arg("message").arg(&message).arg("reason").arg("why\u{200e}");
    letter.arg("detail").arg("d\u{2069}").arg("output").arg("o\u{202a}\u{2029}");
    let () = letter.query(&mut connection).unwrap();
    for (words, told) in [
        (&["peek", "q"][..], &["f\\u{202e}\\u{2028}g", "a\\u{200f}b"][..]),
        (&["workers", "--queue", "q"], &["w\\u{2066}", "f\\u{202e}"]),
        (&["dead", "list", "--queue", "q"], &["why\\u{200e}", "d\\u{2069}", "f\\u{202e}"]),
        (&["dead", "show", "1-0", "--queue", "q"], &["why\\u{200e}", "d\\u{2069}", "o\\u{202a}\\u{2029}"]),
    ] {
        let shown = told.iter().fold(on(&redis, DELAYED, words).expect(0), |shown, told| shown.says(told));
        let raw = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(!shown.out.contains(raw), "{shown:?}");
    }
    on(&redis, DELAYED, &["peek", "q\u{200b}"]).expect(2).says("use printable characters");
}

#[test]
fn dead_letters_are_requeued_and_deleted_by_id_by_task_and_all() {
    let redis = with_dead_letters();
    let failed = letters(&redis, &["--task", &task("fail")]);
    let id = failed[0]["id"].as_str().unwrap();
    on(&redis, DELAYED, &["dead", "requeue", id, "5-5"])
        .expect(6)
        .says("requeued 1")
        .says("a dead letter 5-5");
    let other = failed[1]["id"].as_str().unwrap();
    let done = on(&redis, DELAYED, &["dead", "requeue", other, other, "--json"]).json();
    assert_eq!(done, serde_json::json!({ "queue": null, "requeued": 1, "missing": [], "locked": [] }));
    on(&redis, DELAYED, &["dead", "delete", "5-5", "5-5"]).expect(6).says("a dead letter 5-5:");
    let done = on(&redis, DELAYED, &["dead", "requeue", "--task", &task("panic"), "--json"]).json();
    assert_eq!(done, serde_json::json!({ "queue": null, "requeued": 1, "missing": [], "locked": [] }));
    assert_consistent(&mut redis.connection(), "default");
    assert_eq!(snapshot(&mut redis.connection(), "default").waiting.len(), 3);
    let done = on(&redis, DELAYED, &["dead", "delete", "--all", "--yes", "--json"]).json();
    assert_eq!(done["deleted"], 1);
    assert!(letters(&redis, &[]).is_empty());
    let mut letter = redis::cmd("XADD");
    let () = letter
        .arg("default_dead")
        .arg(LAST_ID)
        .arg("message")
        .arg("\u{7}")
        .query(&mut redis.connection())
        .unwrap();
    on(&redis, DELAYED, &["dead", "requeue", "--all"]).expect(0).says("requeued 1 dead letter of default");
    on(&redis, DELAYED, &["dead", "delete"]).expect(2);
    on(&redis, DELAYED, &["dead", "requeue", "--all", "--task", "x"]).expect(2);
}

#[test]
fn many_dead_letters_are_requeued_in_parts() {
    let redis = TestRedis::start();
    let mut pipe = redis::pipe();
    for n in 0..1234_u16 {
        let message = [&b"\x92\xa1f\xc4\x03\xcd"[..], &n.to_be_bytes()].concat();
        pipe.cmd("XADD").arg("q_dead").arg(format!("{}-0", n + 1)).arg("message").arg(message).ignore();
    }
    let () = pipe.query(&mut redis.connection()).unwrap();
    on(&redis, DELAYED, &["dead", "requeue", "--all", "--queue", "q"])
        .expect(0)
        .says("requeued 1234 dead letters");
    let state = snapshot(&mut redis.connection(), "q");
    assert_eq!((state.waiting.len(), state.tokens, state.dead.len()), (1234, 1234, 0));
    assert!(state.waiting.is_sorted(), "expected the oldest first");
}

#[test]
fn arguments_are_values_in_json() {
    let redis = TestRedis::start();
    let mut payload = b"\x98\xc0\xc3\xcb\x3f\xf8\0\0\0\0\0\0\xa2\xc3\xa9\xc4\x02\x00\xff".to_vec();
    payload.extend(b"\xd6\xff\x65\x53\xf1\x00\xcb\x7f\xf8\0\0\0\0\0\0\x82\x01\xff\xa1k\xc7\x01\x05\x09");
    let calls = [
        [&b"\x92\xa1f\xc4"[..], &[payload.len() as u8], &payload].concat(),
        b"\x93\xa1f\x91\x01\x81\xa1x\x02".to_vec(),
        b"\x92\xa1f\xc4\x01\xc1".to_vec(),
    ];
    let () = redis.connection().rpush("q", &calls).unwrap();
    let peeked = on(&redis, DELAYED, &["peek", "q", "--json"]).json();
    let of = |place: usize, name: &str| peeked[place][name].clone();
    let expected = serde_json::json!([
        null, true, 1.5, "é",
        {"$hex": "00ff"}, {"$time": "2023-11-14T22:13:20Z"}, {"$float": "NaN"},
        {"$map": [[1, -1], ["k", {"$ext": 5, "$hex": "09"}]]},
    ]);
    assert_eq!((of(0, "arguments"), of(0, "keywords")), (expected, Value::Null));
    assert_eq!(
        (of(1, "arguments"), of(1, "keywords")),
        (serde_json::json!([1]), serde_json::json!({"x": 2}))
    );
    assert_eq!(of(2, "arguments"), Value::Null);
    assert!(of(2, "arguments_text").as_str().unwrap().contains("no value"), "{peeked:#}");
}

#[test]
fn peek_reads_messages_of_all_languages() {
    let redis = TestRedis::start();
    let messages: [&[u8]; 5] = [
        b"\xa1f",
        b"\x92\xa1f\xc4\x01\x05",
        b"\x94\xa1f\x91\x01\x81\xa1x\x02\x03",
        b"\x93\xa1f\xc4\x01\x05\x81\xa1a\x02",
        b"\x07",
    ];
    let () = redis.connection().rpush("q", &messages).unwrap();
    let peeked = on(&redis, DELAYED, &["peek", "q", "--json"]).json();
    let field =
        |name: &str| peeked.as_array().unwrap().iter().map(|one| one[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        field("form"),
        [Value::from("bare"), "payload".into(), "python".into(), "native".into(), Value::Null]
    );
    assert_eq!(field("arguments_text")[..4], ["()", "(5)", "(1, x=2)", "(5)"]);
    assert_eq!(field("attempts"), [0, 0, 0, 2, 0]);
    assert_eq!((&field("retry")[2], &field("hex")[4]), (&3.into(), &"07".into()));
    let long = "a".repeat(5_000);
    on(&redis, DELAYED, &["enqueue", &long, "--queue", "long"]).expect(0);
    let shown = on(&redis, DELAYED, &["peek", "long"]).expect(0).says("aaa…()");
    assert!(shown.out.len() < 500, "expected the path to be cut: {shown:?}");
    on(&redis, DELAYED, &["peek", "q", "--start", "4"]).expect(0).says("not a message").says("0x07");
    let most = u64::MAX.to_string();
    let all = on(&redis, DELAYED, &["peek", "q", "--start", "3", "--count", &most, "--json"]).json();
    assert_eq!(all.as_array().unwrap().len(), 2);
    on(&redis, DELAYED, &["peek", "q", "--start", &most]).expect(0).says("nothing waits");
    on(&redis, DELAYED, &["peek", "empty"]).expect(0).says("nothing waits");
}

#[test]
fn queues_and_workers_show_who_runs_what() {
    let redis = TestRedis::start();
    on(&redis, DELAYED, &["queues"]).expect(0).says("there are no queues");
    let mut worker = start(&redis, &["worker", "--concurrency", "2"]);
    on(&redis, WORKER, &["enqueue", &task("never_ends")]).expect(0);
    let () = redis.connection().set_ex("4711", 1, 60).unwrap();
    let () = redis.connection().hset("default_processing", "4711", b"\x92\xa1f\x91\x01").unwrap();
    let workers = wait::until_some("two owners", PATIENCE, || {
        let workers = on(&redis, DELAYED, &["workers", "--json"]).json();
        let runs_one =
            |worker: &Value| worker["running"].as_array().is_some_and(|running| running.len() == 1);
        let all = workers.as_array().unwrap();
        (all.len() == 2 && all.iter().all(runs_one)).then_some(workers)
    });
    let (ours, foreign) = (&workers[0], &workers[1]);
    assert_eq!((&ours["kind"], &ours["alive"]), (&"ours".into(), &true.into()));
    assert_eq!(ours["info"]["pid"], worker.pid().as_raw());
    assert_eq!(ours["running"][0]["task"], task("never_ends"));
    assert_eq!(
        (&foreign["kind"], &foreign["alive"], &foreign["id"]),
        (&"foreign".into(), &true.into(), &"4711".into())
    );
    assert_eq!(foreign["running"][0]["arguments"], serde_json::json!([1]));
    let ours_version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (&ours["info"]["program_version"], &ours["info"]["version"], &ours["info"]["phase"]),
        (&"7.8.9".into(), &ours_version.into(), &"running".into())
    );
    on(&redis, DELAYED, &["workers"])
        .expect(0)
        .says("runs 1 of 2")
        .says(&format!("(7.8.9, delayed {ours_version})"))
        .says("Python or Go");
    let queues = on(&redis, DELAYED, &["queues", "--json"]).json();
    assert_eq!(
        (&queues[0]["queue"], &queues[0]["owned"], &queues[0]["workers"]),
        (&"default".into(), &2.into(), &2.into()),
        "expected the foreign worker to count too"
    );
    worker.kill9();
    worker.wait_exit(PATIENCE);
}

/// The one worker of a Redis, when it is as it should be.
fn worker_that(redis: &TestRedis, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait::until_some(what, PATIENCE, || {
        let workers = on(redis, DELAYED, &["workers", "--json"]).json();
        Some(workers[0].clone()).filter(&is_so)
    })
}

#[test]
fn workers_shows_since_when_a_long_run_goes_on() {
    let redis = TestRedis::start();
    let before = millis();
    let mut worker = start(&redis, &["worker", "--concurrency", "1", "--prefetch", "1", "--lease", "1s"]);
    let ids = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    for id in ids {
        on(&redis, WORKER, &["enqueue", &task("never_ends"), &format!("--id={id}")]).expect(0);
    }
    let run_of = |worker: &Value, id: &str| {
        worker["running"].as_array().unwrap().iter().find(|run| run["call_id"] == id).cloned()
    };
    let starts = |worker: &Value| run_of(worker, ids[0]).and_then(|run| run["started_ms"].as_u64());
    let shown = worker_that(&redis, "the start of a run", |worker| {
        starts(worker).is_some() && run_of(worker, ids[1]).is_some()
    });
    let started = starts(&shown).unwrap();
    assert!((before..=millis()).contains(&started), "{before} {started}");
    let prefetched = run_of(&shown, ids[1]).unwrap();
    assert_eq!(prefetched["started_ms"], Value::Null, "expected it to be claimed ahead: {shown:#}");
    let table = on(&redis, DELAYED, &["workers"]).expect(0).out;
    let row = |id: &str| table.lines().find(|line| line.contains(id)).unwrap();
    assert!(row(ids[0]).contains("  runs "), "{table}");
    assert!(!row(ids[1]).contains("  runs "), "{table}");

    // The next run in the same slot is not taken for the long one.
    on(&redis, DELAYED, &["tasks", "kill", ids[0]]).expect(0);
    let next = worker_that(&redis, "the next run", |worker| run_of(worker, ids[0]).is_none());
    let next = run_of(&next, ids[1]).unwrap();
    assert!(next["started_ms"].as_u64().is_none_or(|since| since > started), "{next:#}");
    worker.kill9();
    worker.wait_exit(PATIENCE);
}

#[test]
fn workers_shows_which_are_quiet_or_drain() {
    let redis = TestRedis::start();
    let mut worker = start(&redis, &["worker", "--lease", "1s"]);
    let phase = |name: &'static str| move |worker: &Value| worker["info"]["phase"] == name;
    on(&redis, WORKER, &["enqueue", &task("never_ends")]).expect(0);
    worker_that(&redis, "a run", |worker| !worker["running"][0].is_null());
    worker.signal(Signal::SIGUSR1);
    worker_that(&redis, "a quiet worker", phase("quiet"));
    on(&redis, DELAYED, &["workers"]).expect(0).says("  quiet ");
    worker.signal(Signal::SIGTERM);
    worker_that(&redis, "a draining worker", phase("draining"));
    on(&redis, DELAYED, &["workers"]).expect(0).says("  draining ");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    assert_eq!(on(&redis, DELAYED, &["workers", "--json"]).json(), Value::Array(Vec::new()));
}

/// Milliseconds since 1970.
fn millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[test]
fn purge_wants_to_be_told_and_takes_the_tokens_too() {
    let redis = TestRedis::start();
    let messages = vec!["\u{7}"; 5000];
    let () = redis.connection().rpush("q", &messages).unwrap();
    let () = redis.connection().rpush("q_noti", vec!["1"; 5000]).unwrap();
    on(&redis, DELAYED, &["purge", "q"]).expect(2).says("5000 messages wait in q").says("--yes");
    let done = on(&redis, DELAYED, &["purge", "q", "--yes", "--json"]).json();
    assert_eq!(done, serde_json::json!({ "queue": "q", "dropped": 5000, "owned": 0 }));
    let state = snapshot(&mut redis.connection(), "q");
    assert_eq!((state.waiting.len(), state.tokens), (0, 0));
}

#[test]
fn tasks_shows_what_the_program_can_run() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["tasks"]).expect(0).says("async add(a: i64, b: i64) -> i64").says("retried 2 times");
    on(&redis, WORKER, &["tasks"]).expect(0).says("retried for 900ms");
    let tasks = on(&redis, WORKER, &["tasks", "--json"]).json();
    let greet = tasks.as_array().unwrap().iter().find(|task| task["task"] == "report.greet").unwrap();
    assert_eq!((&greet["queue"], &greet["doc"]), (&"reports".into(), &"Into a queue of its own.".into()));
    assert_eq!(greet["parameters"][1]["presence"], "optional");
    assert_eq!((&greet["retry"], &greet["retry_for_ms"]), (&Value::Null, &Value::Null), "its worker decides");
    let gives_up = tasks.as_array().unwrap().iter().find(|task| task["task"] == "trial.gives_up").unwrap();
    assert_eq!((&gives_up["retry"], &gives_up["retry_for_ms"]), (&(-1).into(), &900.into()));
    assert_eq!(on(&redis, DELAYED, &["tasks", "--json"]).json(), Value::Array(Vec::new()));
}

#[test]
fn queues_shows_how_long_the_oldest_message_waits() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    // A call with an id of the year 2023, and one without.
    let id = b"\x01\x8b\xcf\xe5\x68\x7b\x7b\x5c\x8a\x3e\x01\x23\x45\x67\x89\xab";
    let old = [&b"\x93\xa1f\xc4\x01\x05\x81\xa1i\xc4\x10"[..], id].concat();
    let () = connection.rpush("dated", &[&old[..], b"\xa1f"]).unwrap();
    let () = connection.rpush("undated", &[b"\xa1f", &old[..]]).unwrap();
    let () = connection.sadd("delayed_queues", &["dated", "undated"]).unwrap();
    let queues = on(&redis, DELAYED, &["queues", "--json"]).json();
    assert_eq!(
        (&queues[0]["oldest_ms"], &queues[1]["oldest_ms"]),
        (&1_700_000_000_123_u64.into(), &Value::Null)
    );
    let shown = on(&redis, DELAYED, &["queues"]).expect(0).says("OLDEST").out;
    let oldest = |queue: &str| {
        let row = shown.lines().find(|line| line.starts_with(queue)).unwrap();
        row.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert!(oldest("dated").ends_with('d'), "{shown}");
    assert_eq!(oldest("undated"), "-", "{shown}");
}

#[test]
fn misspelled_queue_or_task_is_answered_with_what_was_meant() {
    let redis = TestRedis::start();
    on(&redis, DELAYED, &["enqueue", "a", "--queue", "mail"]).expect(0).never_says("did you mean");
    let meant = "warning: no queue `mial` is known; did you mean `mail`?";
    for words in
        [&["peek", "mial"][..], &["workers", "--queue", "mial"], &["dead", "list", "--queue", "mial"]]
    {
        on(&redis, DELAYED, words).expect(0).says(meant);
    }
    on(&redis, DELAYED, &["purge", "mial", "--yes"]).expect(0).says(meant).says("dropped 0 messages");
    on(&redis, DELAYED, &["peek", "mail"]).expect(0).never_says("did you mean");
    on(&redis, DELAYED, &["peek", "reports"]).expect(0).never_says("did you mean");
    on(&redis, DELAYED, &["enqueue", "a", "--queue", "mial"])
        .expect(0)
        .says(meant)
        .says("enqueued a() to mial");

    let redis = with_dead_letters();
    let meant = format!("did you mean `{}`?", task("fail"));
    on(&redis, DELAYED, &["dead", "list", "--task", &task("fial")]).expect(0).says(&meant);
    on(&redis, DELAYED, &["dead", "requeue", "--task", &task("fial")]).expect(6).says(&meant);
    on(&redis, DELAYED, &["dead", "requeue", "--task", "nothing"]).expect(6).never_says("did you mean");
}

#[test]
fn error_that_main_returns_is_printed_for_people() {
    let directory = crate::support::directory();
    let program = crate::support::example::example("embedded_worker");
    let mut command =
        super::command(program.to_str().unwrap(), directory.path(), &["unix:///nowhere/redis.sock"]);
    super::ended(&mut command)
        .expect(1)
        .says("Error: Redis cannot be reached: check that it is running and that the address is correct (connect: ")
        .never_says("BrokerError")
        .never_says("kind:");
}
