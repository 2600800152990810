//! Runs in processes of their own: what ends them, what they are kept from, and that nothing of them is left.

/// Tests that hold for both kinds of processes: each is run with `fork` and with `prefork`.
macro_rules! both {
    ($($name:ident)*) => {
        mod fork {
            $(#[test]
            fn $name() {
                super::$name("fork");
            })*
        }
        mod prefork {
            $(#[test]
            fn $name() {
                super::$name("prefork");
            })*
        }
    };
}

mod child;
mod crashes;
mod descriptors;
mod embedder;
mod escapes;
mod example;
mod expiries;
mod families;
mod fork_fails;
mod inline;
mod kill;
mod leftovers;
mod limits;
mod log;
mod many;
mod memory;
mod memory_kills;
mod output;
mod pool;
mod random;
mod results;
mod settings;
mod shutdown;
mod terms;
mod timeouts;
mod tree;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::process::Program;
use crate::support::tree::{Process, list, mark, marked};
use crate::support::trial::{PATIENCE, Trial, call};
use crate::support::wait;

/// How long what dies may take to be gone.
const GONE: Duration = Duration::from_secs(20);

/// A call of one of the tasks of isolation with one argument, a name for this run.
fn task(name: &str, n: &str) -> Vec<u8> {
    call(&format!("isolation.{name}"), &[n.into()])
}

/// The same with more arguments.
fn task_with(name: &str, arguments: &[Value]) -> Vec<u8> {
    call(&format!("isolation.{name}"), arguments)
}

/// A dead letter.
#[derive(Debug, Clone)]
struct Letter {
    task: String,
    reason: String,
    detail: String,
    attempt: String,
    output: String,
}

/// The name of a process that waits for its only run.
const SPARE: &str = "delayed-spare";
/// The name of a process that was forked just now, and has none of its own yet.
const ZYGOTE: &str = "delayed-zygote";

/// A trial whose worker runs tasks in processes of their own, and the processes that are there in any case.
struct Case {
    trial: Trial,
    worker: Program,
    /// The worker, its subreaper and its zygote.
    family: [Process; 3],
    mode: &'static str,
}

impl Case {
    /// A worker that runs all that does not say otherwise in this way: `fork` or `prefork`.
    fn new(mode: &'static str, words: &[&str]) -> Self {
        Self::of(Trial::new(), mode, words)
    }

    fn of(trial: Trial, mode: &'static str, words: &[&str]) -> Self {
        let worker = trial.worker(&[&["--isolation", mode][..], words].concat());
        let family = family(&trial, &worker);
        Self { trial, worker, family, mode }
    }

    fn zygote(&self) -> &Process {
        &self.family[2]
    }

    fn subreaper(&self) -> &Process {
        &self.family[1]
    }

    /// Every process of this trial.
    fn everybody(&self) -> Vec<Process> {
        everybody(&self.trial)
    }

    /// The processes that run tasks, or wait for others after one.
    fn children(&self) -> Vec<Process> {
        let mut all = self.everybody();
        all.retain(|process| {
            process.parent == self.zygote().pid
                && process.is_alive()
                && ![SPARE, ZYGOTE].contains(&&*process.name)
        });
        all
    }

    fn letters(&mut self) -> Vec<Letter> {
        letters(&mut self.trial)
    }

    /// The only dead letter.
    #[track_caller]
    fn letter(&mut self) -> Letter {
        let mut letters = self.letters();
        assert_eq!(letters.len(), 1, "expected one dead letter: {letters:#?}\n{}", self.worker.printed());
        letters.remove(0)
    }

    /// Waits until so many letters are dead and nothing else is left in the queue.
    #[track_caller]
    fn wait_dead(&mut self, count: usize) {
        let trial = &mut self.trial;
        let worker = &self.worker;
        wait::until_ok(PATIENCE, || {
            let dead = trial.dead();
            if dead >= count {
                return Ok(());
            }
            Err(format!(
                "{count} dead letters; there are {dead}; the worker printed last:\n{}",
                end_of(&worker.printed())
            ))
        });
        trial.wait_settled();
    }

    /// Waits until nothing runs but what is there in any case: what ran has left no process behind.
    #[track_caller]
    fn wait_rest(&self) {
        wait::until_ok(GONE, || {
            let mut rest = self.everybody();
            rest.retain(|process| !self.family.iter().any(|known| known.pid == process.pid));
            let waits =
                |it: &Process, name: &str| it.name == name && it.parent == self.zygote().pid && it.is_alive();
            if self.mode == "prefork" {
                // Those of the pool wait for calls.
                rest.retain(|process| !waits(process, "delayed-child"));
            }
            let spares = rest.extract_if(.., |process| waits(process, SPARE)).count();
            assert!(spares <= 2, "expected no more than two to wait for a first run: {}", list(&rest));
            if rest.is_empty() { Ok(()) } else { Err(format!("no process to be left: {}", list(&rest))) }
        });
    }

    /// All is done: nothing of it is left among the processes, the worker ends well, and then there is nobody. What
    /// the worker said at its end.
    #[track_caller]
    fn end(&mut self) -> Value {
        self.trial.wait_settled();
        self.wait_rest();
        let stopped = self.trial.stop(&mut self.worker);
        self.nobody();
        stopped
    }

    /// The same; and in Redis is nothing but these keys.
    #[track_caller]
    fn end_with(&mut self, keys: &[&str]) -> Value {
        let stopped = self.end();
        self.trial.assert_only(keys);
        stopped
    }

    /// Waits until no process of this trial is left.
    #[track_caller]
    fn nobody(&self) {
        nobody(&self.trial);
    }

    /// The worker goes on: it runs one more call.
    #[track_caller]
    fn goes_on(&mut self) {
        let before = self.trial.ledger.lines().len();
        self.trial.push(&[task("who", "one more")]);
        self.trial.wait_runs(before + 1);
        self.trial.wait_settled();
        let lines = self.trial.ledger.lines();
        assert!(lines[before].contains("one more"), "expected one more run: {lines:?}");
    }
}

/// The worker, its subreaper and its zygote.
#[track_caller]
fn family(trial: &Trial, worker: &Program) -> [Process; 3] {
    let worker = worker.pid().as_raw();
    wait::until_ok(PATIENCE, || {
        let all = everybody(trial);
        let child_of =
            |pid: i32| all.iter().find(|process| process.parent == pid && process.is_alive()).cloned();
        let found = Process::of(worker).and_then(|worker| {
            let subreaper = child_of(worker.pid)?;
            let zygote = child_of(subreaper.pid)?;
            Some([worker, subreaper, zygote])
        });
        found.ok_or_else(|| format!("a worker, a subreaper and a zygote: {}", list(&all)))
    })
}

/// Every process of a trial.
fn everybody(trial: &Trial) -> Vec<Process> {
    marked(&mark(trial.ledger.path()))
}

/// Waits until no process of a trial is left.
#[track_caller]
fn nobody(trial: &Trial) {
    wait::until_ok(GONE, || {
        let left = everybody(trial);
        if left.is_empty() { Ok(()) } else { Err(format!("nobody to be left: {}", list(&left))) }
    });
}

fn letters(trial: &mut Trial) -> Vec<Letter> {
    let dead = trial.state().dead;
    let letters = dead.into_iter().map(|fields| {
        let text = |name: &str| {
            String::from_utf8_lossy(fields.get(name).map(Vec::as_slice).unwrap_or_default()).into_owned()
        };
        let message = delayed::__private::protocol::message::Message::decode(&fields["message"]).unwrap();
        Letter {
            task: message.task().to_owned(),
            reason: text("reason"),
            detail: text("detail"),
            attempt: text("attempt"),
            output: text("output"),
        }
    });
    letters.collect()
}

/// The last lines of a long text.
fn end_of(text: &str) -> &str {
    let from = text.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
    &text[from..]
}

/// The lines of a ledger that are objects.
fn told(trial: &Trial) -> Vec<Value> {
    let lines = trial.ledger.lines();
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// A process id in what a task told.
#[track_caller]
fn pid(told: &Value, name: &str) -> i32 {
    let pid = told[name].as_i64().and_then(|pid| i32::try_from(pid).ok());
    pid.unwrap_or_else(|| panic!("expected the process `{name}` in {told}"))
}

/// Ends a worker that has been told to, or that cannot go on: its exit code.
#[track_caller]
fn exit_code(worker: &mut Program) -> Option<i32> {
    worker.wait_exit(PATIENCE).code()
}

/// Whether `time` is not above `limit`, which is far above what it takes on a machine that is busy.
#[track_caller]
fn assert_soon(began: Instant, limit: Duration, what: &str) {
    let took = began.elapsed();
    assert!(took < limit, "expected {what} within {limit:?}, it took {took:?}");
}
