//! Does the command line do what it says? Real processes on a real Redis.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests die and print")]

#[path = "cli/acl.rs"]
mod acl;
#[path = "cli/calls.rs"]
mod calls;
#[path = "cli/dev.rs"]
mod dev;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/enqueue.rs"]
mod enqueue;
#[path = "cli/first_steps.rs"]
mod first_steps;
#[path = "cli/health.rs"]
mod health;
#[path = "cli/kill.rs"]
mod kill;
#[path = "cli/operate.rs"]
mod operate;
#[path = "cli/pauses.rs"]
mod pauses;
#[path = "cli/periodic.rs"]
mod periodic;
#[path = "cli/serve.rs"]
mod serve;
#[path = "cli/settings.rs"]
mod settings;
#[path = "cli/startup.rs"]
mod startup;
mod support;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/tmux.rs"]
mod tmux;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/watch.rs"]
mod watch;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::redis::TestRedis;

/// How long something may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// The program with tasks.
const WORKER: &str = env!("CARGO_BIN_EXE_delayed-test-worker");
/// The program without.
const DELAYED: &str = support::process::DELAYED;

/// How a program ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "expected exit code {code}: {self:#?}");
        self
    }

    #[track_caller]
    fn says(self, text: &str) -> Self {
        assert!(self.out.contains(text) || self.err.contains(text), "expected {text:?} in {self:#?}");
        self
    }

    #[track_caller]
    fn never_says(self, text: &str) -> Self {
        assert!(!self.out.contains(text) && !self.err.contains(text), "expected no {text:?} in {self:#?}");
        self
    }

    #[track_caller]
    fn json(self) -> Value {
        let this = self.expect(0);
        serde_json::from_str(&this.out).unwrap_or_else(|error| panic!("expected JSON ({error}): {this:#?}"))
    }
}

/// A command in a directory, and without settings of whoever runs the tests.
fn command(program: &str, directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DELAYED_") {
            command.env_remove(name);
        }
    }
    command.env_remove("REDIS_URL");
    command.args(words).current_dir(directory).stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("expected UTF-8");
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a program on this Redis to its end.
fn on(redis: &TestRedis, program: &str, words: &[&str]) -> Ended {
    ended(command(program, redis.directory(), words).env("DELAYED_REDIS_URL", redis.url()))
}

/// Starts a program on this Redis.
fn start(redis: &TestRedis, words: &[&str]) -> support::process::Program {
    let mut command = command(WORKER, redis.directory(), words);
    command.env("DELAYED_REDIS_URL", redis.url()).env("RECORD_FILE", redis.directory().join("record"));
    support::process::Program::spawn(&mut command)
}

/// The path of a task of the test worker.
fn task(name: &str) -> String {
    format!("delayed_test_worker::tasks::{name}")
}
