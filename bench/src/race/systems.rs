//! Which systems are measured beside each other? A peer is a folder in `peers/` and an entry here.

use std::process::Command;

use crate::programs::Program;
use crate::readme::PLAIN_FN;
use crate::sending::QUEUES;

/// A system that is measured.
pub struct System {
    pub name: &'static str,
    pub program: Program,
    /// How it is set up, for the notes below the tables.
    pub settings: &'static str,
    /// What a worker of ours is told besides.
    pub more: &'static [&'static str],
    /// The way its sender makes calls, for a system of this repository.
    pub sends: &'static str,
    /// The most calls at a time that it is asked for.
    pub most: usize,
    /// The most calls that a drain may have of each queue, when it fails where more wait.
    pub holds: Option<u64>,
    /// The rows that it can have: all, or those whose names begin so.
    pub rows: &'static [&'static str],
    /// One that it cannot have, and why.
    pub lacks: Option<(&'static str, &'static str)>,
}

const ONE_QUEUE: Option<(&str, &str)> = Some(("drain of 8 queues", "a worker of it serves one queue"));
const ALL: &[&str] = &[""];
const PEER: System = System {
    name: "",
    program: Program::This,
    settings: "",
    more: &[],
    sends: "call",
    most: 256,
    holds: None,
    rows: ALL,
    lacks: None,
};

/// All of them, in the order of their turns.
pub const SYSTEMS: &[System] = &[
    System {
        name: super::OURS,
        settings: "delayed::main() with --concurrency; async fn",
        most: 4096,
        ..PEER
    },
    System {
        name: PLAIN_FN,
        settings: "the same with plain functions, which run on blocking threads",
        sends: "plain",
        rows: &["drain", "start-up", "per task", "memory, of a busy", "pick-up", "sent and run", "latency"],
        most: 4096,
        ..PEER
    },
    System {
        name: super::WITHOUT_PREFETCH,
        settings: "the same with --prefetch 0: it owns what it runs, and no more",
        more: &["--prefetch", "0"],
        rows: &["drain, "],
        most: 4096,
        ..PEER
    },
    System {
        name: "delayed embedded",
        program: Program::Embedded,
        settings: "Worker::builder() in a main of its own, of the crate with the features client, macros and worker: \
                   no command line and no TLS",
        rows: &["drain, ", "start-up", "memory, of a busy", "memory, of an idle", "pick-up", "idle worker"],
        most: 4096,
        ..PEER
    },
    System {
        name: "bare scripts",
        program: Program::Bare("loop"),
        settings: "a loop of our own claim script, which counts what it claims and reads none of it; \
                   messages of 1 MB by two claims in flight, of one each",
        rows: &["drain, ", "drain through", "drain with payload", "drain while", "per task"],
        ..PEER
    },
    System {
        name: "bare hand-over",
        program: Program::Bare("hand-over"),
        settings: "RPUSH until somebody's BLPOP has returned",
        rows: &["pick-up"],
        ..PEER
    },
    System {
        name: "round trip",
        program: Program::Bare("ping"),
        settings: "PING of the sender, until it has the answer",
        rows: &["pick-up"],
        ..PEER
    },
    System {
        name: "asynq",
        program: Program::Built("asynq"),
        settings: "Config{Concurrency}, otherwise its defaults; no bulk enqueue: one call each",
        ..PEER
    },
    System {
        name: "go-delayed's way",
        program: Program::Built("godelayed"),
        settings: "not the module, which is not to be had, but workers that claim exactly as its workers do, as many in \
                   one process as the concurrency; nothing is released, as there",
        ..PEER
    },
    System {
        name: "delayed (Python)",
        program: Program::Python("delayed"),
        settings: "a process for each call at a time, at most 8, as a worker runs one; no bulk enqueue",
        most: 8,
        ..PEER
    },
    System {
        name: "BullMQ",
        program: Program::Node("bullmq"),
        settings: "Worker with concurrency, removeOnComplete and removeOnFail; Queue.addBulk by 1000",
        ..PEER
    },
    System {
        name: "bullmq-official",
        program: Program::Built("bullmq"),
        settings: "the same in Rust, as the crate of that name",
        ..PEER
    },
    System {
        name: "rusty-sidekiq",
        program: Program::Built("sidekiq"),
        settings: "num_workers, and a connection for each; it takes a job out of Redis when it begins; no bulk enqueue",
        ..PEER
    },
    System {
        name: "apalis-redis",
        program: Program::Built("apalis"),
        settings: "concurrency, batch_size of 50 or the same, poll_with_interval of 100 ms, without lock_tasks and \
                   emit_events; TaskSink::push_bulk by 1000, or 1 MB; its worker ends where 8,000 calls wait",
        // With the tenth that is not counted, they are 7,700.
        holds: Some(7_000),
        lacks: Some(("drain while others wait", "its worker ends where 8,000 calls wait")),
        ..PEER
    },
    System {
        name: "oxana",
        program: Program::Built("oxana"),
        settings: "the concurrency of its queue, otherwise its defaults, with dequeue_timeout of 10 s; Storage::enqueue_list by 1000",
        ..PEER
    },
    System {
        name: "asynq (Rust)",
        program: Program::Built("asynq-rs"),
        settings: "ServerConfig::concurrency, otherwise its defaults; no bulk enqueue",
        ..PEER
    },
    System {
        name: "RQ",
        program: Program::Python("rq"),
        settings: "its worker pool, at most 8 processes, each of which forks for each job, as it does by default; \
                   Queue.enqueue_many by 1000; result_ttl=0",
        most: 8,
        ..PEER
    },
    System {
        name: "dramatiq",
        program: Program::Python("dramatiq"),
        settings: "two processes, from concurrency 2 on, with the rest as threads; no bulk enqueue",
        ..PEER
    },
    System {
        name: "Celery",
        program: Program::Python("celery"),
        settings: "up to concurrency 10 its prefork pool, beyond it threads; acks_late, ignore_result, \
                   worker_prefetch_multiplier 64, without gossip, mingle and heartbeat; no bulk enqueue",
        ..PEER
    },
    System {
        name: "arq",
        program: Program::Python("arq"),
        settings: "max_jobs; keep_result=0; otherwise its defaults, with poll_delay of 0.5 s; no bulk enqueue",
        lacks: ONE_QUEUE,
        ..PEER
    },
    System {
        name: "huey",
        program: Program::Python("huey"),
        settings: "RedisHuey with results=False and as many connections as threads, thread workers; no bulk enqueue",
        lacks: ONE_QUEUE,
        ..PEER
    },
];

impl System {
    /// Whether it has this row.
    pub fn has(&self, row: &str) -> bool {
        self.rows.iter().any(|begin| row.starts_with(begin))
    }

    /// Why it cannot have this row.
    pub fn lacks(&self, row: &str) -> Option<&'static str> {
        self.lacks.filter(|(begin, _)| row.starts_with(begin)).map(|(_, why)| why)
    }

    /// A worker.
    pub fn worker(&self, url: &str, concurrency: usize, queues: &str) -> Command {
        let mut command = self.program.command();
        let concurrency = concurrency.min(self.most).to_string();
        match self.program {
            Program::This => {
                command.args([
                    "worker",
                    "--redis",
                    url,
                    "--log-level",
                    "error",
                    "--concurrency",
                    &concurrency,
                ]);
                command.args(self.more);
                for queue in queues.split(',') {
                    command.args(["--queue", queue]);
                }
            }
            Program::Bare(word) => {
                command.args(["bare", url, word, &concurrency]);
            }
            _ => {
                command.args(["worker", url, "usual", &concurrency]);
            }
        }
        command.env(QUEUES, queues);
        command
    }

    /// A program that enqueues what it is told on its standard input.
    pub fn sender(&self, url: &str, queues: &str) -> Command {
        let mut command = self.program.command();
        command.args(["send", url]);
        match self.program {
            Program::This => {
                command.arg(self.sends);
            }
            Program::Bare(word) => {
                command.arg(word);
            }
            _ => {}
        }
        command.env(QUEUES, queues);
        command
    }
}
