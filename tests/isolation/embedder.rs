//! A program that is more than a worker has a zygote too when it starts it first, and hears so when it does not.

use super::{everybody, nobody, task, told};
use crate::support::process::Program;
use crate::support::tree::list;
use crate::support::trial::{PATIENCE, Trial, WORKER};

fn embedder(trial: &Trial, kind: &str) -> Program {
    let mut command = trial.command(WORKER);
    Program::spawn(command.env("EMBEDDER", kind).env("REDIS", trial.server.url()))
}

#[test]
fn a_zygote_that_comes_first_serves() {
    let mut trial = Trial::new();
    let names = ["who", "who_inline", "who_fork", "who_prefork", "given"];
    trial.push(&names.iter().map(|name| task(name, name)).collect::<Vec<_>>());
    let mut program = embedder(&trial, "first");
    let pid = i64::from(program.pid().as_raw());
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
    nobody(&trial);
    for told in told(&trial) {
        let inline = told["n"] == "who" || told["n"] == "who_inline";
        assert_eq!(told["pid"] == pid, inline, "{told}");
    }
    assert_eq!(trial.ledger.total(), 5, "{:?}", trial.ledger.lines());
    trial.assert_only(&[]);
}

/// Then the kernel takes away what has ended, and nobody can be told how.
#[test]
fn a_zygote_is_gone_before_a_program_that_ignores_sigchld() {
    let mut trial = Trial::new();
    trial.push(&[task("who_fork", "a"), task("who_prefork", "b")]);
    let mut command = trial.command("env");
    command.args(["--ignore-signal=CHLD", WORKER]).env("EMBEDDER", "first").env("REDIS", trial.server.url());
    let mut program = Program::spawn(&mut command);
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
    let left = everybody(&trial);
    assert!(left.is_empty(), "expected nobody to be left: {}", list(&left));
    assert_eq!(told(&trial).len(), 2, "{:?}", trial.ledger.lines());
    trial.assert_only(&[]);
}

#[test]
fn threads_before_it_are_refused_with_the_way_out() {
    let trial = Trial::new();
    let mut program = embedder(&trial, "after threads");
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(1), "{}", program.printed());
    let line = program.wait_for_line("refused: ");
    assert!(line.contains("2 threads") && line.contains("first"), "expected why, and the way out: {line}");
    nobody(&trial);
}

#[test]
fn tasks_that_fork_want_a_zygote() {
    let mut trial = Trial::new();
    trial.push(&[task("who_fork", "a")]);
    let mut program = embedder(&trial, "never");
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(1), "{}", program.printed());
    let line = program.wait_for_line("refused: ");
    assert!(line.to_lowercase().contains("zygote"), "expected the way out: {line}");
    // Before anything was claimed.
    assert_eq!((trial.state().waiting.len(), trial.ledger.total()), (1, 0));
    trial.assert_only(&["q", "q_noti"]);
}

/// Where nobody can tell how many threads there are, nothing is forked.
#[test]
fn a_worker_without_proc_is_refused_with_the_way_out() {
    let trial = Trial::new();
    let hidden = "mount -t tmpfs none /proc && exec \"$@\"";
    let mut command = trial.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", hidden, "sh", WORKER, "worker"]);
    command.args(["--redis", &trial.server.url(), "--isolation", "fork"]);
    let mut program = Program::spawn(&mut command);
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(5), "{}", program.printed());
    let line = program.wait_for_line("error: ");
    assert!(line.contains("/proc/self/task cannot be read") && line.contains("mount /proc"), "{line}");
}
