//! A run whose time is up is asked to end, then dropped; one that cannot be dropped keeps its slot, and the worker says so.

use std::time::{Duration, UNIX_EPOCH};

use delayed::__private::protocol::encode::{Meta, native};
use delayed::__private::protocol::message::Message;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::State;
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, gated, mark, marks, open};
use crate::support::wait;

fn timed(task: &str, arguments: &[&str], meta: Meta) -> Vec<u8> {
    let payload = match arguments {
        [one] => rmp_serde::to_vec(one).unwrap(),
        many => rmp_serde::to_vec(many).unwrap(),
    };
    native(task, &payload, &meta)
}

fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

/// The reason and the detail of each dead letter, by task and first argument.
fn letters(state: &State) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    state.dead.iter().map(|letter| (text(&letter["reason"]), text(&letter["detail"]))).collect()
}

#[test]
fn a_run_that_hangs_is_dropped_and_its_slot_runs_others() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "1"]);
    trial.push(&[call("timed.hangs", &["a".into()]), mark("next")]);
    trial.wait_runs(3);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+a", "dropped a", "next"]);
    let letters = letters(&trial.state());
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].0, "timed_out");
    assert!(letters[0].1.starts_with("timed out (soft) after "), "{letters:?}");
    let counts = ["succeeded", "failed", "buried", "overdue"].map(|name| count(&stopped, name));
    assert_eq!(counts, [1, 1, 1, 0], "{stopped}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_run_that_timed_out_is_tried_again_like_one_that_failed() {
    let mut trial = Trial::new();
    trial.push(&[timed("timed.hangs", &["a"], Meta { retry: Some(2), ..Meta::default() })]);
    let mut worker = trial.worker(&["--burst"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+a", "dropped a"].repeat(3));
    let state = trial.state();
    assert_eq!((letters(&state)[0].0.as_str(), &state.dead[0]["attempt"][..]), ("timed_out", &b"3"[..]));
    assert_eq!((count(&stopped, "retried"), count(&stopped, "failed")), (2, 3), "{stopped}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_a_run_comes_to_within_its_grace_counts() {
    for task in ["timed.obedient", "timed.obedient_blocking"] {
        let mut trial = Trial::new();
        for (how, reason, detail) in [
            ("succeed", "", ""),
            ("fail", "timed_out", "timed out (soft) after "),
            ("give up", "failed", "for good"),
            ("panic", "panicked", "it was told to end"),
        ] {
            let before = trial.dead();
            trial.push(&[call(task, &[how.into(), how.into()])]);
            let mut worker = trial.worker(&["--burst"]);
            let stopped = trial.ended(&mut worker);
            let letters = letters(&trial.state());
            match letters[before..].first() {
                None => assert_eq!((how, count(&stopped, "succeeded")), ("succeed", 1), "{task}"),
                Some(letter) => {
                    assert_eq!(letter.0, reason, "{task} {how}: {letters:?}");
                    assert!(letter.1.starts_with(detail), "{task} {how}: {letters:?}");
                }
            }
            assert_eq!(count(&stopped, "overdue"), 0, "{task} {how}: {stopped}");
            let lines = trial.ledger.lines();
            let expected = [format!("+{how}"), format!("told {how} true")];
            assert!(
                lines.ends_with(&expected),
                "{task} {how}: expected {expected:?} at the end of {lines:?}"
            );
        }
        trial.assert_only(&["q_dead"]);
    }
}

#[test]
fn a_run_that_does_not_listen_is_dropped_after_its_grace() {
    let mut trial = Trial::new();
    trial.push(&[call("timed.deaf", &["a".into()])]);
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+a", "told a", "dropped a"]);
    assert_eq!(letters(&trial.state())[0].0, "timed_out");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_function_that_blocks_keeps_its_slot_and_the_worker_says_so() {
    for (task, how, why) in [
        ("timed.gated_blocking", "succeed", "a function that blocks cannot be stopped"),
        ("timed.gated_blocking", "fail", "a function that blocks cannot be stopped"),
        ("timed.starve", "", "it reaches no `await`"),
    ] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--concurrency", "1"]);
        let gate = trial.gate("gate");
        let mut arguments = vec!["a".into(), gate.to_str().unwrap().into()];
        arguments.extend((!how.is_empty()).then(|| how.into()));
        trial.push(&[call(task, &arguments)]);
        let line = worker.wait_for_line("keeps its slot");
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&said["task"], &said["queue"], &said["why"]), (&task.into(), &QUEUE.into(), &why.into()));
        assert!(line.contains("isolation = \\\"fork\\\"") && said["duration"].is_string(), "{line}");
        trial.push(&[mark("next")]);
        let state = trial.state();
        assert_eq!(
            (state.processing.len(), state.waiting.len()),
            (1, 1),
            "expected no second run: {state:#?}"
        );
        assert_eq!(trial.ledger.lines(), ["+a"]);
        open(&gate);
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        let ended = worker.wait_for_line("overdue run ended");
        assert!(ended.contains("duration"), "{ended}");
        let counts = ["overdue", "succeeded", "buried"].map(|name| count(&stopped, name));
        match how {
            // Its success counts, however late.
            "succeed" => {
                assert_eq!(counts, [1, 2, 0], "{stopped}");
                trial.ledger.assert_each_once(["+a", "-a", "next"]);
            }
            // It was told nothing, so it is its own failure.
            "fail" => {
                assert_eq!(counts, [1, 1, 1], "{stopped}");
                assert_eq!(letters(&trial.state()), [("failed".into(), "it was told to end".into())]);
            }
            // At its next `await` it was dropped.
            _ => {
                assert_eq!(counts, [1, 1, 1], "{stopped}");
                assert_eq!(letters(&trial.state())[0].0, "timed_out");
                trial.ledger.assert_each_once(["+a", "next"]);
            }
        }
        assert_eq!(worker.printed().matches("keeps its slot").count(), 1, "expected to be warned once");
    }
}

#[test]
fn the_call_comes_before_the_task_and_that_before_the_worker() {
    let mut trial = Trial::new();
    let plain = Meta::default;
    let until = |seconds: u64| Meta { expires_ms: Some(now_ms() + seconds * 1000), ..plain() };
    let of_call = |seconds: u64| Meta { timeout_ms: Some(seconds * 1000), ..plain() };
    let push = |trial: &mut Trial, name: &str, task: &str, meta: Meta| {
        trial.push(&[timed(task, &[name], meta)]);
        trial.wait_settled();
    };
    let mut worker = trial.worker(&[]);
    push(&mut trial, "nothing", "timed.left_unsaid", plain());
    trial.stop(&mut worker);
    let mut worker = trial.worker(&["--timeout", "500s"]);
    push(&mut trial, "worker", "timed.left_unsaid", plain());
    push(&mut trial, "task", "timed.left", plain());
    push(&mut trial, "task blocking", "timed.left_blocking", plain());
    push(&mut trial, "call", "timed.left", of_call(2000));
    push(&mut trial, "call blocking", "timed.left_blocking", of_call(2000));
    push(&mut trial, "call unsaid", "timed.left_unsaid", of_call(100));
    push(&mut trial, "expiry", "timed.left", until(700));
    push(&mut trial, "late expiry", "timed.left", until(7000));
    push(&mut trial, "both", "timed.left", Meta { timeout_ms: Some(200_000), ..until(700) });
    trial.stop(&mut worker);
    trial.ledger.assert_each_once([
        "nothing without end",
        "worker 500s",
        "task 1000s",
        "task blocking 1000s",
        "call 2000s",
        "call blocking 2000s",
        "call unsaid 100s",
        "expiry 700s",
        "late expiry 1000s",
        "both 200s",
    ]);
    trial.assert_only(&[]);
}

#[test]
fn the_workers_end_is_a_deadline_too_when_it_is_the_earliest() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--shutdown", "100ms", "--timeout", "1h"]);
    let obedient = call("trial.obedient", &["o".into()]);
    trial.push(&[&obedient]);
    trial.wait_runs(1);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+o", "-o true"]);
    assert_eq!(trial.state().waiting, [obedient], "expected it to be put back, and no attempt to be counted");
}

#[test]
fn call_that_has_expired_does_not_run() {
    let mut trial = Trial::new();
    let late = Meta { expires_ms: Some(now_ms() - 1500), retry: Some(-1), ..Meta::default() };
    trial.push(&[timed("trial.mark", &["late"], late), timed("timed.left_blocking", &["late"], late)]);
    trial.push(&marks(3));
    let mut worker = trial.worker(&["--burst"]);
    let stopped = trial.ended(&mut worker);
    trial.ledger.assert_each_once(0..3);
    let state = trial.state();
    for (reason, detail) in letters(&state) {
        assert_eq!(reason, "expired");
        assert!(detail.starts_with("it expired ") && detail.ends_with("could begin"), "{detail}");
    }
    let counts = ["buried", "retried", "failed"].map(|name| count(&stopped, name));
    assert_eq!((state.dead.len(), counts), (2, [2, 0, 0]), "{stopped}");
    // Brought back by hand it is not too late any more.
    let words = ["dead", "requeue", "--all", "--queue", QUEUE, "--redis", &trial.server.url()];
    assert_eq!(Program::start(DELAYED, words).wait_exit(PATIENCE).code(), Some(0));
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    trial.ledger.assert_each_once(["0", "1", "2", "late", "late 1000s"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn retry_does_not_outlive_its_expiry() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let expires_ms = now_ms() + 300;
    let meta = Meta { expires_ms: Some(expires_ms), retry: Some(-1), ..Meta::default() };
    trial.push(&[timed("timed.hangs", &["a"], meta)]);
    trial.wait_settled();
    assert!(now_ms() >= expires_ms, "expected it to be tried until then");
    let stopped = trial.stop(&mut worker);
    let state = trial.state();
    let letter = Message::decode(&state.dead[0]["message"]).unwrap();
    assert_eq!((letters(&state)[0].0.as_str(), letter.expires_ms()), ("expired", Some(expires_ms)));
    let runs = trial.ledger.executions()["+a"];
    assert_eq!((u64::from(runs), letter.attempts()), (count(&stopped, "retried"), runs), "{stopped}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_task_that_has_been_quick_so_far_has_its_timeout_too() {
    let mut trial = Trial::new();
    let sometimes = |n: &str, hangs: bool| call("timed.sometimes", &[n.into(), hangs.into()]);
    trial.push(&vec![sometimes("quick", false); 200]);
    trial.push(&[sometimes("hangs", true)]);
    let mut worker = trial.worker(&["--burst", "--concurrency", "4"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), trial.dead()), (200, 1), "{stopped}");
    assert_eq!(letters(&trial.state())[0].0, "timed_out");
    assert_eq!(trial.ledger.executions()["quick"], 200);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn run_that_ends_while_it_is_stopped_keeps_its_outcome() {
    let mut trial = Trial::new();
    let calls: Vec<Vec<u8>> =
        (0..600_usize).map(|n| call("trial.span", &[n.to_string().into(), 20.into()])).collect();
    trial.push(&calls);
    let mut worker = trial.worker(&["--burst", "--concurrency", "32", "--timeout", "20ms"]);
    let stopped = trial.ended(&mut worker);
    let ended = trial.ledger.lines().iter().filter(|line| line.starts_with('-')).count();
    println!("{ended} of 600 runs came to their end in time");
    assert_eq!(count(&stopped, "succeeded"), ended as u64, "expected each end to count: {stopped}");
    assert_eq!(trial.dead(), 600 - ended, "{stopped}");
    let executions = trial.ledger.executions();
    // On a machine that is busy the time of one may be up before it is first polled.
    assert!(
        executions.values().all(|times| *times == 1),
        "expected each to begin and to end once at the most"
    );
    assert_eq!(count(&stopped, "lost") + count(&stopped, "overdue"), 0, "{stopped}");
}

#[test]
fn many_runs_that_hang_are_all_dropped() {
    let mut trial = Trial::new();
    let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    trial.push(&names.iter().map(|n| call("timed.hangs", &[n.as_str().into()])).collect::<Vec<_>>());
    let mut worker = trial.worker(&["--burst", "--concurrency", "64"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!((trial.dead(), count(&stopped, "buried")), (300, 300), "{stopped}");
    trial.ledger.assert_each_once(names.iter().flat_map(|n| [format!("+{n}"), format!("dropped {n}")]));
    trial.assert_only(&["q_dead"]);
}

#[test]
fn limits_that_hold_for_nothing_are_told_at_the_start() {
    let trial = Trial::new();
    let mut worker = trial.worker(&["--memory", "1GB"]);
    let line = worker.wait_for_line("limits of inline tasks are not enforced");
    assert!(line.contains("timed.limited") && !line.contains("timed.hangs"), "{line}");
    trial.stop(&mut worker);
    assert_eq!(worker.printed().matches("limits of inline tasks").count(), 1);
    let mut worker = trial.worker(&["--isolation", "fork"]);
    trial.stop(&mut worker);
    assert!(!worker.printed().contains("limits of inline tasks"), "{}", worker.printed());
}

#[test]
fn what_waits_for_its_end_does_not_wake_the_worker() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--timeout", "1h"]);
    trial.push(&[gated("a", &gate)]);
    trial.wait_runs(1);
    wait::until("hardly any processor time", PATIENCE, || {
        let time = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", worker.pid())).unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let before = time();
        wait::pause(Duration::from_secs(1));
        time() - before <= 20
    });
    open(&gate);
    trial.wait_settled();
    trial.stop(&mut worker);
}
