//! Redis Clusters of real servers: of one shard, and of several whose masters are killed or cut off and whose slots move.

mod failures;
mod one_shard;
mod partitions;
mod refused;
mod served;
mod shards;

use std::path::PathBuf;
use std::process::Command;

use delayed::{Client, GoTask, Inspector};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::cluster::TestCluster;
use crate::support::ledger::Ledger;
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, WORKER, ready};
use crate::support::wait;

/// A Cluster, a client of it, and a ledger of what its workers ran.
struct Site {
    directory: tempfile::TempDir,
    ledger: Ledger,
    cluster: TestCluster,
    client: Client,
    runtime: Runtime,
}

impl Site {
    fn new(masters: usize, replicas: usize) -> Self {
        Self::of(TestCluster::start(masters, replicas))
    }

    fn of(cluster: TestCluster) -> Self {
        let directory = crate::support::directory();
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(Client::connect(&cluster.url())).unwrap();
        Self { ledger: Ledger::new(directory.path()), directory, cluster, client, runtime }
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).env("LEDGER", self.ledger.path());
        command.env("DELAYED_LOG_FORMAT", "json").env("DELAYED_REDIS_URL", self.cluster.url());
        command.args(words);
        command
    }

    /// A worker of these queues that serves when this returns.
    fn worker(&self, queues: &[&str], words: &[&str]) -> Program {
        let queues: Vec<&str> = queues.iter().flat_map(|queue| ["--queue", queue]).collect();
        let worker = Program::spawn(&mut self.command(WORKER, &[&["worker"][..], &queues, words].concat()));
        ready(&worker);
        worker
    }

    /// Runs a command of the operator's tool to its end: its code, and what it prints.
    fn tool(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut tool = Program::spawn(&mut self.command(DELAYED, words));
        let code = tool.wait_exit(PATIENCE).code();
        (code, tool.last_words())
    }

    fn inspector(&self) -> Inspector {
        self.runtime.block_on(Inspector::connect(&self.cluster.url())).unwrap()
    }

    /// Enqueues a call that notes `n`.
    fn mark(&self, queue: &str, n: usize) {
        let call = GoTask::new("trial.mark").arg(n.to_string()).queue(queue);
        self.runtime.block_on(self.client.enqueue(call)).unwrap();
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    #[track_caller]
    fn wait_runs(&self, count: usize) {
        wait::until_ok(PATIENCE, || match self.ledger.lines().len() {
            lines if lines >= count => Ok(()),
            lines => Err(format!("{count} lines in the ledger; there are {lines}")),
        });
    }

    /// The same, with what the worker printed if it does not run them.
    #[track_caller]
    fn wait_runs_of(&self, worker: &Program, count: usize) {
        let ran = wait::or_last(PATIENCE, || match self.ledger.lines().len() {
            lines if lines >= count => Ok(()),
            lines => Err(lines),
        });
        if let Err(lines) = ran {
            panic!("expected {count} lines in the ledger, not {lines}, of:\n{}", self.state_of(worker));
        }
    }

    /// What a worker printed, what its threads do, and which lists are there.
    fn state_of(&self, worker: &Program) -> String {
        format!("{}\nthreads: {}\nlists: {}", worker.printed(), worker.threads(), self.cluster.lists())
    }

    /// Tells a worker to end: the fields of its last line.
    #[track_caller]
    fn stop(&self, worker: &mut Program) -> Value {
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        let status = worker.wait_exit(PATIENCE);
        assert_eq!(status.code(), Some(0), "expected a good end, it printed:\n{}", worker.printed());
        serde_json::from_str(&worker.wait_for_line("\"stopped\"")).unwrap()
    }

    /// A queue on each of the first masters.
    fn queues(&self, count: usize) -> Vec<String> {
        (0..count).map(|index| self.cluster.queue_on(index, "q")).collect()
    }
}

/// The names as text.
fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
