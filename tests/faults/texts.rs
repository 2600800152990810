//! Texts and messages that are larger than Redis takes, or than anybody would read: they are shortened, and nothing else
//! waits for them.

use delayed::__private::protocol::encode::{Meta, native};
use delayed::testing::{Fault, Requests, Side};
use serde_json::json;

use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, Trial, call, count, mark, marks};
use crate::support::wait;

/// More than the server takes in one argument.
const BYTES: usize = 2_000_000;
/// A shortened text, as `src/excerpt.rs` has it.
const LONGEST: usize = 16 << 10;
/// A line of the log with two such texts.
const LONGEST_LINE: usize = 40_000;

fn small() -> Options {
    Options { extra: ["--proto-max-bulk-len", "1mb"].map(Into::into).into(), ..Options::default() }
}

fn limit(trial: &mut Trial) {
    redis::cmd("CONFIG").arg("SET").arg("proto-max-bulk-len").arg("1mb").exec(&mut trial.redis).unwrap();
}

/// The field of the dead letter whose message has these bytes in it.
#[track_caller]
fn field(trial: &mut Trial, part: &str, name: &str) -> String {
    let dead = trial.state().dead;
    let letter =
        dead.iter().find(|letter| letter["message"].windows(part.len()).any(|it| it == part.as_bytes()));
    let letter = letter.unwrap_or_else(|| panic!("expected a dead letter with {part}"));
    String::from_utf8(letter[name].clone()).unwrap()
}

#[track_caller]
fn assert_short_lines(printed: &str) {
    let longest = printed.lines().map(str::len).max().unwrap_or(0);
    assert!(longest <= LONGEST_LINE, "expected no line of {longest} bytes");
}

#[test]
fn long_failures_are_shortened_and_all_else_goes_on() {
    for (isolation, format) in
        [("inline", "json"), ("inline", "pretty"), ("fork", "json"), ("prefork", "pretty")]
    {
        let mut trial = Trial::with(small());
        let mut worker =
            trial.start(&["--isolation", isolation, "--log-format", format, "--concurrency", "4"]);
        let tasks = ["texts.fails", "texts.fails_with_sources", "texts.panics"];
        let calls: Vec<_> = tasks.iter().map(|task| call(task, &[(*task).into(), BYTES.into()])).collect();
        trial.push(&calls);
        trial.push(&marks(20));
        trial.wait_runs(23);
        trial.wait_settled();
        for task in tasks {
            let detail = field(&mut trial, task, "detail");
            let at = format!("{isolation}, {format}, {task}");
            // Behind it may stand what the process used.
            assert!(detail.len() <= LONGEST + 100, "{at}: {} bytes", detail.len());
            assert!(detail.starts_with("beginxx") && detail.contains("xxend"), "{at}: {detail}");
            assert!(detail.contains(" bytes left out …] "), "{at}: {detail}");
            assert!(!detail.contains(": "), "expected its sources not to be told twice: {at}: {detail}");
        }
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{isolation}: {}", worker.printed());
        let printed = worker.last_words();
        assert_short_lines(&printed);
        let room = 40 * LONGEST;
        assert!(
            printed.len() < room,
            "{isolation}, {format}: expected less than {} bytes of log",
            printed.len()
        );
        trial.ledger.assert_each_once((0..20).map(|n| n.to_string()).chain(tasks.map(Into::into)));
    }
}

#[test]
fn long_arguments_and_paths_are_shortened_in_letters_and_logs() {
    let mut trial = Trial::new();
    let long = "y".repeat(BYTES);
    let calls = [
        call("trial.pair", &[json!(format!("wrong{long}")), "text".into()]),
        call(&format!("no.such.task{long}"), &[]),
    ];
    trial.push(&calls);
    trial.push(&marks(5));
    limit(&mut trial);
    let mut worker = trial.worker(&[]);
    trial.wait_settled();
    assert_eq!(trial.reasons(), ["arguments", "unknown"]);
    for letter in trial.state().dead {
        assert!(letter["detail"].len() <= LONGEST, "{} bytes", letter["detail"].len());
    }
    trial.stop(&mut worker);
    assert_short_lines(&worker.printed());
    trial.ledger.assert_each_once(0..5);
}

#[test]
fn what_a_child_logs_and_prints_is_shortened() {
    for isolation in ["fork", "prefork"] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", isolation]);
        let bytes = json!(100_000);
        trial.push(&[
            call("texts.logs", &["a".into(), bytes.clone()]),
            call("texts.prints", &["b".into(), bytes]),
        ]);
        trial.wait_runs(2);
        trial.wait_settled();
        let line = worker.wait_for_line("says begin");
        assert!(line.contains("field=\\\"beginxx") && line.matches("xxend").count() == 2, "{line}");
        assert_eq!(line.matches(" bytes left out …] ").count(), 2, "{line}");
        let output = field(&mut trial, "texts.prints", "output");
        assert!(output.len() <= LONGEST, "{} bytes", output.len());
        assert!(output.starts_with("beginxx") && output.ends_with("xxend\n"), "{output}");
        trial.stop(&mut worker);
        assert_short_lines(&worker.printed());
    }
}

#[test]
fn too_large_retry_is_buried_and_all_else_goes_on() {
    let mut trial = Trial::new();
    let payload = rmp_serde::to_vec(&("large", "z".repeat(BYTES))).unwrap();
    trial.push(&[native("texts.takes", &payload, &Meta::default())]);
    limit(&mut trial);
    let mut worker = trial.worker(&["--concurrency", "4"]);
    trial.wait_runs(1);
    trial.push(&marks(50));
    trial.wait_runs(51);
    trial.wait_settled();
    let detail = field(&mut trial, "texts.takes", "detail");
    assert!(detail.contains("proto-max-bulk-len") && detail.contains("2000"), "{detail}");
    assert_eq!(
        (field(&mut trial, "texts.takes", "attempt"), trial.reasons()),
        ("1".into(), vec!["failed".into()])
    );
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (50, 0), "{stopped}");
    trial.ledger.assert_each_once((0..50).map(|n| n.to_string()).chain(["large".into()]));
    trial.assert_only(&["q_dead"]);
}

#[test]
fn dead_letter_that_breaks_every_connection_waits_aside() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut worker = trial.worker_at(proxy.url(), &["--concurrency", "2", "--lease", "60s"]);
    let trap = proxy.trap(Side::Request, Requests::with("only shown"), Fault::End);
    trial.push(&[call("trial.shown", &["bad".into()])]);
    trial.wait_runs(1);
    wait::until("it to be tried a few times", PATIENCE, || trap.struck() >= 5);
    trial.push(&marks(100));
    trial.push(&[call("trial.fatal", &["other".into()])]);
    trial.wait_runs(102);
    wait::until("all but the one to be gone", PATIENCE, || trial.left() == (0, 1) && trial.dead() == 1);
    worker.wait_for_line("set aside");
    drop(trap);
    let stopped = trial.stop(&mut worker);
    // More than the one if claims were answered late, because their connection broke.
    assert!(count(&stopped, "put_back") >= 1 && count(&stopped, "lost") == 0, "{stopped}");
    trial.ledger.assert_each_once((0..100).map(|n| n.to_string()).chain(["bad", "other"].map(Into::into)));
    let state = trial.state();
    assert_eq!((state.waiting.len(), state.processing.len()), (1, 0), "{state:#?}");
}

#[test]
fn unreadable_message_waits_aside_and_all_else_goes_on() {
    let mut trial = Trial::new();
    let large = call("trial.mark", &["z".repeat(BYTES).into()]);
    let first: Vec<_> = (0..10).map(mark).collect();
    trial.push(&[&first[..], std::slice::from_ref(&large)].concat());
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("client-output-buffer-limit")
        .arg("normal 1mb 0 0")
        .exec(&mut trial.redis)
        .unwrap();
    let mut worker = trial.worker(&["--concurrency", "4"]);
    let rest: Vec<_> = (10..60).map(mark).collect();
    trial.push(&rest);
    trial.wait_runs(60);
    let line = worker.wait_for_line("message set aside");
    assert!(line.contains("2000") && line.contains("client-output-buffer-limit"), "{line}");
    wait::until("all but the one to be gone", PATIENCE, || trial.left() == (0, 1));
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (60, 0), "{stopped}");
    trial.ledger.assert_each_once(0..60);
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("client-output-buffer-limit")
        .arg("normal 0 0 0")
        .exec(&mut trial.redis)
        .unwrap();
    assert_eq!(trial.state().waiting, [large], "expected it to wait for a worker that can read it");
    trial.assert_only(&["q", "q_noti"]);
}
