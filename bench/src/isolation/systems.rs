//! Which systems are measured, and how is each started? A peer is a folder in `peers/` and an entry here.

use std::process::Command;

use crate::programs::Program;

/// The variable that gives the seconds after which a task is to be killed.
pub const LIMIT: &str = "BENCH_LIMIT";

/// Where a system runs a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Inline,
    Fork,
    Prefork,
    /// In a program that is started for it.
    Exec,
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Fork => "fork",
            Self::Prefork => "prefork",
            Self::Exec => "exec",
        }
    }
}

/// How many calls are owned and run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Load {
    pub label: &'static str,
    pub concurrency: usize,
    /// Of a pool that has less processes than the worker owns calls.
    pub children: Option<usize>,
}

const ONE: Load = Load { label: "1 at a time", concurrency: 1, children: None };
const TWO: Load = Load { label: "2 at a time", concurrency: 2, children: None };
const SIXTEEN: Load = Load { label: "16 at a time", concurrency: 16, children: None };
const ONE_AHEAD: Load = Load { label: "1 at a time, 64 fetched", concurrency: 64, children: Some(1) };
const TWO_AHEAD: Load = Load { label: "2 at a time, 64 fetched", concurrency: 64, children: Some(2) };

/// Where a system keeps calls.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    List(&'static str),
    Hash(&'static str),
    Sorted(&'static str),
    Stream(&'static str),
}

impl Key {
    /// How many it has.
    pub fn len(self, connection: &mut redis::Connection) -> redis::RedisResult<u64> {
        let (command, key) = match self {
            Self::List(key) => ("LLEN", key),
            Self::Hash(key) => ("HLEN", key),
            Self::Sorted(key) => ("ZCARD", key),
            Self::Stream(key) => ("XLEN", key),
        };
        redis::cmd(command).arg(key).query(connection)
    }
}

/// A system that is measured.
pub struct System {
    pub name: &'static str,
    /// The rows that it stands in beside those of `kill`.
    pub part: &'static str,
    /// What distinguishes it, for the notes below the table.
    pub settings: &'static str,
    pub program: Program,
    /// How it runs a task when it does not run it inline.
    pub way: Way,
    pub loads: &'static [Load],
    /// Where calls are until they are settled.
    pub unsettled: &'static [Key],
    /// What Redis tells of a call that is settled: a key, and what becomes of it.
    pub settled: (&'static str, &'static str),
    /// Where calls are found that failed for good, if anywhere.
    pub failed: Option<Key>,
    /// The seconds after which a task that hangs is killed.
    pub limit: f64,
    /// Whether the bare loop of fork, exit and wait stands beside it.
    pub bare_loop: bool,
}

const OURS: System = System {
    name: "",
    part: "",
    settings: "",
    program: Program::This,
    way: Way::Inline,
    loads: &[],
    unsettled: &[Key::List("bench"), Key::Hash("bench_processing")],
    settled: ("bench_processing", "hdel"),
    failed: Some(Key::Stream("bench_dead")),
    limit: 0.1,
    bare_loop: false,
};

/// All of them, in the order of their turns.
pub const SYSTEMS: &[System] = &[
    System { name: "inline", part: "prefork", settings: "no process of its own", loads: &[ONE], ..OURS },
    System {
        name: "fork",
        part: "fork",
        settings: "--isolation fork; tasks that hang hear SIGTERM 1 ms before their limit and do not heed it",
        way: Way::Fork,
        loads: &[ONE, TWO, SIXTEEN],
        bare_loop: true,
        ..OURS
    },
    System {
        name: "exec",
        part: "fork",
        settings: "an inline task that starts this program anew and waits for it",
        way: Way::Exec,
        loads: &[ONE, TWO, SIXTEEN],
        ..OURS
    },
    System {
        name: "rq",
        part: "fork",
        settings: "a work-horse forked for each job, tasks imported before; result_ttl=0; job_timeout in whole seconds, \
                   as it takes no others, by which SIGALRM raises an error in the work-horse; \
                   inline is its SimpleWorker, many at a time its worker pool",
        program: Program::Python("rq"),
        way: Way::Fork,
        loads: &[ONE, TWO, SIXTEEN],
        unsettled: &[
            Key::List("rq:queue:bench"),
            Key::List("rq:queue:bench:intermediate"),
            Key::Sorted("rq:wip:bench"),
        ],
        settled: ("rq:wip:bench", "zrem"),
        failed: Some(Key::Sorted("rq:failed:bench")),
        limit: 1.0,
        ..OURS
    },
    System {
        name: "prefork",
        part: "prefork",
        settings: "--isolation prefork; 64 fetched are --concurrency 64 with --children 1 or 2",
        way: Way::Prefork,
        loads: &[ONE, ONE_AHEAD, TWO_AHEAD],
        ..OURS
    },
    System {
        name: "celery",
        part: "prefork",
        settings: "prefork pool; task_acks_late, task_ignore_result; worker_prefetch_multiplier 64, for tasks with a limit \
                   1; task_time_limit; without gossip, mingle and heartbeat; inline is its solo pool; a child that was killed is waited for \
                   every few seconds",
        program: Program::Python("celery"),
        way: Way::Prefork,
        // Each child has that many fetched for it.
        loads: &[
            Load { concurrency: 1, children: None, ..ONE_AHEAD },
            Load { concurrency: 2, children: None, ..TWO_AHEAD },
        ],
        unsettled: &[Key::List("bench"), Key::Hash("unacked")],
        settled: ("unacked", "hdel"),
        failed: None,
        limit: 1.0,
        ..OURS
    },
];

impl System {
    /// A worker for the queue `bench`.
    pub fn worker(&self, url: &str, way: Way, load: Load, limit: Option<f64>) -> Command {
        let mut command = self.program.command();
        match self.program {
            Program::This => {
                command.args(["worker", "--redis", url, "--queue", "bench", "--log-level", "error"]);
                command.args(["--concurrency", &load.concurrency.to_string()]);
                if matches!(way, Way::Fork | Way::Prefork) {
                    command.args(["--isolation", way.word()]);
                    if let Some(limit) = limit {
                        // Asked a moment before, it is killed at its limit.
                        command.args(["--timeout", &format!("{}ms", limit * 1e3 - 1.0), "--grace", "1ms"]);
                    }
                }
                if way == Way::Prefork
                    && let Some(children) = load.children
                {
                    command.args(["--children", &children.to_string()]);
                }
            }
            _ => {
                command.args(["worker", url, way.word(), &load.concurrency.to_string()]);
            }
        }
        set_limit(&mut command, limit);
        command
    }

    /// A program that enqueues what it is told on its standard input.
    pub fn sender(&self, url: &str, way: Way, limit: Option<f64>) -> Command {
        let mut command = self.program.command();
        command.args(["send", url]);
        if self.program == Program::This {
            command.arg(way.word());
        }
        set_limit(&mut command, limit);
        command
    }
}

fn set_limit(command: &mut Command, limit: Option<f64>) {
    match limit {
        Some(limit) => command.env(LIMIT, limit.to_string()),
        None => command.env_remove(LIMIT),
    };
}
