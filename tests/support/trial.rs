//! A queue of one test's own: a Redis, workers that are processes, and a ledger of what they ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Commands, Connection};
use serde_json::Value;

use super::ledger::Ledger;
use super::process::{DELAYED, Program};
use super::redis::{Options, State, TestRedis, snapshot};
use super::wait;

/// The queue of a trial.
pub(crate) const QUEUE: &str = "q";
/// The program that has the tasks of `tests/programs`.
pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_delayed-test-worker");
/// How long anything may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One test at a time of those that take all of the machine.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static HEAVY: Mutex<()> = Mutex::new(());
    HEAVY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a call as Go makes them: `[path, bin payload]`; `payload` is MessagePack.
pub(crate) fn message(path: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x92];
    rmp::encode::write_str(&mut bytes, path).unwrap();
    rmp::encode::write_bin(&mut bytes, payload).unwrap();
    bytes
}

/// A call with these arguments.
pub(crate) fn call(path: &str, arguments: &[Value]) -> Vec<u8> {
    let payload = match arguments {
        [] => vec![0xc0],
        [one] => rmp_serde::to_vec(one).unwrap(),
        many => rmp_serde::to_vec(many).unwrap(),
    };
    message(path, &payload)
}

/// A call of the task that notes `n`.
pub(crate) fn mark(n: impl ToString) -> Vec<u8> {
    call("trial.mark", &[n.to_string().into()])
}

/// Calls that note the numbers up to `count`.
pub(crate) fn marks(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(mark).collect()
}

/// A call of a task that notes `n`, and ends when the gate is open.
pub(crate) fn at_gate(task: &str, n: impl ToString, gate: &Path) -> Vec<u8> {
    call(task, &[n.to_string().into(), gate.to_str().unwrap().into()])
}

/// A call of the one that does not block.
pub(crate) fn gated(n: impl ToString, gate: &Path) -> Vec<u8> {
    at_gate("trial.gated", n, gate)
}

/// A Redis, a ledger, and where the test looks at them.
pub(crate) struct Trial {
    pub(crate) redis: Connection,
    pub(crate) ledger: Ledger,
    pub(crate) server: TestRedis,
}

impl Trial {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let server = TestRedis::with(options);
        Self { redis: server.connection(), ledger: Ledger::new(server.directory()), server }
    }

    /// A worker with these words behind `worker`; it may not be ready yet.
    pub(crate) fn start_at(&self, url: &str, words: &[&str]) -> Program {
        let mut command = self.command(WORKER);
        Program::spawn(command.args(["worker", "--redis", url]).args(words))
    }

    /// A worker of the trial's queue; it may not be ready yet.
    pub(crate) fn start(&self, words: &[&str]) -> Program {
        self.start_at(&self.server.url(), &[&["--queue", QUEUE][..], words].concat())
    }

    /// A worker of the trial's queue that serves when this returns.
    pub(crate) fn worker(&self, words: &[&str]) -> Program {
        let program = self.start(words);
        ready(&program);
        program
    }

    /// The same behind a proxy.
    pub(crate) fn worker_at(&self, url: &str, words: &[&str]) -> Program {
        let program = self.start_at(url, &[&["--queue", QUEUE][..], words].concat());
        ready(&program);
        program
    }

    /// A sweeper.
    pub(crate) fn sweeper(&self, words: &[&str]) -> Program {
        let mut command = self.command(DELAYED);
        let program = Program::spawn(command.args(["sweeper", "--redis", &self.server.url()]).args(words));
        program.wait_for_line("\"sweeping\"");
        program
    }

    /// One of the programs: it knows the ledger, and settings of nobody else.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.server.directory()).env("LEDGER", self.ledger.path());
        command.env("DELAYED_LOG_FORMAT", "json");
        command
    }

    /// A file that opens a gate when [`open`] makes it.
    pub(crate) fn gate(&self, name: &str) -> PathBuf {
        self.server.directory().join(name)
    }

    /// Appends messages with their tokens, as the ancestors do.
    pub(crate) fn push<M: AsRef<[u8]>>(&mut self, messages: &[M]) {
        self.push_to(QUEUE, messages);
    }

    pub(crate) fn push_to<M: AsRef<[u8]>>(&mut self, queue: &str, messages: &[M]) {
        for part in messages.chunks(1000) {
            let mut pipe = redis::pipe();
            pipe.atomic();
            for message in part {
                pipe.rpush(queue, message.as_ref()).ignore();
                pipe.rpush(format!("{queue}_noti"), "1").ignore();
            }
            let () = pipe.query(&mut self.redis).unwrap();
        }
    }

    pub(crate) fn state(&mut self) -> State {
        snapshot(&mut self.redis, QUEUE)
    }

    /// How many dead letters there are.
    pub(crate) fn dead(&mut self) -> usize {
        redis::cmd("XLEN").arg(format!("{QUEUE}_dead")).query(&mut self.redis).unwrap()
    }

    /// Why there are dead letters, sorted.
    pub(crate) fn reasons(&mut self) -> Vec<String> {
        let mut reasons: Vec<String> = (self.state().dead.iter())
            .map(|letter| String::from_utf8_lossy(&letter["reason"]).into_owned())
            .collect();
        reasons.sort_unstable();
        reasons
    }

    /// How many wait and how many are owned, at one instant.
    pub(crate) fn left(&mut self) -> (u64, u64) {
        // A message may move meanwhile, and a Redis that is full refuses MULTI.
        let script = "return {redis.call('LLEN', KEYS[1]), redis.call('HLEN', KEYS[2])}";
        let script = redis::Script::new(script);
        script.key(QUEUE).key(format!("{QUEUE}_processing")).invoke(&mut self.redis).unwrap()
    }

    /// Waits until nothing waits and nothing is owned.
    #[track_caller]
    pub(crate) fn wait_settled(&mut self) {
        wait::until_ok(PATIENCE, || match self.left() {
            (0, 0) => Ok(()),
            (waiting, owned) => Err(format!("an empty queue; {waiting} wait, {owned} are owned")),
        });
    }

    /// Waits until so many lines are in the ledger.
    #[track_caller]
    pub(crate) fn wait_runs(&self, count: usize) {
        wait::until_ok(PATIENCE, || {
            let lines = self.ledger.lines().len();
            if lines >= count {
                Ok(())
            } else {
                Err(format!("{count} lines in the ledger; there are {lines}"))
            }
        });
    }

    /// Tells a worker to end and hears how it did: the fields of its last line.
    #[track_caller]
    pub(crate) fn stop(&self, worker: &mut Program) -> Value {
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        self.ended(worker)
    }

    /// Stops a worker that has run nothing, claims nothing ahead and is to have all of its `slots` free: it runs as many
    /// calls at a time. What was to wait, in any order, does so once, and nothing else is left.
    #[track_caller]
    pub(crate) fn stop_all_free(&mut self, worker: &mut Program, slots: usize, waiting: &[Vec<u8>]) {
        let gate = self.gate("all_free");
        self.push(&(0..slots).map(|n| gated(n, &gate)).collect::<Vec<_>>());
        self.wait_runs(slots);
        open(&gate);
        self.wait_runs(2 * slots);
        let stopped = self.stop(worker);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (slots as u64, 0), "{stopped}");
        let (mut found, mut expected) = (self.state().waiting, waiting.to_vec());
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "expected each to wait once");
        self.assert_only(&["q", "q_noti"]);
    }

    /// Waits for a worker's end, which is expected to be a good one: the fields of its last line.
    #[track_caller]
    pub(crate) fn ended(&self, worker: &mut Program) -> Value {
        let status = worker.wait_exit(PATIENCE);
        assert_eq!(status.code(), Some(0), "expected a good end, it printed:\n{}", worker.printed());
        serde_json::from_str(&worker.wait_for_line("\"stopped\"")).unwrap()
    }

    /// All workers have ended and all is done: nothing is left in Redis but `expected` keys of the queue, what
    /// expires by itself, and the names of queues.
    #[track_caller]
    pub(crate) fn assert_only(&mut self, expected: &[&str]) {
        let state = self.state();
        assert_eq!(state.tokens, state.waiting.len() as u64, "expected a token for each message: {state:#?}");
        let left = self.lasting();
        let mut keys: Vec<&str> = left
            .iter()
            .map(String::as_str)
            .filter(|k| !["delayed_queues", "delayed_tasks"].contains(k))
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, expected, "expected these keys and no others: {state:#?}");
    }

    /// Keys that do not expire by themselves. A worker that was killed leaves its place among the workers for a
    /// minute, where it is removed by a sweep.
    fn lasting(&mut self) -> Vec<String> {
        let keys: Vec<String> = self.redis.keys("*").unwrap();
        let lasts = |key: &String| {
            let left: i64 = self.redis.pttl(key).unwrap();
            left == -1 && !key.ends_with("_workers")
        };
        keys.into_iter().filter(lasts).collect()
    }

    /// How often Redis has read requests of clients. What is sent in one pipeline is read at once, unless it is long.
    pub(crate) fn reads(&mut self) -> u64 {
        let text: String = redis::cmd("INFO").arg("stats").query(&mut self.redis).unwrap();
        let reads = text.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        reads.expect("expected Redis to count its reads").trim().parse().unwrap()
    }

    /// How often Redis ran each command since the last call.
    pub(crate) fn commands(&mut self) -> BTreeMap<String, u64> {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut self.redis).unwrap();
        let () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut self.redis).unwrap();
        let line = |line: &str| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = fields.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
            Some((name.to_owned(), calls))
        };
        text.lines().filter_map(line).collect()
    }
}

/// Waits until a worker serves and hears signals.
pub(crate) fn ready(worker: &Program) {
    worker.wait_for_line("\"serving\"");
    wait::until("the worker to hear signals", PATIENCE, || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // It asks for SIGTSTP last. A process that has ended has no mask.
        caught.is_none_or(|mask| mask == 0 || mask & 1 << (nix::libc::SIGTSTP - 1) != 0)
    });
}

/// Opens a gate.
pub(crate) fn open(gate: &Path) {
    std::fs::File::create(gate).unwrap();
}

/// A number in what a worker said at its end.
#[track_caller]
pub(crate) fn count(stopped: &Value, name: &str) -> u64 {
    stopped[name].as_u64().unwrap_or_else(|| panic!("expected `{name}` in {stopped}"))
}

/// Random numbers, the same in each run of a test.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}
