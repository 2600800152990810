//! What must go on when nobody takes the log: its disk is full, or its reader is gone. And what the log says once that
//! happens again and again.

use delayed::__private::protocol::encode::{Meta, native};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, gated, mark, open};
use crate::support::wait;

/// A worker whose log goes where nothing can be written.
fn unheard(trial: &Trial, isolation: &str) -> Program {
    let script = r#"exec "$0" "$@" 2>/dev/full"#;
    let mut command = trial.command("sh");
    command.args(["-c", script, WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE]);
    Program::spawn(command.args(["--isolation", isolation]))
}

#[test]
fn a_worker_goes_on_that_cannot_log() {
    for isolation in ["inline", "fork", "prefork"] {
        let mut trial = Trial::new();
        let mut worker = unheard(&trial, isolation);
        // Each of them has a line in the log.
        let bad = call("isolation.prints_and_fails", &["a".into()]);
        trial.push(&[bad, call("isolation.panics", &["b".into()]), call("isolation.fails", &["c".into()])]);
        trial.wait_runs(4);
        trial.push(&[mark("one more")]);
        trial.wait_settled();
        worker.signal(Signal::SIGTERM);
        let code = worker.wait_exit(PATIENCE).code();
        assert_eq!(code, Some(0), "{isolation}: {}", worker.printed());
        assert_eq!(trial.dead(), 3);
        let executions = trial.ledger.executions();
        let runs = ["a", "b", "c", "one more"].map(|n| executions[n]);
        assert_eq!(runs, [1, 1, 2, 1], "{isolation}: {executions:?}");
        trial.assert_only(&["q_dead"]);
    }
}

/// The lines that a program has logged so far at one of these levels with these words.
fn logged(program: &Program, levels: &[&str], words: &str) -> Vec<Value> {
    let printed = program.printed();
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_meant = |line: &Value| {
        levels.iter().any(|level| line["level"] == *level)
            && line["message"].as_str().is_some_and(|message| message.contains(words))
    };
    lines.filter(is_meant).collect()
}

/// Waits until so many requests of a program have failed, and looks at what it warned of.
#[track_caller]
fn warns_once(program: &Program, failures: usize) {
    wait::until_ok(PATIENCE, || {
        let failed = logged(program, &["WARN", "DEBUG"], "failed; retrying").len();
        (failed >= failures)
            .then_some(())
            .ok_or_else(|| format!("{failures} failures:\n{}", program.printed()))
    });
    let mut warned = logged(program, &["WARN", "ERROR"], "");
    // What it says at its start; and a short lease ends meanwhile.
    let others = ["limits of", "queues of some tasks", "lease ended"];
    let is_else = |text: &str| others.iter().any(|other| text.contains(other));
    warned.retain(|line| !is_else(line["message"].as_str().unwrap_or("")));
    assert_eq!(warned.len(), 1, "expected one line: {warned:#?}");
}

#[test]
fn a_redis_that_is_away_is_told_once_and_its_return_too() {
    let mut trial = Trial::new();
    let words = ["--queue", "a", "--queue", "b", "--lease", "1s", "--log-level", "info,delayed=debug"];
    let mut worker = trial.worker(&words);
    let mut sweeper = trial.sweeper(&["--interval", "20ms", "--log-level", "info,delayed=debug"]);
    let gate = trial.gate("gate");
    // So that all that asks something of Redis does.
    trial.push(&[gated("held", &gate)]);
    trial.wait_runs(1);
    trial.server.kill();
    open(&gate);
    warns_once(&worker, 20);
    warns_once(&sweeper, 20);
    trial.server.restart();
    trial.redis = trial.server.connection();
    for program in [&worker, &sweeper] {
        program.wait_for_line("requests succeed again");
    }
    trial.push(&[mark("after")]);
    trial.wait_runs(3);
    for program in [&mut worker, &mut sweeper] {
        program.signal(Signal::SIGTERM);
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
        let back = logged(program, &["INFO"], "requests succeed again");
        assert_eq!(back.len(), 1, "{back:#?}");
        assert!(back[0]["failures"].as_u64().is_some_and(|failures| failures >= 10), "{back:#?}");
    }
}

#[test]
fn a_password_that_is_refused_is_told_once() {
    let mut trial = Trial::with(Options { password: Some("secret"), ..Options::default() });
    let url = trial.server.url();
    let mut command = trial.command(DELAYED);
    let words = ["sweeper", "--redis", &url, "--interval", "20ms", "--log-level", "info,delayed=debug"];
    let sweeper = Program::spawn(command.args(words));
    sweeper.wait_for_line("\"sweeping\"");
    let set = |trial: &mut Trial, password: &str| {
        redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(password).exec(&mut trial.redis).unwrap();
    };
    set(&mut trial, "another");
    let () = redis::cmd("CLIENT").arg("KILL").arg("SKIPME").arg("yes").query(&mut trial.redis).unwrap();
    wait::until("many refusals", PATIENCE, || {
        logged(&sweeper, &["WARN", "DEBUG"], "request failed").len() >= 20
    });
    let warned = logged(&sweeper, &["WARN", "ERROR"], "");
    // The end of the connection is another matter.
    let refused = |line: &&Value| line["error"].as_str().is_some_and(|error| error.contains("rejected the "));
    assert_eq!(warned.iter().filter(refused).count(), 1, "{warned:#?}");
    assert!(warned.len() <= 2, "{warned:#?}");
    set(&mut trial, "secret");
    sweeper.wait_for_line("requests succeed again");
}

#[test]
fn failures_of_one_task_are_counted_after_the_first_few() {
    const CALLS: usize = 200;
    let mut trial = Trial::new();
    let fails = |n: usize| {
        let payload = rmp_serde::to_vec(&(n.to_string(), 99)).unwrap();
        native("trial.mark_or_retry", &payload, &Meta { retry: Some(1), ..Meta::default() })
    };
    let panics = |n: usize| call("trial.panic", &[n.to_string().into()]);
    let unknown = |n: usize| call("no.such.task", &[n.into()]);
    trial.push(&(0..CALLS).flat_map(|n| [fails(n), panics(n), unknown(n)]).collect::<Vec<_>>());
    let mut worker = trial.worker(&[]);
    trial.wait_settled();
    assert_eq!(trial.dead(), 3 * CALLS);
    trial.stop(&mut worker);
    let few = 5;
    for (words, more, task, level) in [
        ("task failed; retrying", "more runs of a task failed; retrying", "trial.mark_or_retry", "WARN"),
        ("message buried", "more messages buried", "trial.mark_or_retry", "ERROR"),
        ("message buried", "more messages buried", "trial.panic", "ERROR"),
        ("message buried", "more messages buried", "no.such.task", "ERROR"),
    ] {
        let is_whole = |line: &&Value| line["task"] == task && line["message"] == words;
        let lines = logged(&worker, &[level], words);
        assert_eq!(lines.iter().filter(is_whole).count(), few, "{task}: {lines:#?}");
        let counted = logged(&worker, &[level], more);
        let counted: Vec<_> = counted.iter().filter(|line| line["task"] == task).collect();
        assert_eq!(counted.len(), 1, "{task}: {counted:#?}");
        assert_eq!(counted[0]["repeated"], CALLS - few, "{task}: {counted:#?}");
    }
    assert_eq!(logged(&worker, &["ERROR"], "panicked").len(), few, "{}", worker.printed());
}

#[test]
fn dead_letters_that_make_room_are_told_once() {
    let mut trial = Trial::new();
    let mut command = trial.command(WORKER);
    command
        .args(["worker", "--redis", &trial.server.url(), "--queue", QUEUE])
        .env("DELAYED_DEAD_MAX_COUNT", "1");
    let mut worker = Program::spawn(&mut command);
    trial.push(&(0..300).map(|n| call("no.such.task", &[n.into()])).collect::<Vec<_>>());
    wait::until("all to be buried", PATIENCE, || trial.left() == (0, 0));
    worker.wait_for_line("oldest dead letters dropped");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    let told = logged(&worker, &["WARN"], "oldest dead letters dropped");
    assert_eq!(told.len(), 1, "{told:#?}");
}
