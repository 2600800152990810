//! Do the calls that we send arrive in Python's and Go's functions with the values that were given?

use std::collections::BTreeMap;

use delayed::{Call, Client, GoTask, PyTask, Timestamp};
use serde::Serialize;
use serde_bytes::Bytes;

use super::*;

#[derive(Serialize)]
struct Point {
    x: i64,
    y: f64,
}

/// A parameter of every kind.
#[derive(Serialize)]
struct Shown {
    int: i64,
    uint: u64,
    float: f64,
    single: f32,
    text: &'static str,
    bytes: &'static Bytes,
    yes: bool,
    list: Vec<&'static str>,
    map: BTreeMap<&'static str, i64>,
    note: Option<&'static str>,
    point: Point,
    time: Timestamp,
}

fn shown() -> Shown {
    Shown {
        int: i64::MIN,
        uint: u64::MAX,
        float: -0.5,
        single: 0.25,
        text: "héllo ✓",
        bytes: Bytes::new(&[0, 255]),
        yes: true,
        list: vec!["a", ""],
        map: BTreeMap::from([("k", 300)]),
        note: None,
        point: Point { x: -33, y: 2.0 },
        time: Timestamp::new(1_700_000_000, 123_456_789).unwrap(),
    }
}

/// Sends all in one go, then one by one what is left over.
fn send(site: &Site, calls: Vec<Call>) {
    let client = Client::connect_blocking(&site.server.url()).unwrap();
    let mut calls = calls.into_iter();
    client.enqueue_blocking(calls.next().unwrap()).unwrap();
    client.enqueue_many_blocking(calls).unwrap();
}

/// `delayed enqueue`.
#[track_caller]
fn enqueue(site: &Site, language: &str, path: &str, more: &[&str]) {
    let url = site.server.url();
    let words = ["enqueue", path, "--as", language, "--queue", QUEUE, "--redis", &url];
    let mut program = Program::start(DELAYED, words.iter().chain(more));
    let status = program.wait_exit(PATIENCE);
    assert!(status.success(), "expected the call to be sent:\n{}", program.printed());
}

#[test]
fn what_we_send_arrives_in_python() {
    let mut site = Site::new();
    let show = || PyTask::new("demo_tasks:show");
    send(
        &site,
        vec![
            show().queue(QUEUE),
            show().arg(1).arg("two").queue(QUEUE),
            show().arg(1.5).kwarg("b", [1, 2]).kwarg("a", Option::<u8>::None).queue(QUEUE),
            show().arg(shown()).queue(QUEUE),
            PyTask::new("demo_tasks:add").kwarg("b", 2).kwarg("a", 1).retry(3).queue(QUEUE),
            GoTask::new("demo_tasks:record_bytes").arg(70_000).queue(QUEUE),
        ],
    );
    enqueue(&site, "python", "demo_tasks:show", &[r#"[1, null, {"k": [2.5]}]"#]);
    enqueue(&site, "python", "demo_tasks:show", &[r#"{"b": "x", "a": true}"#]);
    enqueue(&site, "python", "demo_tasks:show", &[]);
    enqueue(&site, "python", "demo_tasks:record", &["[-9223372036854775808]"]);
    let worker = site.worker(Python, "notes", &[]);
    let all = "({'int': -9223372036854775808, 'uint': 18446744073709551615, 'float': -0.5, 'single': 0.25, \
               'text': 'héllo ✓', 'bytes': b'\\x00\\xff', 'yes': True, 'list': ['a', ''], 'map': {'k': 300}, \
               'note': None, 'point': {'x': -33, 'y': 2.0}, \
               'time': Timestamp(seconds=1700000000, nanoseconds=123456789)},) {}";
    let wanted = [
        "() {}",
        "(1, 'two') {}",
        "(1.5,) {'a': None, 'b': [1, 2]}",
        all,
        "1+2=3",
        "70000",
        "(1, None, {'k': [2.5]}) {}",
        "() {'a': True, 'b': 'x'}",
        "() {}",
        "-9223372036854775808",
    ];
    assert_eq!(site.wait_for("notes", wanted.len()), wanted);
    site.wait_until_settled();
    stop(Python, worker);
}

#[test]
fn python_retries_what_we_send_as_often_as_we_say() {
    let mut site = Site::new();
    let worker = site.worker(Python, "notes", &[]);
    send(&site, vec![PyTask::new("demo_tasks:fail").arg(1).retry(2).queue(QUEUE)]);
    site.wait_for("notes", 3);
    enqueue(&site, "python", "demo_tasks:fail", &["[2]", "--retry", "1"]);
    assert_eq!(site.wait_for("notes", 5), ["1", "1", "1", "2", "2"]);
    site.wait_until_settled();
    worker.wait_for_lines("RuntimeError: demo failure", 5);
}

#[test]
fn what_we_send_arrives_in_go() {
    let mut site = Site::new();
    let Shown { int, uint, float, single, text, bytes, yes, list, map, note, point, time } = shown();
    let places = GoTask::new("main.Show").arg(int).arg(uint).arg(float).arg(single).arg(text).arg(bytes);
    let places = places.arg(yes).arg(list).arg(map).arg(note).arg(point).arg(time);
    send(
        &site,
        vec![
            GoTask::new("main.Greet").arg("ann").queue(QUEUE),
            GoTask::new("main.Greet").queue(QUEUE),
            GoTask::new("main.Add").arg(-1).arg(300).queue(QUEUE),
            GoTask::new("main.Sum").arg([1, 2, 300]).queue(QUEUE),
            GoTask::new("main.Sum").arg(Vec::<i64>::new()).queue(QUEUE),
            GoTask::new("main.Show").arg(shown()).queue(QUEUE),
            places.queue(QUEUE),
            GoTask::new("main.Show").arg(Shown { note: Some("n"), ..shown() }).queue(QUEUE),
        ],
    );
    enqueue(&site, "go", "main.Add", &["[1, 2]"]);
    enqueue(&site, "go", "main.Sum", &["[[1, 2]]"]);
    enqueue(&site, "go", "main.Greet", &[r#"["bob"]"#]);
    enqueue(&site, "go", "main.Greet", &[]);
    let written = r#"[[-9223372036854775808, 18446744073709551615, -0.5, {"$float32": 0.25}, "héllo ✓", {"$hex": "00ff"},
        true, ["a", ""], {"k": 300}, null, [-33, 2.0], {"$time": "2023-11-14T22:13:20.123456789Z"}]]"#;
    enqueue(&site, "go", "main.Show", &[written]);
    let worker = site.worker(Go, "notes", &[]);
    let all = |note: &str| {
        format!(
            r#"{{"Int":-9223372036854775808,"Uint":18446744073709551615,"Float":-0.5,"Single":0.25,"Text":"héllo ✓","Bytes":"AP8=","Yes":true,"List":["a",""],"Map":{{"k":300}},"Note":{note},"Point":{{"X":-33,"Y":2}},"Time":"2023-11-14T22:13:20.123456789Z"}}"#
        )
    };
    let (all, noted) = (all("null"), all(r#""n""#));
    let wanted = [
        "greet=ann",
        "greet=",
        "-1+300=299",
        "sum=303",
        "sum=0",
        &all,
        &all,
        &noted,
        "1+2=3",
        "sum=3",
        "greet=bob",
        "greet=",
        &all,
    ];
    assert_eq!(site.wait_for("notes", wanted.len()), wanted);
    let state = site.state();
    assert_eq!((state.waiting.len(), state.tokens), (0, 0), "expected nothing to wait: {state:#?}");
    stop(Go, worker);
}

#[test]
fn go_worker_ignores_call_options_and_doctor_says_so() {
    let mut site = Site::new();
    enqueue(&site, "rust", "main.Add", &["[1, 2]", "--retry", "3", "--with-id", "--timeout", "1s"]);
    let worker = site.worker(Go, "notes", &[]);
    assert_eq!(site.wait_for("notes", 1), ["1+2=3"]);
    let mut doctor = Program::start(DELAYED, ["doctor", "--redis", &site.server.url()]);
    assert_eq!(doctor.wait_exit(PATIENCE).code(), Some(1), "{}", doctor.printed());
    // Go's worker keeps what it has finished until it takes the next.
    let told = "options: mail: 1 call has options, and a Go worker serves this queue";
    assert!(doctor.printed().contains(told), "{}", doctor.printed());
    stop(Go, worker);
}
