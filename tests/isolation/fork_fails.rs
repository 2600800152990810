//! When no process is to be had, the call is put back at the head and the worker backs off, until there is one.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::{Case, everybody, family, task};
use crate::support::process::Program;
use crate::support::redis::Options;
use crate::support::tree::Process;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, count};
use crate::support::wait;

both! {
    the_call_is_put_back_and_the_worker_backs_off
    a_call_that_gets_no_thread_is_put_back
}

/// A user who has no other processes; the kernel limits root's not at all.
const NOBODY: u32 = 54_321;

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A worker of a user whose processes can be limited.
fn limited(mode: &'static str, words: &[&str]) -> Case {
    let extra = ["--unixsocketperm", "777"].map(str::to_owned).to_vec();
    let trial = Trial::with(Options { extra, ..Options::default() });
    let directory = trial.server.directory();
    let mut program = WORKER.to_owned();
    if is_root() {
        for path in [directory, trial.ledger.path()] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        // The place where it was built may be closed to others.
        program = directory.join("worker").to_str().unwrap().to_owned();
        // By another process: one that is forked here meanwhile would hold it open for writing, and so keep it from
        // being run.
        let copied = Command::new("cp").args([WORKER, &program]).status().unwrap();
        assert!(copied.success(), "expected a copy of {WORKER}");
    }
    let mut command = trial.command(&program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.args(["worker", "--redis", &trial.server.url(), "--queue", QUEUE, "--isolation", mode]);
    let worker = Program::spawn(command.args(words));
    worker.wait_for_line("\"serving\"");
    let family = family(&trial, &worker);
    Case { trial, worker, family, mode }
}

/// How many processes and threads its user may have, as far as this process is concerned.
fn allow(process: &Process, processes: &str) {
    let words = ["--pid", &process.pid.to_string(), &format!("--nproc={processes}:")];
    let mut command = Command::new("prlimit");
    if is_root() {
        // Root may be a root that must not set the limits of others.
        command.uid(NOBODY).gid(NOBODY);
    }
    let done = command.args(words).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// How many it may have now.
fn soft_limit(case: &Case) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", case.zygote().pid)).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
    line.split_whitespace().next().unwrap().to_owned()
}

fn the_call_is_put_back_and_the_worker_backs_off(mode: &'static str) {
    // In order, and so that those of the pool can be ended.
    let mut case = limited(mode, &["--concurrency", "1", "--timeout", "1h"]);
    let usual = soft_limit(&case);
    allow(case.zygote(), "1");
    for child in case.children() {
        child.signal(nix::sys::signal::Signal::SIGKILL);
    }
    let calls = ["a", "b", "c"].map(|n| task("numbered", n));
    case.trial.push(&calls);
    let told = pushes(&mut case);
    wait::until("a call to be put back", PATIENCE, || pushes(&mut case) > told);
    let before = pushes(&mut case);
    let watched = Duration::from_secs(2);
    wait::pause(watched);
    let during = pushes(&mut case) - before;
    assert!(during <= 60, "expected the worker to back off; it pushed {during} times in {watched:?}");
    assert!(!case.worker.has_ended(), "{}", case.worker.printed());
    assert_eq!(case.trial.ledger.total(), 0, "expected no run");
    let state = case.trial.state();
    assert_eq!((state.waiting.len() + state.processing.len(), state.dead.len()), (3, 0), "{state:#?}");
    let printed = case.worker.printed();
    let is_loud = |line: &str| line.contains("\"WARN\"") || line.contains("\"ERROR\"");
    let says = printed.lines().any(|line| is_loud(line) && line.contains("no process could"));
    assert!(says, "expected the worker to say that it has no processes:\n{printed}");
    allow(case.zygote(), &usual);
    case.trial.wait_runs(3);
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (3, 0), "{stopped}");
    let lines = case.trial.ledger.lines();
    assert_eq!(lines, ["a 1", "b 1", "c 1"], "expected them in their order, each as a first attempt");
}

fn a_call_that_gets_no_thread_is_put_back(mode: &'static str) {
    let mut case = limited(mode, &["--concurrency", "1", "--timeout", "1h"]);
    case.goes_on();
    let usual = soft_limit(&case);
    // Those of the pool, or those that were forked ahead; not the one of the run before, which ends.
    let ready = || -> Vec<Process> {
        let zygote = case.zygote().pid;
        let waits = |process: &Process| mode == "prefork" || process.name == "delayed-spare";
        let is_ready = |process: &Process| process.parent == zygote && process.is_alive() && waits(process);
        everybody(&case.trial).into_iter().filter(is_ready).collect()
    };
    let expected = if mode == "prefork" { 1 } else { 2 };
    wait::until("children to be there for the next run", PATIENCE, || ready().len() == expected);
    let ready = ready();
    ready.iter().for_each(|child| allow(child, "1"));
    let told = pushes(&mut case);
    // A task that hears when it should end has a thread for that.
    case.trial.push(&[task("numbered", "a")]);
    wait::until("the call to be put back", PATIENCE, || pushes(&mut case) >= told + 4);
    if mode == "prefork" {
        allow(&ready[0], &usual);
    }
    case.trial.wait_runs(2);
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (2, 0), "{stopped}");
    assert_eq!(case.trial.ledger.lines()[1], "a 1", "expected it to run as a first attempt");
}

/// The only child that could be forked hangs for ever, and another worker could run the call.
#[test]
fn a_call_does_not_wait_for_a_child_that_hangs() {
    let mut case = limited("prefork", &["--concurrency", "3", "--children", "2"]);
    case.trial.push(&[task("sleep", "a")]);
    case.trial.wait_runs(1);
    allow(case.zygote(), "1");
    let told = pushes(&mut case);
    // One is put back at once, with the child that it was for; the other one waits.
    case.trial.push(&[task("numbered", "b"), task("numbered", "c")]);
    wait::until("a call to be put back", PATIENCE, || pushes(&mut case) >= told + 6);
    let mut other = case.trial.worker(&["--concurrency", "1"]);
    case.trial.wait_runs(3);
    let mut lines = case.trial.ledger.lines();
    lines.sort();
    assert_eq!(lines, ["a", "b 1", "c 1"], "expected each as a first attempt");
    case.trial.stop(&mut other);
    case.children()[0].signal(nix::sys::signal::Signal::SIGKILL);
    case.wait_dead(1);
    assert_eq!(case.letter().task, "isolation.sleep");
    case.end_with(&["q_dead"]);
}

/// How often something was put into a list: twice for a call that is put back, once for its token.
fn pushes(case: &mut Case) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut case.trial.redis).unwrap();
    let calls = |name: &str| -> u64 {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    calls("cmdstat_lpush") + calls("cmdstat_rpush")
}
