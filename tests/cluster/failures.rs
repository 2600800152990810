//! Masters that are killed or do not answer, and slots that move, while calls come and are run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use delayed::{Client, GoTask};

use super::{Site, texts};
use crate::support::is_full;
use crate::support::trial::{PATIENCE, count, mark};
use crate::support::wait;

/// How long work may stand still after an election. The machine may be busy.
const SOON: Duration = Duration::from_secs(8);

/// Enqueues calls to queues in turn until it is told to end.
struct Load {
    ends: AtomicBool,
    /// How many calls are certain to be there.
    certain: AtomicUsize,
    /// How many of them may be there in addition: the answer was lost.
    uncertain: AtomicUsize,
}

impl Load {
    fn new() -> Self {
        Self { ends: AtomicBool::new(false), certain: AtomicUsize::new(0), uncertain: AtomicUsize::new(0) }
    }

    /// Each call has a name that tells in which attempt it was enqueued.
    fn run(&self, client: &Client, queues: &[&str]) {
        for n in 0.. {
            for attempt in 0.. {
                if self.ends.load(Ordering::SeqCst) {
                    return;
                }
                let call =
                    GoTask::new("trial.mark").arg(format!("{n}.{attempt}")).queue(queues[n % queues.len()]);
                match client.enqueue_blocking(call) {
                    Ok(_) => break,
                    Err(error) => {
                        assert!(error.is_retryable(), "{error}");
                        if error.may_have_been_applied() {
                            self.uncertain.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            }
            self.certain.store(n + 1, Ordering::SeqCst);
        }
    }

    fn wait_for(&self, more: usize) {
        let before = self.certain.load(Ordering::SeqCst);
        wait::until("calls to be enqueued", PATIENCE, || {
            self.certain.load(Ordering::SeqCst) >= before + more
        });
    }
}

fn client(site: &Site, durability: &str) -> Client {
    let mut config = delayed::config::Config::default();
    config.redis.url = site.cluster.url();
    config.client.durability = durability.parse().unwrap();
    Client::with_config_blocking(&config).unwrap()
}

/// The numbers of calls in the ledger, each once.
fn ran(site: &Site) -> std::collections::BTreeSet<usize> {
    site.ledger.lines().iter().filter_map(|line| line.split_once('.')?.0.parse().ok()).collect()
}

#[test]
fn confirmed_calls_survive_failovers_under_load() {
    let mut site = Site::new(3, 1);
    let queues = site.queues(3);
    let queues = texts(&queues);
    let mut worker = site.worker(&queues, &["--concurrency", "4", "--lease", "2s"]);
    let (load, client) = (Load::new(), client(&site, "replicas(1)"));
    let rounds = if is_full() { 30 } else { 2 };
    let mut standstills = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| load.run(&client, &queues));
        load.wait_for(50);
        // Killed, then silent.
        for round in 0..rounds {
            let queue = queues[round % queues.len()];
            let master = site.cluster.owner(queue).unwrap();
            match round % 2 {
                0 => site.cluster.node_mut(master).kill(),
                _ => site.cluster.node(master).pause(),
            }
            wait::until("another master", PATIENCE, || {
                let owner = site.cluster.owner_but(queue, master);
                owner.is_some_and(|owner| owner != master)
            });
            // The new master has no replica yet that could confirm a call.
            let elected = Instant::now();
            let name = format!("after{round}");
            let call = || GoTask::new("trial.mark").arg(name.clone()).queue(queue);
            // A call that goes to the silent master on an open connection is in doubt.
            wait::until("a call to be taken", PATIENCE, || site.client.enqueue_blocking(call()).is_ok());
            wait::until("the call to run", PATIENCE, || site.ledger.lines().contains(&name));
            standstills.push(elected.elapsed());
            match round % 2 {
                0 => site.cluster.node_mut(master).restart(),
                _ => site.cluster.node(master).resume(),
            }
            site.cluster.wait_complete();
            site.cluster.wait_replicas();
            load.wait_for(50);
        }
        load.ends.store(true, Ordering::SeqCst);
    });
    standstills.sort_unstable();
    let longest = standstills[rounds - 1];
    println!(
        "{rounds} failovers: calls ran {:?} after the election (median), {longest:?} at most",
        standstills[rounds / 2]
    );
    println!("{} calls in doubt", load.uncertain.load(Ordering::SeqCst));
    assert!(longest < SOON, "expected work to go on soon, not after {longest:?}");
    let certain = load.certain.load(Ordering::SeqCst);
    wait::until("all calls to run", PATIENCE, || ran(&site).len() >= certain);
    let missing: Vec<usize> = (0..certain).filter(|n| !ran(&site).contains(n)).collect();
    assert!(missing.is_empty(), "expected no confirmed call to be lost: {missing:?}");
    site.stop(&mut worker);
}

#[test]
fn slots_move_under_load_without_doubt_or_loss() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let queues = texts(&queues);
    let mut worker = site.worker(&queues, &["--concurrency", "4"]);
    let (load, client) = (Load::new(), client(&site, "master"));
    std::thread::scope(|scope| {
        scope.spawn(|| load.run(&client, &queues));
        for round in 1..=9 {
            load.wait_for(20);
            for (n, queue) in queues.iter().enumerate() {
                site.cluster.move_slot(queue, (n + round) % 3);
            }
        }
        load.wait_for(20);
        load.ends.store(true, Ordering::SeqCst);
    });
    assert_eq!(load.uncertain.load(Ordering::SeqCst), 0, "expected no doubt about any call");
    let certain = load.certain.load(Ordering::SeqCst);
    let missing = wait::or_last(PATIENCE, || match (0..certain).find(|n| !ran(&site).contains(n)) {
        None => Ok(()),
        Some(n) => Err(n),
    });
    if let Err(n) = missing {
        panic!("expected call {n} of {certain} to run on:\n{}", site.state_of(&worker));
    }
    // Idle, it waits where the slot is by now.
    site.cluster.move_slot(queues[0], (site.cluster.owner(queues[0]).unwrap() + 1) % 3);
    site.cluster.push(queues[0], &[mark("last.0")]);
    wait::until("the last call to run", PATIENCE, || site.ledger.lines().iter().any(|line| line == "last.0"));
    let stopped = site.stop(&mut worker);
    assert_eq!((count(&stopped, "lost"), count(&stopped, "failed")), (0, 0), "{stopped}");
    let runs = site.ledger.lines();
    assert_eq!(runs.len(), ran(&site).len() + 1, "expected each call to run once");
}

#[test]
fn half_a_cluster_stops_only_its_own_queues() {
    for is_killed in [false, true] {
        let mut site = Site::new(3, 0);
        let queues = site.queues(3);
        let queues = texts(&queues);
        let mut worker = site.worker(&queues, &["--lease", "1s"]);
        if is_killed {
            site.cluster.node_mut(0).kill();
        } else {
            site.cluster.node(0).pause();
        }
        for n in 0..10 {
            site.mark(queues[1 + n % 2], n);
        }
        site.wait_runs_of(&worker, 10);
        let mut config = delayed::config::Config::default();
        config.redis.url = site.cluster.url();
        config.redis.timeout = Duration::from_millis(1500);
        let refused = Client::with_config_blocking(&config).unwrap();
        let error = refused.enqueue_blocking(GoTask::new("a").queue(queues[0])).unwrap_err();
        assert!(error.is_retryable(), "{error}");
        // A new worker of the others starts, too, wherever the names of queues are.
        let mut other = site.worker(&queues[1..], &[]);
        site.mark(queues[1], 10);
        site.wait_runs(11);
        let (code, told) = site.tool(&["doctor", "--json"]);
        assert!(code != Some(0) && told.contains("\"problem\""), "{told}");
        site.stop(&mut other);
        if is_killed {
            site.cluster.node_mut(0).restart();
        } else {
            site.cluster.node(0).resume();
        }
        site.cluster.wait_complete();
        site.mark(queues[0], 11);
        site.wait_runs(12);
        site.stop(&mut worker);
        site.ledger.assert_each_once(0..12);
    }
}

#[test]
fn node_with_wrong_slots_is_told_apart() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let queues = texts(&queues);
    for (n, queue) in queues.iter().enumerate() {
        site.mark(queue, n);
    }
    // One believes that another has the slot, and that one knows better.
    let wrong = site.cluster.slot(queues[0]);
    let mut node = site.cluster.node(2).connection();
    let id = site.cluster.id(1);
    let () = redis::cmd("CLUSTER").arg("SETSLOT").arg(wrong).arg("NODE").arg(id).query(&mut node).unwrap();
    let client = Client::connect_blocking(&site.cluster.node(2).tcp_url()).unwrap();
    for (n, queue) in queues.iter().enumerate() {
        let call = GoTask::new("trial.mark").arg((3 + n).to_string()).queue(*queue);
        client.enqueue_blocking(call).unwrap();
    }
    for queue in queues {
        assert_eq!(site.cluster.left(queue).0, 2, "{queue}");
    }
}
