//! The examples print what they say.

use std::process::Command;

use crate::support::example::example;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial};
use crate::support::{python, root};

/// What an example prints that is given the address of a Redis, and has the worker in its own process.
#[track_caller]
fn printed_by(name: &'static str) -> String {
    let trial = Trial::new();
    let program = example(name);
    let mut command = trial.command(program.to_str().unwrap());
    let output = command.arg(trial.server.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn assert_prints(name: &'static str, expected: &[&str]) {
    let printed = printed_by(name);
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{printed}");
}

#[test]
fn life_of_a_call_prints_what_became_of_its_calls() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let printed = printed_by("life_of_a_call");
    let lines: Vec<&str> = printed.lines().collect();
    let [twice, cancelled, paid, why] = lines[..] else { panic!("expected four lines: {printed}") };
    let expected = ["charged twice: false", "the reminder was Scheduled", "order 7 was paid in attempt 3"];
    assert_eq!([twice, cancelled, paid], expected);
    assert!(why.starts_with(&format!("the reminder: the call was cancelled by {host}/")), "{why}");
}

#[test]
fn middleware_prints_what_its_layers_and_hooks_see() {
    let expected = [
        "the call was refused: acme may not close the shop",
        "invoice of acme for May",
        "middleware::invoice succeeded in attempt 1",
        "invoice of zeta for June",
        "middleware::invoice succeeded in attempt 1",
        "middleware::invoice failed in attempt 1",
        "alert: middleware::invoice: the call has no tenant",
        "buried: middleware::invoice (failed)",
        "mail to acme for May, trace 0af7651916cd43dd8448eb211c80319c",
        "middleware::mail succeeded in attempt 1",
        "mail to zeta for June, trace none",
        "middleware::mail succeeded in attempt 1",
        "4 runs succeeded",
    ];
    assert_prints("middleware", &expected);
}

#[test]
fn trace_of_opentelemetry_goes_through_the_queue() {
    assert_prints("opentelemetry", &["order 7 is paid", "the request and the run are in one trace: true"]);
}

#[test]
fn limits_are_kept_and_calls_with_a_key_keep_their_order() {
    let expected = [
        "at most 2 pages at a time",
        "4 texts, not faster than one every 100 ms: true",
        "customer 42 moved",
        "customer 42 ordered",
        "customer 42 paid",
    ];
    assert_prints("limits", &expected);
}

#[test]
fn paused_and_full_queue_prints_what_it_takes_and_sends() {
    let expected = [
        "paused by ann: 2 calls wait",
        "rejected an offer: 2 calls wait",
        "dead: overflow (\"an invitation\")",
        "resuming",
        "sent an alarm",
        "sent a reminder",
        "sent another offer",
    ];
    assert_prints("queues", &expected);
}

#[test]
fn progress_and_log_are_read_while_the_call_runs() {
    let expected = [
        "50 %: page 2 of Fables",
        "running: out of paper",
        "Fables is printed",
        "100 %: out of paper, goes on",
    ];
    assert_prints("progress", &expected);
}

#[test]
fn life_of_a_call_in_python_prints_what_became_of_its_calls() {
    let printed = printed_by_python("life_of_a_call.py", &[]);
    let lines: Vec<&str> = printed.lines().collect();
    let [sum, twice, cancelled, exists, why] = lines[..] else { panic!("expected five lines: {printed}") };
    let expected =
        ["1 + 2 is 3", "3 + 4 is enqueued twice: False", "it was scheduled", "order:7 is scheduled already"];
    assert_eq!([sum, twice, cancelled, exists], expected);
    assert!(why.starts_with("order:7 was cancelled by "), "{why}");
}

#[test]
fn flow_of_python_prints_what_its_calls_came_to() {
    let mails = ["the sums are ready", "the flow failed"];
    let printed = printed_by_python("flow.py", &mails);
    let lines: Vec<&str> = printed.lines().collect();
    let [three, sums, rest, failed, last] = lines[..] else { panic!("expected five lines: {printed}") };
    let expected = ["1 + 2 + 3 is 6", "the sums are [1, 3, 5]", "without what failed it is [9]"];
    assert_eq!([three, sums, rest], expected);
    assert!(failed.ends_with("is dead: failed: \"nobody\" is not an address"), "{failed}");
    assert_eq!(last, "the last of many is 198");
}

/// What a program of `examples/python_caller` prints, beside a worker of the quickstart that prints the lines that are `expected`.
#[track_caller]
fn printed_by_python(name: &str, expected: &[&str]) -> String {
    let trial = Trial::new();
    let (url, program) = (trial.server.url(), example("quickstart"));
    let words = ["worker", "--queue", "default", "--queue", "mail", "--redis", &url];
    let mut worker = Program::start(program.to_str().unwrap(), words);
    let mut command = Command::new(python::interpreter());
    command.arg(root().join("examples/python_caller").join(name)).arg(&url);
    command.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut caller = Program::spawn(&mut command);
    let status = caller.wait_exit(PATIENCE);
    let printed = caller.printed();
    assert!(status.success(), "{printed}");
    for line in expected {
        worker.wait_for_line(line);
    }
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(worker.wait_exit(PATIENCE).success(), "{}", worker.printed());
    printed
}
