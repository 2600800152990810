//! What the cases of one row share: a Redis, a ledger, and those who take over when all have died.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use redis::Commands;

use super::case::{Case, Mode, Party};
use super::scene::Scene;
use crate::support::ledger::Ledger;
use crate::support::process::{DELAYED, Program};
use crate::support::redis::{TestRedis, snapshot};
use crate::support::trial::{PATIENCE, WORKER, open, ready};
use crate::support::{go, python, root, tree, wait};

/// The tasks that Go's workers note.
const NOTED: [&str; 8] = [
    "points:note",
    "points:note_async",
    "points:once",
    "points:once_async",
    "points:retried",
    "points:failing",
    "points:held",
    "points:foreign",
];

pub(super) struct Site {
    pub(super) server: TestRedis,
    ledger: Ledger,
}

impl Site {
    pub(super) fn new() -> Self {
        let server = TestRedis::start();
        let ledger = Ledger::new(server.directory());
        std::fs::create_dir(server.directory().join("gates")).unwrap();
        Self { ledger, server }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.server.directory().join(name)
    }

    /// How often the call of that number was run.
    pub(super) fn runs(&self, n: u16) -> usize {
        let n = n.to_string();
        self.ledger.lines().iter().filter(|line| **line == n).count()
    }

    /// Gives a program what the tasks want, and settings of nobody else.
    pub(super) fn furnish(&self, command: &mut Command) {
        command.current_dir(self.server.directory()).env("DELAYED_LOG_FORMAT", "json");
        command.env("LEDGER", self.ledger.path()).env("RECORD_FILE", self.ledger.path());
        command.env("GATES", self.file("gates"));
    }

    /// A worker of the others' for some queues. Go's takes one.
    pub(super) fn foreign(&self, party: Party, queues: &[String]) -> Command {
        let (url, queues) = (self.server.url(), queues.join(","));
        let mut command;
        if party == Party::Go {
            command = Command::new(go::program());
            command.args(["work", "-queue", &queues, "-redis", &url, "-log"]).arg(self.ledger.path());
            command.args(NOTED.iter().flat_map(|task| ["-as", task]));
        } else {
            command = Command::new(python::interpreter());
            let script = if queues.contains(',') { "heirs.py" } else { "work.py" };
            command.arg(root().join("tests/peers/python").join(script));
            command.args(["--queue", &queues, "--redis", &url]).env("PYTHONDONTWRITEBYTECODE", "1");
        }
        self.furnish(&mut command);
        command
    }

    /// Nobody is left of those who were to die.
    pub(super) fn assert_gone(&self, living: &[Program]) {
        let mark = tree::mark(self.ledger.path());
        let living: BTreeSet<i32> = living.iter().map(|program| program.pid().as_raw()).collect();
        wait::until_ok(PATIENCE, || {
            let mut left = tree::marked(&mark);
            // Those that live on have subreapers, zygotes and children, which are in their trees.
            left.retain(|process| !is_below(process.pid, &living));
            if left.is_empty() { Ok(()) } else { Err(format!("nobody to be left: {}", tree::list(&left))) }
        });
    }

    /// Lets others take over what is left, until all is settled; then counts.
    pub(super) fn recover(&self, cases: &[Case], mut living: Vec<Program>) {
        for case in cases.iter().filter(|case| !case.ends_dead()) {
            open(&self.file("gates").join(case.n.to_string()));
        }
        cases.iter().for_each(|case| self.resume(case));
        living.iter().for_each(|program| program.signal(Signal::SIGCONT));
        let mut programs = vec![self.sweeper(cases)];
        for mode in [Mode::Inline, Mode::Fork, Mode::Prefork] {
            let is_ours = |case: &&Case| case.parties.1 == Party::Rust && case.mode == mode;
            let queues: Vec<String> = cases.iter().filter(is_ours).map(Case::queue).collect();
            if !queues.is_empty() {
                programs.push(self.worker(mode, &queues));
            }
        }
        let of = |party| cases.iter().filter(move |case| case.parties.1 == party).map(Case::queue);
        let python: Vec<String> = of(Party::Python).collect();
        if !python.is_empty() {
            let program = Program::spawn(&mut self.foreign(Party::Python, &python));
            // All write on one stream, so that two may share a line.
            let ready = || program.printed().matches("READY").count() == python.len();
            wait::until("all workers of Python to be online", PATIENCE, ready);
            programs.push(program);
        }
        for queue in of(Party::Go) {
            programs.push(Program::spawn(&mut self.foreign(Party::Go, &[queue])));
        }
        self.wait_settled(cases, &programs);
        programs.append(&mut living);
        for program in &programs {
            program.signal(Signal::SIGTERM);
        }
        for program in &mut programs {
            let status = program.wait_exit(PATIENCE);
            // What had nothing to do may not hear signals yet.
            let good = status.success() || status.signal() == Some(Signal::SIGTERM as i32);
            assert!(good, "expected a good end, not {status}:\n{}", program.printed());
        }
        self.assert_gone(&[]);
        self.count(cases);
    }

    /// Ends the pause of a queue that an operator has paused, or has not resumed.
    fn resume(&self, case: &Case) {
        let (mut redis, key) = (self.server.connection(), format!("{}_paused", case.queue()));
        let is_paused = match (case.scene.script, case.step) {
            ("pause", "before") => false,
            ("pause", _) | ("resume", "before") => true,
            _ => return,
        };
        wait::until("the pause to be as it should", PATIENCE, || {
            redis.exists::<_, bool>(&key).unwrap() == is_paused
        });
        let () = redis.del(&key).unwrap();
    }

    fn sweeper(&self, cases: &[Case]) -> Program {
        let mut command = Command::new(DELAYED);
        command.args(["sweeper", "--interval", "100ms", "--redis", &self.server.url()]);
        command.args(cases.iter().flat_map(|case| ["--queue".to_owned(), case.queue()]));
        self.furnish(&mut command);
        let program = Program::spawn(&mut command);
        program.wait_for_line("\"sweeping\"");
        program
    }

    fn worker(&self, mode: Mode, queues: &[String]) -> Program {
        let mut command = Command::new(WORKER);
        command.args(["worker", "--no-sweep", "--isolation", mode.name(), "--redis", &self.server.url()]);
        command.args(queues.iter().flat_map(|queue| ["--queue", queue]));
        self.furnish(&mut command);
        let program = Program::spawn(&mut command);
        ready(&program);
        program
    }

    /// Waits until nothing waits and nothing is owned, but for what a worker of Go keeps until it claims again.
    fn wait_settled(&self, cases: &[Case], programs: &[Program]) {
        let mut redis = self.server.connection();
        for case in cases {
            let is_go = case.parties.1 == Party::Go;
            wait::until_ok(PATIENCE, || {
                let state = snapshot(&mut redis, &case.queue());
                let ran = !case.has_bystander() || self.runs(case.n + 1) > 0;
                let owned = state.processing.keys().any(|id| !is_go || id.contains(':'));
                if ran && state.waiting.is_empty() && !owned && self.runs(case.n) >= case.expected() {
                    return Ok(());
                }
                let said: Vec<String> = programs.iter().map(Program::printed).collect();
                Err(format!("all to be done: {case:?}\n{state:#?}\n{}", said.join("\n")))
            });
        }
    }

    /// Each call was run as often as it should be, and nothing else is left.
    fn count(&self, cases: &[Case]) {
        let mut redis = self.server.connection();
        let mut expected = BTreeSet::new();
        for case in cases {
            let queue = case.queue();
            assert_eq!(self.runs(case.n), case.expected(), "runs of the call that was hit: {case:?}");
            let bystander = usize::from(case.has_bystander());
            assert_eq!(self.runs(case.n + 1), bystander, "runs of the bystander: {case:?}");
            let state = snapshot(&mut redis, &queue);
            assert_eq!((state.waiting.len(), state.tokens), (0, 0), "{case:?}: {state:#?}");
            assert_eq!(state.dead.len(), usize::from(case.ends_dead()), "{case:?}: {state:#?}");
            if case.keeps_record() && case.expected() > 0 {
                assert_eq!(record_states(&mut redis, &queue), ["succeeded"], "{case:?}");
                expected.insert(format!("{queue}_done"));
            } else if case.is_cancelled() {
                assert_eq!(record_states(&mut redis, &queue), ["cancelled"], "{case:?}");
                expected.insert(format!("{queue}_done"));
            }
            // A periodic task stays, and so does its history.
            if matches!(case.scene.script, "define" | "tick") && case.expected() > 0 {
                expected.extend(["_due", "_periodic", ":p:nightly"].map(|end| format!("{queue}{end}")));
            }
            // A pause leaves the definition.
            if case.scene.row == "define: a task is paused" {
                expected.insert(format!("{queue}_periodic"));
            }
            // The stream stays when its last letter goes.
            if case.ends_dead() || matches!(case.scene.script, "revive" | "delete") {
                expected.insert(format!("{queue}_dead"));
            }
            if !state.processing.is_empty() {
                let only = state.processing.len() == 1 && case.parties.1 == Party::Go;
                assert!(only, "expected only what Go keeps: {case:?}: {state:#?}");
                expected.insert(format!("{queue}_processing"));
            }
        }
        let total: usize = cases.iter().map(|case| case.expected() + usize::from(case.has_bystander())).sum();
        assert_eq!(self.ledger.lines().len(), total, "expected no other runs");
        let keys: Vec<String> = redis.keys("*").unwrap();
        let lasts = |key: &String| redis.pttl::<_, i64>(key).unwrap() == -1;
        let left: Vec<String> = keys.into_iter().filter(lasts).collect();
        let is_known = |key: &String| {
            ["delayed_queues", "delayed_limits", "delayed_tasks"].contains(&key.as_str())
                || key.ends_with("_workers")
                || key.starts_with("{delayed:")
        };
        let left: BTreeSet<String> = left.into_iter().filter(|key| !is_known(key)).collect();
        assert_eq!(left, expected, "expected these keys to last and no others");
    }
}

/// The states of all records of a queue.
fn record_states(redis: &mut redis::Connection, queue: &str) -> Vec<String> {
    let records: Vec<String> = redis.keys(format!("{queue}:c:*")).unwrap();
    records.iter().map(|record| redis.hget(record, "state").unwrap()).collect()
}

/// Whether a process is one of these, or has one of them above it.
fn is_below(pid: i32, of: &BTreeSet<i32>) -> bool {
    let above = std::iter::successors(Some(pid), |pid| Some(tree::Process::of(*pid)?.parent));
    above.take_while(|pid| *pid > 1).any(|pid| of.contains(&pid))
}

impl Case {
    /// Whether another call is in the queue, which must not notice anything.
    pub(super) fn has_bystander(&self) -> bool {
        !matches!(self.scene.script, "balance" | "purge") && !self.is_limited()
    }
}

/// The scene of a row.
pub(super) fn scene<'a>(scenes: &'a [Scene], row: &str) -> &'a Scene {
    let scene = scenes.iter().find(|scene| scene.row == row);
    scene.unwrap_or_else(|| panic!("expected to know how {row:?} of docs/lifecycle.md comes about"))
}
