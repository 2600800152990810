//! Which messages does `enqueue` send, and which does it refuse?

use std::process::Stdio;

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, PATIENCE, WORKER, command, on, start, task};
use crate::support::redis::{TestRedis, snapshot};
use crate::support::wait;

#[test]
fn a_call_is_sent_as_go_would_send_it_and_can_carry_options() {
    let redis = TestRedis::start();
    let add = task("add");
    on(&redis, WORKER, &["enqueue", &add, "[1, 2]"]).expect(0).says("enqueued").says("(1, 2) to default");
    on(&redis, WORKER, &["enqueue", &add, r#"{"b": 2, "a": 1}"#]).expect(0);
    on(&redis, WORKER, &["enqueue", &add, "[-0, 0]", "--queue", "zero"]).expect(0).says("(0, 0) to zero");
    let sent =
        on(&redis, WORKER, &["enqueue", &add, "[1, 2]", "--with-id", "--retry", "-1", "--json"]).json();
    assert_eq!(
        (&sent["queue"], &sent["arguments"], &sent["arguments_text"], &sent["waiting"]),
        (&"default".into(), &serde_json::json!([1, 2]), &"(1, 2)".into(), &3.into())
    );
    let waiting = snapshot(&mut redis.connection(), "default").waiting;
    let expected = [&[0x92, 0xbf][..], add.as_bytes(), &[0xc4, 3, 0x92, 1, 2]].concat();
    assert_eq!(waiting[..2], [expected.clone(), expected], "expected the bytes of Go, by place and by name");
    let peeked = on(&redis, DELAYED, &["peek", "default", "--start", "2", "--json"]).json();
    assert_eq!((&peeked[0]["call_id"], &peeked[0]["retry"]), (&sent["id"], &(-1).into()));
    on(&redis, WORKER, &["enqueue", &add, "[1, 2]", "--retry-for", "2d"]).expect(0);
    let peeked = on(&redis, DELAYED, &["peek", "default", "--start", "3", "--json"]).json();
    assert_eq!((&peeked[0]["retry_for_ms"], &peeked[0]["retry"]), (&172_800_000.into(), &Value::Null));
    assert!(peeked[0]["call_id"].is_string(), "expected an id for a call with an option: {peeked}");
    on(&redis, WORKER, &["enqueue", &add, "[1, 2]", "--retry-for", "0s"]).expect(2).says("is no time");
}

#[test]
fn a_call_is_scheduled_for_later() {
    let redis = TestRedis::start();
    let add = task("add");
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue", &add, "[1, 2]"], words].concat());
    send(&["--after", "1h"])
        .expect(0)
        .says("scheduled")
        .says("(1, 2) in default with the id")
        .says(" for 20");
    let id = "018bcfe5-687b-7b5c-8a3e-0123456789ab";
    let with_id = format!("--id={id}");
    send(&["--at", "2096-10-02T09:06:40+02:00", &with_id]).expect(0).says("for 2096-10-02T07:06:40Z");
    send(&["--after", "2h", &with_id]).expect(4).says("exists in default and is scheduled");
    send(&["--at", "tomorrow"]).expect(2).says("not a moment such as");
    send(&["--at", "10000-01-01T00:00:00Z"]).expect(2).says("not a moment such as");
    send(&["--at", "9999-01-01T00:00:00Z"]).expect(2).says("at most a hundred years from now");
    send(&["--after", "500y"]).expect(2).says("at most a hundred years from now");
    send(&["--after", "1h", "--at", "2096-10-02T09:06:40Z"]).expect(2).says("cannot be used with");
    let shown = on(&redis, DELAYED, &["queues", "--json"]).json();
    assert_eq!((&shown[0]["waiting"], &shown[0]["scheduled"]), (&0.into(), &2.into()), "{shown}");
}

#[test]
fn call_may_have_headers() {
    let redis = TestRedis::start();
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue"], words].concat());
    let add = task("add");
    send(&[&add, "[1, 2]", "--header", "tenant=acme", "--header", "query=a=b", "--header", "x="]).expect(0);
    send(&["elsewhere", "{\"a\": 1}", "--as", "rust", "--header", "tenant=acme"]).expect(0);
    let peeked = on(&redis, DELAYED, &["peek", "default", "--json"]).json();
    assert_eq!(peeked[0]["headers"], serde_json::json!({ "query": "a=b", "tenant": "acme", "x": "" }));
    assert_eq!(peeked[1]["headers"], serde_json::json!({ "tenant": "acme" }));
    for bad in ["tenant", "=acme", ""] {
        send(&[&add, "[1, 2]", "--header", bad]).expect(2).says("such as tenant=acme");
    }
    let large = format!("x={}", "y".repeat(4096));
    send(&[&add, "[1, 2]", "--header", &large]).expect(2).says("send large values as arguments");
    send(&["a:b", "--as", "python", "--header", "a=b"]).expect(2).says("leave out --header");
}

#[test]
fn call_waits_for_the_limits_that_it_names() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue"], words].concat());
    on(&redis, WORKER, &["limits", "set", "few", "--concurrency", "1"]).expect(0);
    let () = connection.zadd("{delayed:few}:holders", "somebody", 4_102_444_800_000_u64).unwrap();
    let add = task("add");
    send(&[&add, "[1, 2]", "--limit", "other", "--limit", "few", "--limit", "few"]).expect(0);
    on(&redis, DELAYED, &["enqueue", &add, "{\"a\": 1, \"b\": 2}", "--limit", "few"]).expect(0);
    let words = ["periodic", "add", "nightly", "0 3 * * *", &add, "[3, 4]"];
    on(&redis, WORKER, &[&words[..], &["--overlap", "queue", "--limit", "few"]].concat()).expect(0);
    on(&redis, WORKER, &["periodic", "run", "nightly"]).expect(0);
    let mut worker = start(&redis, &["worker"]);
    wait::until("three calls to be parked", PATIENCE, || {
        connection.llen::<_, u64>("default:l:few").unwrap() == 3
    });
    let () = connection.zrem("{delayed:few}:holders", "somebody").unwrap();
    on(&redis, WORKER, &["limits", "set", "few", "--concurrency", "2"]).expect(0);
    wait::until("the calls to end", PATIENCE, || {
        let left = ["default", "default:l:few"].map(|key| connection.llen::<_, u64>(key).unwrap());
        left == [0, 0] && connection.hlen::<_, u64>("default_processing").unwrap() == 0
    });
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());

    send(&[&add, "[1, 2]", "--limit", "two words"])
        .expect(2)
        .says("the limit name \"two words\" is not valid");
    let names: Vec<String> = (0..17).map(|n| format!("--limit=l{n}")).collect();
    let many =
        [&[add.as_str(), "[1, 2]"][..], &names.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    send(&many).expect(2).says("the call names 17 limits: at most 16");
    send(&["a:b", "--as", "python", "--limit", "few"]).expect(2).says("leave out --limit");
    let python = ["periodic", "add", "n", "@daily", "a:b", "--as", "python", "--limit", "few"];
    on(&redis, WORKER, &python).expect(2).says("or a limit: leave out");
}

#[test]
fn call_may_set_its_timeout_and_when_it_expires() {
    let redis = TestRedis::start();
    let add = task("add");
    let send = |words: &[&str]| {
        on(&redis, WORKER, &[&["enqueue", &add, "[1, 2]"], words].concat()).expect(0);
        let peeked = on(&redis, DELAYED, &["peek", "default", "--count", "1000", "--json"]).json();
        let last = peeked.as_array().unwrap().last().unwrap().clone();
        (last["timeout_ms"].as_u64(), last["expires_ms"].as_u64())
    };
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    assert_eq!(send(&["--timeout", "1m 30s"]), (Some(90_000), None));
    assert_eq!(send(&["--expires", "2096-10-02T07:06:40Z"]), (None, Some(4_000_000_000_000)));
    assert_eq!(send(&["--expires", "2096-10-02T09:06:40.5+02:00"]), (None, Some(4_000_000_000_500)));
    let before = now();
    let (timeout, expires) = send(&["--expires", "1h", "--timeout", "1us"]);
    let range = before + 3_600_000..=now() + 3_600_001;
    assert!(timeout == Some(1) && range.contains(&expires.unwrap()), "{timeout:?} {expires:?} {range:?}");
    on(&redis, DELAYED, &["peek", "default"]).expect(0).says("90s").says("in 59m").says("in 2");
    let refuse = |words: &[&str], text: &str| {
        on(&redis, WORKER, &[&["enqueue", &add, "[1, 2]"], words].concat()).expect(2).says(text);
    };
    refuse(&["--expires", "tomorrow"], "neither a time from now such as `1h` nor a moment");
    for past in ["2000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0s"] {
        refuse(&["--expires", past], "a call with no time left is never run");
    }
    refuse(&["--timeout", "soon"], "not a duration");
    refuse(&["--timeout", "1s", "--as", "go"], "leave out --timeout");
    refuse(&["--expires", "1s", "--as", "python"], "leave out --expires");
}

#[test]
fn a_call_whose_report_cannot_be_written_is_said_to_be_enqueued() {
    let redis = TestRedis::start();
    let send = |words: &[&str], out: Stdio| {
        let mut send = command(WORKER, redis.directory(), &[&["enqueue", &task("panic")], words].concat());
        let child = send.env("DELAYED_REDIS_URL", redis.url()).stdout(out).stderr(Stdio::piped()).spawn();
        let ended = child.unwrap().wait_with_output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for words in [&["--id=018bcfe5-687b-7b5c-8a3e-0123456789ab"][..], &["--queue", "mail", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, told) = send(words, full.into());
        assert_eq!(code, Some(1), "{told}");
        let place =
            words[0].replace("--id=", "to default with the id ").replace("--queue", "to mail nevertheless");
        for part in [
            "the output could not be written",
            "the call was enqueued",
            &place,
            "do not send it again",
            "`peek ",
        ] {
            assert!(told.contains(part), "expected {part:?} in {told}");
        }
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(send(&[], writer.into()), (Some(0), String::new()), "expected nothing to be said to nobody");
    assert_eq!(snapshot(&mut redis.connection(), "default").waiting.len(), 2);
    assert_eq!(snapshot(&mut redis.connection(), "mail").waiting.len(), 1);
}

#[test]
fn the_values_of_a_variadic_parameter_arrive_as_they_were_given() {
    let redis = TestRedis::start();
    let mut worker = start(&redis, &["worker", "--concurrency", "1"]);
    let given = [
        (r#"["a"]"#, r#"("a", [])"#),
        (r#"["b", [1, [2]]]"#, r#"("b", [List([Whole(1), List([Whole(2)])])])"#),
        (r#"["c", 1, [2]]"#, r#"("c", [Whole(1), List([Whole(2)])])"#),
        (r#"{"format": "d", "values": [[1]]}"#, r#"("d", [List([Whole(1)])])"#),
        (r#"["e", ""]"#, r#"("e", [Text("")])"#),
    ];
    for (arguments, _) in given {
        on(&redis, WORKER, &["enqueue", "fmt.Printf", arguments]).expect(0);
    }
    let record = redis.directory().join("record");
    let wanted: String = given.iter().map(|(_, noted)| format!("printf {noted}\n")).collect();
    let noted = || std::fs::read_to_string(&record).unwrap_or_default();
    wait::until("the calls to run", PATIENCE, || noted().lines().count() == given.len());
    assert_eq!(noted(), wanted);
    on(&redis, WORKER, &["enqueue", "fmt.Printf", r#"{"format": "f", "values": "x"}"#])
        .expect(2)
        .says("`values` (2 of 2): expected Vec<Mixed>, got a string");
    on(&redis, WORKER, &["enqueue", "fmt.Printf", r#"{"format": "f", "values": ""}"#])
        .expect(2)
        .says("by its name `values` takes a list");
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
}

#[test]
fn a_task_goes_to_its_own_queue_unless_another_is_named() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", "report.greet", r#"["Ann"]"#]).expect(0).says("to reports");
    on(&redis, WORKER, &["enqueue", "report.greet", r#"{"name": "Ann", "times": 3}"#, "--queue", "mail"])
        .expect(0);
    on(&redis, WORKER, &["enqueue", &task("panic")]).expect(0).says("panic() to default");
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_the_signature() {
    let redis = TestRedis::start();
    let (add, record) = (task("add"), task("record"));
    for (path, arguments, text) in [
        (
            &add,
            "[1]",
            "too few arguments: 1 given, `b` (2 of 2, i64) is missing; it is async add(a: i64, b: i64)",
        ),
        (&add, "[1, 2, 3]", "too many arguments: 3 given, at most 2 expected"),
        (&add, r#"{"a": 1, "c": 2}"#, "unknown keyword `c`: expected `a`, `b`"),
        (&add, r#"[1, "x"]"#, "argument `b` (2 of 2): expected i64, got a string \"x\""),
        (&add, r#"{"a": 1}"#, "`b` (2 of 2, i64) is missing"),
        (&add, "7", "a JSON array, such as '[7]'"),
        (&add, "[1,", "cannot be read: EOF"),
        (&add, r#"{"a": 1, "a": 2, "b": 3}"#, "the name \"a\" comes twice in an object"),
        (&add, "[1, 18446744073709551616]", "18446744073709551616 does not fit into 64 bits"),
        (&record, r#"["x"]"#, "argument `n` (1 of 1): expected i64"),
        (&"report.greet".into(), r#"["Ann", 300]"#, "argument `times` (2 of 2): expected u8"),
    ] {
        on(&redis, WORKER, &["enqueue", path, arguments]).expect(2).says(text);
    }
    on(&redis, WORKER, &["enqueue", "tasks::add", "[1, 2]"])
        .expect(6)
        .says("did you mean `delayed_test_worker");
    assert!(snapshot(&mut redis.connection(), "default").keys.is_empty(), "expected nothing to be sent");
}

#[test]
fn arguments_are_read_as_the_worker_does_for_sync_and_async_fns() {
    let redis = TestRedis::start();
    let order = r#"{"id": 7, "lines": [{"article": "tea", "count": 2}]}"#;
    let by_place = format!(r#"[{order}, [0, 255], "raw", [-1], {{"a": -128}}]"#);
    let by_name = format!(r#"{{"order": {order}, "data": [], "raw": [1]}}"#);
    let with_field = |line: &str| format!(r#"[{{"id": 7, "lines": [{line}]}}, [], []]"#);
    let wrong = [
        (format!("[{order}, [], [], null, {{}}, 1]"), "too many arguments: 6 given, at most 5 expected"),
        (format!("[{order}]"), "`data` (2 of 5, Vec<u8>) is missing"),
        ("[7, [], []]".into(), "argument `order` (1 of 5): expected Order, got the integer 7"),
        (
            with_field(r#"{"article": "tea", "count": "two"}"#),
            "expected Order, but at lines[0].count: expected an integer of type u16, got a string \"two\"",
        ),
        (with_field(r#"{"article": "tea"}"#), "but at lines[0]: missing field `count`"),
        (
            format!("[{order}, [0, 256], []]"),
            "`data` (2 of 5): expected Vec<u8>, but at [1]: expected an integer",
        ),
        (format!("[{order}, true, []]"), "`data` (2 of 5): expected Vec<u8>, got the boolean true"),
        (format!("[{order}, [], 1]"), "`raw` (3 of 5): expected ByteBuf, got the integer 1"),
        (format!("[{order}, [], [], 1]"), "`some` (4 of 5): expected Option<Vec<i16>>, got the integer 1"),
        (format!("[{order}, [], [], [40000]]"), "expected Option<Vec<i16>>, but at [0]: expected an integer"),
        (format!("[{order}, [], [], [], [1]]"), "`counts` (5 of 5): expected Counts, got an array of 1"),
        (format!(r#"[{order}, [], [], [], {{"a": 128}}]"#), "expected Counts, but at a: expected an integer"),
    ];
    for task in ["typed.plain", "typed.asynchronous"] {
        for (arguments, told) in &wrong {
            on(&redis, WORKER, &["enqueue", task, arguments]).expect(2).says(told).says("data: Vec<u8>");
        }
        assert!(snapshot(&mut redis.connection(), "default").keys.is_empty(), "expected nothing to be sent");
        on(&redis, WORKER, &["enqueue", task, &by_place]).expect(0);
        on(&redis, WORKER, &["enqueue", task, &by_name]).expect(0);
        let worker = on(&redis, WORKER, &["worker", "--burst", "--concurrency", "1"]).expect(0);
        let order = r#"Order { id: 7, lines: [Line { article: "tea", count: 2 }] }"#;
        worker
            .says(&format!(r#"{order} [0, 255] [114, 97, 119] Some([-1]) {{"a": -128}}"#))
            .says(&format!("{order} [] [1] None {{}}"));
        let () = redis.connection().flushall().unwrap();
    }
    on(&redis, WORKER, &["enqueue", "typed.costly"]).expect(0).never_says("nobody is to make this");
}

#[test]
fn a_path_that_no_worker_could_know_is_refused() {
    let redis = TestRedis::start();
    for language in ["rust", "python", "go"] {
        let send = |path: &str| on(&redis, DELAYED, &["enqueue", path, "[1]", "--as", language]);
        send("").expect(2).says("must not be empty");
        send("two words:x").expect(2).says("contains ' '");
    }
    on(&redis, DELAYED, &["enqueue", "send", "[1]", "--as", "python"])
        .expect(2)
        .says("package.module:function");
    let state = snapshot(&mut redis.connection(), "default");
    assert!(state.waiting.is_empty(), "expected nothing to be sent: {state:?}");
}

#[test]
fn calls_for_other_languages_are_sent_in_their_forms() {
    let redis = TestRedis::start();
    let send = |words: &[&str]| {
        on(&redis, DELAYED, words).expect(0);
        snapshot(&mut redis.connection(), "default").waiting.pop().unwrap()
    };
    assert_eq!(send(&["enqueue", "m:f", "[1]", "--as", "python"]), b"\x92\xa3m:f\x91\x01");
    assert_eq!(
        send(&["enqueue", "m:f", r#"{"x": 1}"#, "--as", "python", "--retry", "2"]),
        b"\x94\xa3m:f\x90\x81\xa1x\x01\x02"
    );
    assert_eq!(send(&["enqueue", "m.F", "[1, 2]", "--as", "go"]), b"\x92\xa3m.F\xc4\x03\x92\x01\x02");
    assert_eq!(send(&["enqueue", "m::f", "[5]"]), b"\x92\xa4m::f\xc4\x01\x05");
    on(&redis, DELAYED, &["enqueue", "m.F", r#"{"x": 1}"#, "--as", "go"])
        .expect(2)
        .says("does not support arguments by name");
    on(&redis, DELAYED, &["enqueue", "m:f", "--with-id", "--as", "python"])
        .expect(2)
        .says("leave out --with-id");
    on(&redis, DELAYED, &["enqueue", "m:f", "--retry-for", "2d", "--as", "python"])
        .expect(2)
        .says("leave out --retry-for");
    let ours = send(&["enqueue", "m::f", r#"{"x": 1}"#, "--retry", "2"]);
    assert!(ours.starts_with(b"\x93\xa4m::f\xc4\x01\x90\x83\xa1i\xc4\x10"), "{ours:02x?}");
    assert_eq!(ours[30..], *b"\xa1k\x81\xa1x\x01\xa1r\x02", "behind the id");
}

#[test]
fn arguments_by_name_reach_a_task_that_the_sender_does_not_have() {
    let redis = TestRedis::start();
    on(&redis, DELAYED, &["enqueue", &task("record"), r#"{"n": 7}"#]).expect(0).says("(n=7) to default");
    let mut worker = start(&redis, &["worker", "--burst"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    assert_eq!(std::fs::read_to_string(redis.directory().join("record")).unwrap(), "7\n");
}

#[test]
fn arguments_shown_as_json_are_sent_again_as_the_same_bytes() {
    let redis = TestRedis::start();
    let mut payload = b"\x98\xc0\xca\x3f\xc0\0\0\xa2\xc3\xa9\xc4\x02\x00\xff\xc4\0".to_vec();
    payload.extend(b"\xd6\xff\x65\x53\xf1\x00\xcb\x7f\xf8\0\0\0\0\0\0\x82\x01\xff\xa1k\xd4\x05\x09");
    let go = [&b"\x92\xa1f\xc4"[..], &[payload.len() as u8], &payload].concat();
    let python = [&b"\x92\xa3m:f"[..], &payload].concat();
    let keywords = b"\x93\xa3m:f\x90\x81\xa1x\xc4\x01\x07".to_vec();
    let messages = [go, python, keywords];
    let () = redis.connection().rpush("old", &messages).unwrap();
    let peeked = on(&redis, DELAYED, &["peek", "old", "--json"]).json();
    for (shown, language) in peeked.as_array().unwrap().iter().zip(["go", "python", "python"]) {
        let task = shown["task"].as_str().unwrap();
        let given = if shown["keywords"].is_null() { &shown["arguments"] } else { &shown["keywords"] };
        on(&redis, DELAYED, &["enqueue", task, &given.to_string(), "--as", language, "--queue", "new"])
            .expect(0);
    }
    assert_eq!(snapshot(&mut redis.connection(), "new").waiting, messages);
    on(&redis, DELAYED, &["enqueue", "f", r#"[{"$float32": 1.5}]"#, "--as", "go", "--queue", "float"])
        .expect(0);
    let sent = snapshot(&mut redis.connection(), "float").waiting;
    assert_eq!(sent, [b"\x92\xa1f\xc4\x05\xca\x3f\xc0\0\0"], "expected a float32 of Go");
    on(&redis, DELAYED, &["enqueue", "f", r#"[{"$float32": "1.5"}]"#, "--as", "go"])
        .expect(2)
        .says(r#"{"$float32":"1.5"} is not one of {"$hex": "00ff"}"#);
}

#[test]
fn addresses_and_moments_are_taken_as_text_and_reach_the_task() {
    let redis = TestRedis::start();
    let texts = r#"["192.0.2.1", "[2001:db8::1]:8080", "2023-11-14T22:13:20Z"]"#;
    let send = |task: &str, arguments: &str| {
        on(&redis, WORKER, &["enqueue", task, arguments]).expect(0);
        let worker = on(&redis, WORKER, &["worker", "--burst"]).expect(0);
        worker.says("192.0.2.1 [2001:db8::1]:8080 1700000000.000").says("buried=0");
    };
    send("typed.forms", texts);
    send(
        "typed.forms",
        r#"{"from": {"V4": [192, 0, 2, 1]}, "at": 1700000000, "peer": "[2001:db8::1]:8080"}"#,
    );
    send("typed.forms", r#"[{"$hex": "c0000201"}, "[2001:db8::1]:8080", {"$time": "2023-11-14T22:13:20Z"}]"#);
    on(&redis, WORKER, &["enqueue", "typed.forms", r#"["192.0.2.300", "[::1]:1", 0]"#])
        .expect(2)
        .says("`from` (1 of 3): expected IpAddr");
    // What others send, byte for byte: the text of Python, the extension of Go.
    let message = b"\x92\xabtyped.forms\x93\xa9192.0.2.1\xb2[2001:db8::1]:8080\xd6\xff\x65\x53\xf1\x00";
    let () = redis.connection().rpush("default", message).unwrap();
    let () = redis.connection().rpush("default_noti", 1).unwrap();
    on(&redis, WORKER, &["worker", "--burst"]).expect(0).says("192.0.2.1 [2001:db8::1]:8080 1700000000.000");
    assert!(snapshot(&mut redis.connection(), "default").dead.is_empty());
}

#[test]
fn unique_call_that_comes_second_is_told_of_the_first() {
    let redis = TestRedis::start();
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue"], words].concat());
    let add = task("add");
    let first = send(&[&add, "[1, 2]", "--unique", "until-done", "--json"]).json();
    assert_eq!((&first["state"], &first["conflict"]), (&"waiting".into(), &serde_json::Value::Null));
    let id = first["id"].as_str().unwrap();
    send(&[&add, r#"{"b": 2, "a": 1}"#, "--unique", "until-done"])
        .expect(0)
        .says("not enqueued: delayed_test_worker::tasks::add(1, 2) is unique in default, and the call ")
        .says(&format!("{id} holds its lock; it is waiting"));
    let second = send(&[&add, "[1, 2]", "--unique", "10m", "--json"]).json();
    assert_eq!((&second["id"], &second["conflict"]), (&id.into(), &"held".into()), "{second}");
    send(&[&add, "[1, 3]", "--unique", "until-started"]).expect(0).says("enqueued ");
    send(&[&add, "[1, 2]", "--unique-key", "k"]).expect(0).says("enqueued ");
    send(&[&add, "[4, 5]", "--unique-key", "k"]).expect(0).says("not enqueued: ");
    let replaced = ["--unique", "replace", "--unique-key", "r", "--after", "1h"];
    let earlier = send(&[&[&add, "[1, 1]", "--json"], &replaced[..]].concat()).json();
    let later = send(&[&[&add, "[2, 2]", "--json"], &replaced[..]].concat()).json();
    assert_eq!((&later["id"], &later["conflict"]), (&earlier["id"], &"replaced".into()), "{later}");
    send(&[&[&add, "[3, 3]"], &replaced[..]].concat()).expect(0).says("replacing the call").says("for 20");
    let listed = on(&redis, DELAYED, &["calls", "list", "--state", "scheduled", "--json"]).json();
    assert_eq!(listed[0]["arguments"], serde_json::json!([3, 3]), "{listed}");
    // A task's own option.
    send(&["followed.once", "[1]"]).expect(0).says("enqueued ");
    send(&["followed.once", "[1]"]).expect(0).says("not enqueued: ");
    for wrong in ["often", "0s", ""] {
        send(&[&add, "[1, 2]", "--unique", wrong]).expect(2).says("nor a time such as `10m`");
    }
    send(&["elsewhere", "{\"a\": 1}", "--as", "rust", "--unique", "replace"]).expect(2).says("--unique-key");
    send(&["a:b", "--as", "python", "--unique", "replace"]).expect(2).says("leave out --unique");
    send(&["a:b", "--as", "go", "--keep", "1h"]).expect(2).says("leave out --keep");
}

#[test]
fn call_goes_to_the_front_or_is_refused_where_too_many_wait() {
    let redis = TestRedis::start();
    let send = |words: &[&str]| on(&redis, DELAYED, &[&["enqueue"], words].concat());
    send(&["mails:send", "[1]", "--as", "python"]).expect(0);
    send(&["mails:send", "[2]", "--as", "python", "--front"]).expect(0).says("enqueued").says("; 2 waiting");
    send(&["mail.Send", "[3]", "--as", "go", "--max-len", "3"]).expect(0).says("; 3 waiting");
    send(&["mail.Send", "[4]", "--as", "go", "--max-len", "3"])
        .expect(4)
        .says("3 calls wait in default, which is the maximum");
    send(&["mail.Send", "[4]", "--max-len", "0"]).expect(2);
    send(&["mail.Send", "[4]", "--overflow", "reject"]).expect(2).says("--max-len");
    send(&["mail.Send", "[4]", "--max-len", "3", "--overflow", "drop"]).expect(2).says("bury-oldest");
    let bury = ["mail.Send", "[4]", "--as", "go", "--max-len", "3", "--overflow", "bury-oldest"];
    send(&bury).expect(0).says("; 3 waiting");
    on(&redis, DELAYED, &["dead", "list"]).expect(0).says("overflow").says("mails:send");
    let id = "--id=018bcfe5-687b-7b5c-8a3e-0123456789ab";
    send(&["f", "[5]", "--keep", "1h", id, "--front"]).expect(0);
    send(&["f", "[5]", "--keep", "1h", id]).expect(4).says("exists in default and is waiting");
    let peeked = on(&redis, DELAYED, &["peek", "default", "--json"]).json();
    let arguments: Vec<_> =
        peeked.as_array().unwrap().iter().map(|call| call["arguments"][0].clone()).collect();
    assert_eq!(arguments, [5, 1, 3, 4], "{peeked}");
}

#[test]
fn call_is_awaited_and_its_result_is_printed() {
    let redis = TestRedis::start();
    let worker = start(&redis, &["worker", "--queue", "default,q"]);
    let send = |words: &[&str]| on(&redis, WORKER, &[&["enqueue"], words].concat());
    let sum = send(&[&task("add"), "[1, 2]", "--wait"]).expect(0);
    assert_eq!(sum.out, "3\n", "{sum:#?}");
    assert!(sum.err.contains("enqueued ") && sum.err.contains("with the id "), "{sum:#?}");
    let whole = send(&["followed.charge", "[7]", "--wait=30s", "--json"]).json();
    assert_eq!((&whole["state"], &whole["task"]), (&"succeeded".into(), &"followed.charge".into()));
    assert_eq!(whole["call"]["result"], serde_json::json!({ "order": 7, "paid": "7 EUR" }), "{whole}");
    let dead = send(&[&task("fail"), r#"["no way"]"#, "--retry", "0", "--wait"]).expect(1);
    dead.says("is dead: failed: no way; `dead show ");
    let late = send(&["elsewhere", "--as", "rust", "--queue", "nobody", "--wait=50ms"]).expect(7);
    late.says("has not ended in time, and continues: it is waiting");
    send(&["a:b", "--as", "python", "--wait"]).expect(2).says("leave out --wait");
    drop(worker);
}
