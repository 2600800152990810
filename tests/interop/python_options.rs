//! What a Python program says about a call beside its arguments: when it runs, as what it is known, how it is retried.

use std::collections::BTreeMap;

use redis::Commands;

use super::*;

const ID: &str = "018bcfe5-687b-7b5c-8a3e-0123456789ab";
const OTHER: &str = "018bcfe5-687b-7b5c-8a3e-0123456789ac";

fn add(n: u32, options: &str) -> String {
    line("rust", "demo::tasks::add", &format!(r#""args": [{n}, {n}], {options}"#))
}

fn server_ms(site: &mut Site) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut site.redis).unwrap();
    seconds * 1000 + micros / 1000
}

/// When each call of the timetable is due, the first one first.
fn dues(site: &mut Site) -> Vec<u64> {
    let dues: Vec<(Vec<u8>, f64)> = site.redis.zrange_withscores(format!("{QUEUE}_due"), 0, -1).unwrap();
    dues.into_iter().map(|(_, due)| due as u64).collect()
}

fn text(letter: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    String::from_utf8_lossy(&letter[name]).into_owned()
}

#[test]
fn call_that_python_schedules_runs_at_its_time() {
    let mut site = Site::new();
    let calls = [
        add(1, r#""at": {"$time": "1969-12-31T00:00:00Z"}"#),
        add(2, &format!(r#""after": 0.6, "id": "{ID}""#)),
        add(3, r#""after": 1.2"#),
        add(4, &format!(r#""after": 0.6, "id": "{OTHER}""#)),
        line("cancel", OTHER, ""),
    ];
    site.produce(Python, &calls);
    let state = site.state();
    let is_known = state.later.contains_key(&id_bytes(ID)) && !state.later.contains_key(&id_bytes(OTHER));
    assert!(state.later.len() == 3 && is_known && state.waiting.is_empty(), "{state:#?}");
    let dues = dues(&mut site);
    let worker = site.worker(Rust, "notes", &["--concurrency", "1"]);
    for (n, due) in dues.into_iter().enumerate() {
        site.wait_for("notes", n + 1);
        let now = server_ms(&mut site);
        assert!(now >= due, "expected no run before {due}, it is {now}");
    }
    let state = site.wait_until_settled();
    assert_eq!(site.lines("notes"), ["add (1, 1)", "add (2, 2)", "add (3, 3)"]);
    assert!(state.later.is_empty() && state.dead.is_empty(), "{state:#?}");
    stop(Rust, worker);
}

#[test]
fn python_decides_how_a_call_is_retried_and_limited() {
    let mut site = Site::new();
    let flaky = |failures: u32, options: &str| {
        line("rust", "demo::tasks::flaky", &format!(r#""args": [{failures}], {options}"#))
    };
    let calls = [
        flaky(2, r#""max_attempts": 3, "backoff": "fixed:0.01s""#),
        flaky(5, r#""max_attempts": 2, "backoff": "none""#),
        // The task's own would be one retry.
        flaky(7, r#""retry": 0"#),
        add(1, r#""expires_at": {"$time": "2001-01-01T00:00:00Z"}"#),
        line("rust", "demo::hold", r#""args": [8], "timeout": 0.05, "retry": 0"#),
    ];
    site.produce(Python, &calls);
    let worker = site.worker(Rust, "notes", &[]);
    let mut noted = site.wait_for("notes", 3 + 2 + 1 + 1);
    let state = wait::until_ok(PATIENCE, || match site.state() {
        state if state.dead.len() == 4 && state.processing.is_empty() && state.later.is_empty() => Ok(state),
        state => Err(format!("four dead letters: {state:#?}")),
    });
    noted.sort();
    let wanted = [
        "begin 8",
        "flaky (2, 1)",
        "flaky (2, 2)",
        "flaky (2, 3)",
        "flaky (5, 1)",
        "flaky (5, 2)",
        "flaky (7, 1)",
    ];
    assert_eq!(noted, wanted, "expected as many attempts as the call allows");
    assert_eq!(site.lines("notes").len(), wanted.len(), "expected no other runs");
    let mut dead: Vec<_> =
        state.dead.iter().map(|letter| (text(letter, "reason"), text(letter, "attempt"))).collect();
    dead.sort();
    let wanted = [("expired", "1"), ("failed", "1"), ("failed", "2"), ("timed_out", "1")];
    assert_eq!(dead, wanted.map(|(reason, attempt)| (reason.to_owned(), attempt.to_owned())));
    drop(worker);
}

#[test]
fn call_that_python_scheduled_is_cancelled_by_its_id() {
    let mut site = Site::new();
    site.produce(Python, &[add(1, &format!(r#""after": 3600, "id": "{ID}""#))]);
    let url = site.server.url();
    for (action, said) in [("show", "demo::tasks::add"), ("cancel", "1")] {
        let mut program = Program::start(DELAYED, ["calls", action, ID, "--queue", QUEUE, "--redis", &url]);
        let status = program.wait_exit(PATIENCE);
        assert!(status.success() && program.printed().contains(said), "{}", program.printed());
    }
    let state = site.state();
    assert!(state.later.is_empty() && state.waiting.is_empty(), "{state:#?}");
}

fn id_bytes(id: &str) -> Vec<u8> {
    delayed::CallId::parse(id).unwrap().as_bytes().to_vec()
}
