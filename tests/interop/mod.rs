//! We and the programs of both ancestors on one queue, each a process of its own.

mod from_us;
mod mixed;
mod our_sweeper;
mod pauses;
mod python_options;
mod servers;
mod their_sweepers;
mod to_us;

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use redis::Connection;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::{Options, State, TestRedis, snapshot};
use crate::support::{go, is_full, python, root, wait};

const QUEUE: &str = "mail";
/// How long anything may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// The worker of the tests.
const OURS: &str = env!("CARGO_BIN_EXE_delayed-test-worker");

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Python,
    Go,
}
use Language::{Go, Python, Rust};

/// A Redis, and the directory where tasks leave their lines.
struct Site {
    server: TestRedis,
    redis: Connection,
}

impl Site {
    fn new() -> Self {
        Self::on(None)
    }

    /// On this server program.
    fn on(program: Option<PathBuf>) -> Self {
        let server = TestRedis::with(Options { program, ..Options::default() });
        let redis = server.connection();
        Self { server, redis }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.server.directory().join(name)
    }

    /// A program on the queue, whose tasks leave their lines in the file `record`.
    fn command(&self, language: Language, action: &str, record: &str) -> Command {
        let url = self.server.url();
        let mut command = match (language, action) {
            (Rust, "sweep") => Command::new(DELAYED),
            (Rust, _) => Command::new(OURS),
            (Python, _) => Command::new(python::interpreter()),
            (Go, _) => Command::new(go::program()),
        };
        match (language, action) {
            (Rust, "work") => command.args(["worker", "--queue", QUEUE, "--redis", &url]),
            (Rust, _) => command.args(["sweeper", "--queue", QUEUE, "--interval", "100ms", "--redis", &url]),
            (Python, _) => {
                let script = root().join(format!("tests/peers/python/{action}.py"));
                command.arg(script).args(["--queue", QUEUE, "--redis", &url])
            }
            (Go, _) => command.args([action, "-queue", QUEUE, "-redis", &url]),
        };
        if (language, action) == (Go, "work") {
            command.arg("-log").arg(self.file(record));
        }
        command.env("RECORD_FILE", self.file(record)).env("HOLD_FILE", self.file("free"));
        command.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A worker that is online.
    fn worker(&self, language: Language, record: &str, more: &[&str]) -> Program {
        ready(language, Program::spawn(self.command(language, "work", record).args(more)))
    }

    /// A sweeper, which rests for a tenth of a second.
    fn sweeper(&self, language: Language) -> Program {
        let mut command = self.command(language, "sweep", "none");
        match language {
            Rust => ready(Rust, Program::spawn(&mut command)),
            Python => Program::spawn(command.args(["--interval", "0.1"])),
            Go => Program::spawn(command.args(["-interval", "100ms"])),
        }
    }

    /// Starts a producer of the calls in these lines of JSON.
    fn producer(&self, language: Language, lines: &[String]) -> Program {
        let input = self.file(&format!("input-{language:?}"));
        std::fs::write(&input, lines.join("\n")).unwrap();
        Program::fed(&mut self.command(language, "produce", "none"), File::open(&input).unwrap())
    }

    /// Lets a producer send these calls.
    #[track_caller]
    fn produce(&self, language: Language, lines: &[String]) {
        let mut producer = self.producer(language, lines);
        let status = producer.wait_exit(PATIENCE);
        assert!(status.success(), "expected {language:?} to send all:\n{}", producer.printed());
        producer.wait_for_line(&format!("sent {}", lines.len()));
    }

    /// What tasks left so far.
    fn lines(&self, record: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(record)).unwrap_or_default();
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(String::from).collect()
    }

    /// Waits until tasks have left so many lines.
    #[track_caller]
    fn wait_for(&mut self, record: &str, count: usize) -> Vec<String> {
        wait::until_ok(PATIENCE, || {
            let lines = self.lines(record);
            if lines.len() >= count {
                return Ok(lines);
            }
            Err(format!("{count} lines, there are {}: {lines:#?}\n{:#?}", lines.len(), self.state()))
        })
    }

    /// Waits until nothing waits and nobody owns anything.
    #[track_caller]
    fn wait_until_settled(&mut self) -> State {
        wait::until_ok(PATIENCE, || {
            let state = self.state();
            let settled = state.waiting.is_empty() && state.processing.is_empty() && state.tokens == 0;
            if settled { Ok(state) } else { Err(format!("a queue where all is done: {state:#?}")) }
        })
    }

    /// Lets the tasks that are held go on.
    fn free(&self) {
        File::create(self.file("free")).unwrap();
    }

    fn state(&mut self) -> State {
        snapshot(&mut self.redis, QUEUE)
    }

    /// A worker dies, and its live key ends with it, as it would within a minute.
    fn kill(&mut self, worker: &mut Program, id: &str) {
        worker.kill9();
        let () = redis::cmd("PEXPIRE").arg(id).arg(1).query(&mut self.redis).unwrap();
    }
}

fn ready(language: Language, program: Program) -> Program {
    program.wait_for_line(if language == Rust { "redis=" } else { "READY" });
    program
}

/// The wire id of a worker of the ancestors.
fn id_of(worker: &Program) -> String {
    worker.wait_for_line("READY ").split_once(' ').unwrap().1.to_owned()
}

/// Ends a program as a supervisor does, and sees that it ends well and had nothing to complain about.
#[track_caller]
fn stop(language: Language, mut program: Program) {
    program.signal(Signal::SIGTERM);
    let status = program.wait_exit(PATIENCE);
    assert!(status.success(), "expected {language:?} to end well:\n{}", program.printed());
    assert_no_errors(language, &program);
}

#[track_caller]
fn assert_no_errors(language: Language, program: &Program) {
    let bad: &[&str] = match language {
        Rust => &["ERROR", "WARN"],
        Python => &["Traceback", "Failed"],
        Go => &["ERROR", "IGNORED"],
    };
    let printed = program.printed();
    // What each worker of Rust says at its start: its program has tasks with limits, and tasks of other queues.
    let at_start = ["limits of inline tasks are not enforced", "queues of some tasks are not served"];
    let of_note = |line: &&str| !at_start.iter().any(|text| line.contains(text));
    let is_bad = |line: &str| bad.iter().any(|word| line.contains(word));
    assert!(!printed.lines().filter(of_note).any(is_bad), "expected no errors of {language:?}:\n{printed}");
}

/// One line for a producer.
fn line(kind: &str, path: &str, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { ", " };
    format!(r#"{{"kind": "{kind}", "path": "{path}"{comma}{rest}}}"#)
}
