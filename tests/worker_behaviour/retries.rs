//! When a failed call is tried again: after its back-off, whoever is alive then.

use std::time::{Duration, Instant};

use delayed::__private::protocol::encode::{Meta, native};
use delayed::CallId;
use delayed::config::Backoff;
use redis::Commands;
use serde_json::{Value, json};

use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, count, ready};
use crate::support::wait;

/// A worker with this back-off that serves when this returns.
fn worker(trial: &Trial, backoff: &str, words: &[&str]) -> Program {
    let program = start(trial, backoff, words);
    ready(&program);
    program
}

fn start(trial: &Trial, backoff: &str, words: &[&str]) -> Program {
    let mut command = trial.command(WORKER);
    command.args(["worker", "--redis", &trial.server.url(), "--queue", QUEUE]).args(words);
    Program::spawn(command.env("DELAYED_BACKOFF", backoff))
}

/// A call that fails so many times.
fn fails(n: &str, times: u32) -> Vec<u8> {
    call("trial.mark_or_retry", &[n.into(), times.into()])
}

fn wait_scheduled(trial: &mut Trial, count: usize) {
    wait::until_ok(PATIENCE, || match trial.state() {
        state if state.later.len() == count => Ok(()),
        state => Err(format!("{count} scheduled calls: {state:#?}")),
    });
}

fn server_ms(trial: &mut Trial) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    seconds * 1000 + micros / 1000
}

#[test]
fn a_failed_call_runs_again_when_its_back_off_is_over() {
    let mut trial = Trial::new();
    let mut worker = worker(&trial, "fixed:3s", &[]);
    let python = rmp_serde::to_vec(&("trial.mark_or_retry", json!(["p"]), json!({"fails": 1}), 3)).unwrap();
    trial.push(&[fails("a", 1), python]);
    wait_scheduled(&mut trial, 2);
    let state = trial.state();
    assert_eq!((state.waiting.len(), state.tokens, state.processing.len()), (0, 0, 0), "{state:#?}");
    let dues: Vec<(Vec<u8>, u64)> = trial.redis.zrange_withscores("q_due", 0, -1).unwrap();
    let now = server_ms(&mut trial);
    for (_, due) in &dues {
        assert!(
            due.saturating_sub(now) <= 3750,
            "expected at most the back-off and a quarter: {due}, now {now}"
        );
    }
    let mut command = trial.command(DELAYED);
    let mut shown = Program::spawn(command.args(["queues", "--json", "--redis", &trial.server.url()]));
    let shown: Value = serde_json::from_str(&shown.last_words()).unwrap();
    assert_eq!(shown[0]["scheduled"], 2, "{shown}");
    trial.wait_runs(4);
    let (first, now) = (dues[0].1, server_ms(&mut trial));
    assert!(now >= first, "expected no run before its time: due {first}, now {now}");
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["a 1", "a 2", "p 1", "p 2"]);
    trial.assert_only(&[]);
}

#[test]
fn a_call_that_always_fails_is_tried_less_and_less_often() {
    let mut trial = Trial::new();
    let mut worker = worker(&trial, "exponential:50ms..10m", &[]);
    trial.push(&[call("trial.stamp_and_fail", &[])]);
    trial.wait_runs(4);
    let begun: Vec<u64> = trial.ledger.lines().iter().map(|line| line.parse().unwrap()).collect();
    let waits: Vec<u64> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Redis counts whole milliseconds from some time after the beginning of a run.
    let is_kept = waits.iter().zip([50, 100, 200]).all(|(wait, backoff)| wait + 1 >= backoff);
    assert!(is_kept && waits.len() == 3, "expected waits of at least 50, 100 and 200 ms, not {waits:?}");
    // The task's three retries are used up.
    wait::until("the dead letter", PATIENCE, || trial.dead() == 1);
    trial.stop(&mut worker);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_scheduled_call_outlives_its_worker() {
    for by_sweeper in [false, true] {
        let mut trial = Trial::new();
        let mut dies = worker(&trial, "fixed:300ms", &["--lease", "1s"]);
        trial.push(&[fails("a", 1)]);
        wait_scheduled(&mut trial, 1);
        dies.kill9();
        let mut next = if by_sweeper {
            // A worker that neither sweeps nor scheduled it, as those of other languages.
            let next = worker(&trial, "none", &["--no-sweep"]);
            let sweeper = trial.sweeper(&["--interval", "100ms"]);
            trial.wait_runs(2);
            drop(sweeper);
            next
        } else {
            let next = worker(&trial, "none", &[]);
            trial.wait_runs(2);
            next
        };
        trial.wait_settled();
        trial.stop(&mut next);
        trial.ledger.assert_each_once(["a 1", "a 2"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn of_two_calls_with_one_id_none_is_lost() {
    let mut trial = Trial::new();
    let meta = Meta { id: Some(CallId::new()), ..Meta::default() };
    let payload = |n: &str| rmp_serde::to_vec(&(n, 1)).unwrap();
    let mut worker = worker(&trial, "fixed:200ms", &["--concurrency", "2"]);
    trial.push(&["a", "b"].map(|n| native("trial.mark_or_retry", &payload(n), &meta)));
    trial.wait_runs(4);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["a 1", "a 2", "b 1", "b 2"]);
    trial.assert_only(&[]);
}

#[test]
fn a_burst_ends_while_calls_are_scheduled_and_says_so() {
    let mut trial = Trial::new();
    trial.push(&[fails("a", 1)]);
    let mut worker = start(&trial, "fixed:1h", &["--burst"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!(count(&stopped, "retried"), 1, "{stopped}");
    worker.wait_for_line("calls are scheduled for later");
    assert_eq!(trial.state().later.len(), 1);
}

#[test]
fn a_timetable_of_another_type_makes_retries_immediate() {
    for key in ["q_due", "q_later"] {
        let mut trial = Trial::new();
        let () = trial.redis.set(key, "text").unwrap();
        let mut worker = worker(&trial, "fixed:1h", &[]);
        trial.push(&[fails("a", 1)]);
        worker.wait_for_line("retrying immediately");
        wait::until("the second run", PATIENCE, || trial.ledger.lines().len() == 2);
        wait::until("its release", PATIENCE, || trial.left() == (0, 0));
        trial.stop(&mut worker);
        let left: String = trial.redis.get(key).unwrap();
        assert_eq!(left, "text", "{key}");
        let _: () = trial.redis.del(key).unwrap();
        trial.assert_only(&[]);
    }
}

/// Where tasks run.
const ISOLATIONS: [&str; 3] = ["inline", "fork", "prefork"];

#[test]
fn back_off_of_a_task_comes_before_that_of_its_worker() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let mut worker = worker(&trial, "none", &["--isolation", isolation]);
        let began = Instant::now();
        trial.push(&[call("trial.waits", &["a".into(), 2.into()])]);
        trial.wait_runs(3);
        assert!(began.elapsed() >= Duration::from_millis(800), "{isolation}: after {:?}", began.elapsed());
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(["a 1", "a 2", "a 3"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn back_off_of_a_call_comes_before_that_of_its_task() {
    let mut trial = Trial::new();
    let meta = Meta { backoff: Some(Backoff::Fixed(Duration::from_secs(3600))), ..Meta::default() };
    let payload = rmp_serde::to_vec(&("a", 1)).unwrap();
    let mut worker = worker(&trial, "none", &[]);
    trial.push(&[native("trial.waits", &payload, &meta)]);
    wait_scheduled(&mut trial, 1);
    let due: Vec<(Vec<u8>, u64)> = trial.redis.zrange_withscores("q_due", 0, -1).unwrap();
    let wait = due[0].1 - server_ms(&mut trial);
    assert!((3_500_000..4_500_000).contains(&wait), "{wait} ms");
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["a 1"]);
}

#[test]
fn task_names_the_time_of_its_next_attempt() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let mut worker = worker(&trial, "exponential:1h..2h", &["--isolation", isolation]);
        let began = Instant::now();
        trial.push(&[call("trial.comes_back", &["a".into()])]);
        trial.wait_runs(2);
        assert!(began.elapsed() >= Duration::from_millis(400), "{isolation}: after {:?}", began.elapsed());
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        assert_eq!((count(&stopped, "failed"), count(&stopped, "retried")), (1, 1), "{isolation}: {stopped}");
        trial.ledger.assert_each_once(["a 1", "a 2"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn snoozed_call_runs_again_and_uses_no_attempt() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let file = trial.server.directory().join("ready");
        let mut worker = worker(&trial, "none", &["--isolation", isolation]);
        let python = rmp_serde::to_vec(&("trial.snoozes", json!(["p", file]))).unwrap();
        trial.push(&[call("trial.snoozes", &["a".into(), json!(file)]), python]);
        trial.wait_runs(6);
        std::fs::write(&file, "").unwrap();
        trial.wait_settled();
        wait::until("nothing to be scheduled", PATIENCE, || {
            trial.state().later.is_empty() && trial.left() == (0, 0)
        });
        let stopped = trial.stop(&mut worker);
        let runs = trial.ledger.lines();
        assert!(runs.iter().all(|run| run == "a 1" || run == "p 1"), "{isolation}: {runs:?}");
        let (snoozed, failed) = (count(&stopped, "snoozed"), count(&stopped, "failed"));
        assert_eq!((snoozed + 2, failed), (runs.len() as u64, 0), "{isolation}: {stopped}");
        assert_eq!(count(&stopped, "succeeded"), 2, "{isolation}: {stopped}");
        trial.assert_only(&[]);
    }
}

#[test]
fn call_is_given_up_when_its_time_for_retries_is_over() {
    let mut trial = Trial::new();
    let mut worker = worker(&trial, "none", &[]);
    trial.push(&[call("trial.gives_up", &["a".into()])]);
    wait::until("the dead letter", PATIENCE, || trial.dead() == 1);
    trial.stop(&mut worker);
    let runs = trial.ledger.lines().len();
    // Each wait is 200 to 250 ms, and at the end another would be too long: fewer where the machine is slow.
    assert!((2..=5).contains(&runs), "{:?}", trial.ledger.lines());
    trial.assert_only(&["q_dead"]);
}

/// A call with these options and the argument `n`.
fn with(task: &str, n: &str, meta: &Meta) -> Vec<u8> {
    native(task, &rmp_serde::to_vec(&[n]).unwrap(), meta)
}

/// The dead letters of the queue, as `dead list` shows them.
fn letters(trial: &Trial) -> Vec<Value> {
    let mut command = trial.command(DELAYED);
    command.args(["dead", "list", "--json", "--queue", QUEUE, "--redis", &trial.server.url()]);
    serde_json::from_str(&Program::spawn(&mut command).last_words()).unwrap()
}

#[test]
fn time_of_retries_is_of_the_call_else_task_else_worker() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let words = ["--retry-for", "1200ms", "--isolation", isolation];
        let mut worker = worker(&trial, "fixed:200ms", &words);
        let of_call = Meta { retry_for_ms: Some(1500), ..Meta::default() };
        let briefly = Meta { retry_for_ms: Some(300), ..Meta::default() };
        let calls = [
            ("long", "trial.gives_up", &of_call, 1500),
            ("short", "trial.gives_up", &briefly, 300),
            ("alone", "trial.fails", &of_call, 1500),
            ("task", "trial.gives_up", &Meta::default(), 900),
            ("worker", "trial.fails", &Meta::default(), 1200),
        ];
        trial.push(&calls.map(|(n, task, meta, _)| with(task, n, meta)));
        wait::until("the dead letters", PATIENCE, || trial.dead() == calls.len());
        trial.stop(&mut worker);
        let letters = letters(&trial);
        for (n, _, _, time) in calls {
            let letter = letters.iter().find(|letter| letter["arguments"] == json!([n])).unwrap();
            let errors = letter["errors"].as_array().unwrap();
            let at = |value: &Value| value["at_ms"].as_u64().unwrap();
            let passed = |value: &Value| at(value) - at(&errors[0]);
            // A retry that would have come too late is not made, and each of them comes after 200 ms. The worker decides
            // by its clock, and the letter has the time of Redis: on two processors, they may differ by a millisecond.
            let last_chance = time - 200;
            assert!(passed(letter) + 10 > last_chance, "{isolation}, {n}: {letter}");
            assert!(errors.iter().all(|error| passed(error) <= last_chance), "{isolation}, {n}: {letter}");
            assert_eq!(letter["attempt"], json!(errors.len() + 1), "{isolation}, {n}: {letter}");
            let runs = trial.ledger.lines().iter().filter(|run| run.starts_with(&format!("{n} "))).count();
            assert_eq!(runs, errors.len() + 1, "{isolation}, {n}: {letter}");
        }
        trial.assert_only(&["q_dead"]);
    }
}

#[test]
fn retries_are_of_the_call_else_the_task_else_the_worker() {
    let mut trial = Trial::new();
    let mut worker = worker(&trial, "none", &["--retry", "1", "--retry-for", "1h"]);
    let retry = |retry| Meta { retry: Some(retry), ..Meta::default() };
    let flaky = |n: &str, meta: &Meta| native("trial.flaky", &rmp_serde::to_vec(&(n, 99)).unwrap(), meta);
    trial.push(&[
        call("trial.fails", &["worker".into()]),
        rmp_serde::to_vec(&("trial.fails", ["python"])).unwrap(),
        rmp_serde::to_vec(&("trial.fails", ["python call"], json!({}), 2)).unwrap(),
        flaky("task", &Meta::default()),
        flaky("never", &retry(0)),
        with("trial.fails", "call", &retry(3)),
    ]);
    wait::until("the dead letters", PATIENCE, || trial.dead() == 6);
    trial.stop(&mut worker);
    let runs = [("worker", 2), ("python", 2), ("python call", 3), ("task", 3), ("never", 1), ("call", 4)];
    let runs = runs.iter().flat_map(|(n, count)| (1..=*count).map(move |attempt| format!("{n} {attempt}")));
    trial.ledger.assert_each_once(runs);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn earlier_errors_of_a_call_are_shown_with_its_dead_letter() {
    let mut trial = Trial::new();
    let mut worker = worker(&trial, "none", &[]);
    trial.push(&[fails("a", 99)]);
    wait::until("the dead letter", PATIENCE, || trial.dead() == 1);
    trial.stop(&mut worker);
    let url = trial.server.url();
    let run = |words: &[&str]| {
        let mut command = trial.command(DELAYED);
        Program::spawn(command.args(words).args(["--queue", QUEUE, "--redis", &url])).last_words()
    };
    let letters: Value = serde_json::from_str(&run(&["dead", "list", "--json"])).unwrap();
    let errors = letters[0]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 3, "expected those before the last one: {letters}");
    assert!(
        errors.iter().all(|error| error["reason"] == "failed" && error["detail"] == "not yet"),
        "{letters}"
    );
    let shown = run(&["dead", "show", letters[0]["id"].as_str().unwrap()]);
    assert_eq!(shown.matches("failed: not yet").count(), 3, "{shown}");
    run(&["dead", "requeue", "--all"]);
    let expected = call("trial.mark_or_retry", &["a".into(), 99.into()]);
    assert_eq!(trial.state().waiting, [expected], "expected its past to be forgotten");
}

#[test]
fn dead_letter_has_the_errors_of_the_last_ten_attempts() {
    let mut trial = Trial::new();
    let meta = Meta { retry: Some(13), backoff: Some("none".parse().unwrap()), ..Meta::default() };
    let mut worker = worker(&trial, "exponential:1h..2h", &[]);
    trial.push(&[native("trial.waits", &rmp_serde::to_vec(&("a", 99)).unwrap(), &meta)]);
    wait::until("the dead letter", PATIENCE, || trial.dead() == 1);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once((1..=14).map(|attempt| format!("a {attempt}")));
    let mut command = trial.command(DELAYED);
    command.args(["dead", "list", "--json", "--queue", QUEUE, "--redis", &trial.server.url()]);
    let letters: Value = serde_json::from_str(&Program::spawn(&mut command).last_words()).unwrap();
    let letter = &letters[0];
    assert_eq!((&letter["attempt"], &letter["attempts"]), (&json!(14), &json!(13)), "{letter}");
    assert_eq!(letter["detail"], "not yet 14", "{letter}");
    let errors = letter["errors"].as_array().unwrap();
    let details: Vec<&str> = errors.iter().map(|error| error["detail"].as_str().unwrap()).collect();
    let expected: Vec<String> = (4..=13).map(|attempt| format!("not yet {attempt}")).collect();
    assert_eq!(details, expected, "expected those of the last ten attempts before the one that buried it");
    assert!(errors.is_sorted_by_key(|error| error["at_ms"].as_u64()), "{letter}");
}

#[test]
fn lost_worker_consumes_no_attempt() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let failed_once = native(
        "trial.gated_failing",
        &rmp_serde::to_vec(&("a", &gate)).unwrap(),
        &Meta { attempts: 1, retry: Some(2), ..Meta::default() },
    );
    trial.push(&[&failed_once]);
    let mut first = worker(&trial, "none", &["--lease", "1s"]);
    trial.wait_runs(1);
    first.kill9();
    let mut sweeper = trial.sweeper(&["--interval", "50ms"]);
    wait::until("the call to wait again", PATIENCE, || trial.state().waiting.len() == 1);
    assert_eq!(trial.state().waiting, [failed_once], "expected its bytes as they were");
    sweeper.kill9();
    std::fs::write(&gate, "").unwrap();
    let mut second = worker(&trial, "none", &[]);
    wait::until("the dead letter", PATIENCE, || trial.dead() == 1);
    trial.stop(&mut second);
    // The lost run, and both attempts that were left.
    assert_eq!(trial.ledger.executions()["+a"], 3);
    let attempt = trial.state().dead[0]["attempt"].clone();
    assert_eq!(attempt, b"3");
}
