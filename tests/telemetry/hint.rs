//! A program of one's own without a subscriber is told how to see the log of its worker.

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER};

const HINT: &str = "this program has no subscriber of `tracing`";

/// What a program with a worker has printed at its end.
fn printed(kind: &str) -> String {
    let trial = Trial::new();
    let mut command = trial.command(WORKER);
    let mut program = Program::spawn(command.env("EMBEDDER", kind).env("REDIS", trial.server.url()));
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
    program.last_words()
}

#[test]
fn a_worker_without_a_subscriber_hints_at_one_in_one_line() {
    let printed = printed("first");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(printed.contains(HINT) && printed.contains("tracing_subscriber::fmt().init()"), "{printed}");
}

#[test]
fn a_worker_with_a_subscriber_logs_and_hints_at_nothing() {
    let printed = printed("with a subscriber");
    assert!(printed.contains("serving") && printed.contains("stopped"), "{printed}");
    assert!(!printed.contains(HINT), "{printed}");
}
