//! Networks that fail in part: a master that the other nodes, workers, producers or all of them do not reach any more. Nodes and clients are on
//! hosts of their own, in network namespaces.

use std::collections::BTreeSet;
use std::process::Command;

use redis::{Commands, Connection};
use serde_json::Value;

use super::texts;
use crate::support::cluster::TestCluster;
use crate::support::ledger::Ledger;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, WORKER, count, mark, ready};
use crate::support::wait;

const MASTERS: usize = 3;
/// The hosts of the other nodes than the first, of the worker, and of the producers.
const NODES: [usize; 5] = [1, 2, 3, 4, 5];
const WORKERS: usize = 6;
const PRODUCERS: usize = 7;
/// How many calls of each queue are to be certain and to run to show that work goes on.
const SOME: usize = 30;

/// A Cluster whose first master is to be cut off, with a queue on each master.
struct Site {
    directory: tempfile::TempDir,
    ledger: Ledger,
    cluster: TestCluster,
    queues: Vec<String>,
}

impl Site {
    fn new() -> Self {
        let directory = crate::support::directory();
        let cluster = TestCluster::apart(MASTERS, 1, 2);
        let queues = (0..MASTERS).map(|index| cluster.queue_on(index, "q")).collect();
        Self { ledger: Ledger::new(directory.path()), directory, cluster, queues }
    }

    /// Starts the program of the tests on a host.
    fn start(&self, host: usize, words: &[&str], variables: &[(&str, &str)]) -> Program {
        let before = self.cluster.network().words(host);
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).arg(WORKER).args(words).current_dir(self.directory.path());
        command.env("LEDGER", self.ledger.path()).env("DELAYED_LOG_FORMAT", "json");
        Program::spawn(command.envs(variables.iter().copied()))
    }

    fn worker(&self) -> Program {
        let url = self.cluster.url();
        let queues = texts(&self.queues).into_iter().flat_map(|queue| ["--queue", queue]);
        let words = ["worker", "--redis", &url, "--concurrency", "4", "--lease", "2s"];
        let worker = self.start(WORKERS, &words.into_iter().chain(queues).collect::<Vec<_>>(), &[]);
        ready(&worker);
        worker
    }

    /// A producer of each queue, which wants each call on a replica.
    fn producers(&self) -> Vec<Program> {
        let url = self.cluster.url();
        let producer = |queue: &String| {
            self.start(
                PRODUCERS,
                &[],
                &[("PRODUCER", "marks without end"), ("REDIS", &url), ("QUEUE", queue)],
            )
        };
        self.queues.iter().map(producer).collect()
    }

    /// The calls of a queue that ran.
    fn ran(&self, queue: &str) -> BTreeSet<usize> {
        let number = |line: String| line.strip_prefix(queue)?.trim_start().split('.').next()?.parse().ok();
        self.ledger.lines().into_iter().filter_map(number).collect()
    }

    /// Waits until some more calls of this queue are certain, and have run.
    fn wait_work(&self, producer: &Program, worker: &Program, queue: &str) {
        let enough = certain(producer) + SOME;
        wait::until_ok(PATIENCE, || match certain(producer) {
            certain if certain >= enough => Ok(()),
            certain => Err(format!("{enough} certain calls of {queue}, not {certain}: {}", tail(producer))),
        });
        self.wait_ran(queue, enough, worker);
    }

    /// Waits until all of the first calls of a queue have run.
    fn wait_ran(&self, queue: &str, certain: usize, worker: &Program) {
        wait::until_ok(PATIENCE, || {
            let ran = self.ran(queue);
            match (0..certain).find(|n| !ran.contains(n)) {
                None => Ok(()),
                Some(n) => Err(format!("call {n} of {queue} to run, of {certain}: {}", worker.printed())),
            }
        });
    }

    /// Nothing waits, is owned or was buried.
    fn assert_empty(&self) {
        let masters: Vec<usize> = self.cluster.masters();
        for (queue, master) in self.queues.iter().flat_map(|queue| masters.iter().map(move |at| (queue, at)))
        {
            let mut redis: Connection = self.cluster.node(*master).connection();
            let keys: Vec<String> = redis.keys(format!("{queue}*")).unwrap();
            let lasting: Vec<&String> = keys
                .iter()
                .filter(|key| redis.pttl::<_, i64>(key).unwrap() == -1 && !key.ends_with("_workers"))
                .collect();
            assert!(lasting.is_empty(), "expected nothing of {queue} on node {master}: {lasting:?}");
        }
    }

    /// Cuts the first master off from those hosts. All else goes on, also its queue when another master has it, and after all is
    /// whole again, all confirmed calls have run.
    fn cut_off(&self, others: &[usize], is_replaced: bool) {
        let [queue, rest @ ..] = &texts(&self.queues)[..] else { unreachable!("there are some") };
        let mut worker = self.worker();
        let mut producers = self.producers();
        let network = self.cluster.network();
        for (queue, producer) in self.queues.iter().zip(&producers) {
            self.wait_work(producer, &worker, queue);
        }
        network.cut(0, others);
        for (queue, producer) in rest.iter().zip(&producers[1..]) {
            self.wait_work(producer, &worker, queue);
        }
        if is_replaced {
            let owner = wait::until_some("another master", PATIENCE, || {
                self.cluster.owner_but(queue, 0).filter(|owner| *owner != 0)
            });
            // It has no replica that could confirm a call.
            let mut redis = self.cluster.node(owner).connection();
            let () = redis::pipe()
                .atomic()
                .rpush(*queue, mark("elected"))
                .rpush(format!("{queue}_noti"), "1")
                .query(&mut redis)
                .unwrap();
            wait::until_ok(PATIENCE, || {
                let ran = self.ledger.lines().iter().any(|line| line == "elected");
                if ran {
                    Ok(())
                } else {
                    Err(format!("a call to run after the election: {}", worker.printed()))
                }
            });
        } else {
            assert_eq!(self.cluster.owner_but(queue, 0), Some(0), "expected no election");
        }
        for (queue, producer) in rest.iter().zip(&producers[1..]) {
            self.wait_work(producer, &worker, queue);
        }
        network.heal(0, others);
        self.cluster.wait_complete();
        self.cluster.wait_replicas();
        for (queue, producer) in self.queues.iter().zip(&producers) {
            self.wait_work(producer, &worker, queue);
        }
        for (queue, producer) in self.queues.iter().zip(&mut producers) {
            producer.kill9();
            self.wait_ran(queue, certain(producer), &worker);
            wait::until_ok(PATIENCE, || match self.cluster.left(queue) {
                (0, 0) => Ok(()),
                left => {
                    Err(format!("an empty {queue}; there wait and are owned {left:?}: {}", worker.printed()))
                }
            });
        }
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
        let stopped: Value = serde_json::from_str(&worker.wait_for_line("\"stopped\"")).unwrap();
        assert_eq!(count(&stopped, "failed"), 0, "{stopped}");
        self.assert_empty();
    }
}

/// How many calls are certain: all with smaller numbers are.
fn certain(producer: &Program) -> usize {
    let printed = producer.printed();
    let last = printed.lines().rev().find_map(|line| line.strip_prefix("certain ")?.parse::<usize>().ok());
    last.map_or(0, |last| last + 1)
}

fn tail(producer: &Program) -> String {
    producer.printed().lines().rev().take(5).collect::<Vec<_>>().join("\n")
}

#[test]
fn master_that_the_nodes_do_not_reach_is_replaced() {
    Site::new().cut_off(&NODES, true);
}

#[test]
fn master_that_clients_do_not_reach_stops_its_queues_alone() {
    Site::new().cut_off(&[WORKERS, PRODUCERS], false);
}

#[test]
fn master_that_nobody_reaches_is_replaced() {
    Site::new().cut_off(&[&NODES[..], &[WORKERS, PRODUCERS]].concat(), true);
}

/// It takes calls for a while, which nobody else will ever see.
#[test]
fn master_that_producers_alone_reach_confirms_nothing() {
    Site::new().cut_off(&[&NODES[..], &[WORKERS]].concat(), true);
}
