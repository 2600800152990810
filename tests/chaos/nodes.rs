//! What befalls the nodes of a Cluster, and which calls may run twice because of a fault of it or of a worker.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::count::Runs;
use super::faults::Faults;
use super::fleet::Fleet;
use super::plan::{Fault, Kind};
use super::producers::{LIMIT, Sent};
use super::spans::Span;
use super::times::now;
use crate::support::cluster::TestCluster;
use crate::support::redis::read;

/// How long the others may take to elect a replica and to agree, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is on its way to Redis when a fault begins, or is still done when it is over, in milliseconds.
const BLUR: u64 = 1000;

/// A master that is away, or has been and is not whole again.
pub(crate) struct Absent {
    fault: usize,
    node: usize,
    /// It had the slot of this key.
    key: String,
    began: Instant,
    until: Instant,
    is_back: bool,
    /// Its place among the windows.
    window: usize,
}

/// The time of a fault, by the clock of the runs. What ran then may run again.
pub(crate) struct Window {
    pub(crate) fault: usize,
    pub(crate) whose: Whose,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// Which runs a fault hit.
pub(crate) enum Whose {
    All,
    /// Those of the worker that had this alias.
    Worker(String),
    /// Those of calls of these queues, and of limited calls if the limit was there.
    Master {
        queues: Vec<&'static str>,
        has_limit: bool,
    },
}

impl Window {
    fn has(&self, begun: u64, ended: u64) -> bool {
        begun <= self.ended + BLUR && ended + BLUR >= self.began
    }

    /// Calls that ran then.
    fn hits(&self, runs: &Runs, sent: &[(&'static str, Sent)]) -> Vec<u64> {
        let spans: &[Span] = match &self.whose {
            Whose::Worker(alias) => runs.of(alias),
            Whose::Master { .. } | Whose::All => &runs.spans,
        };
        let then = spans.iter().filter(|span| self.has(span.begun, span.ended)).map(|span| span.number);
        then.filter(|n| sent.iter().any(|(_, sent)| self.concerns(*n, sent))).collect()
    }

    /// Whether it may have hit this call of that producer.
    fn concerns(&self, n: u64, sent: &Sent) -> bool {
        match &self.whose {
            Whose::Worker(_) | Whose::All => true,
            Whose::Master { queues, has_limit } => {
                sent.queues.get(&n).is_some_and(|queue| queues.contains(queue))
                    || *has_limit && sent.limited.contains(&n)
            }
        }
    }
}

/// The keys of the limit have this tag.
fn limit() -> String {
    format!("{{delayed:{LIMIT}}}")
}

/// Which of the queues this node serves, and whether it has the limit.
fn served(nodes: &TestCluster, fleet: &Fleet, node: usize) -> Whose {
    let queues = fleet.queues().all().filter(|queue| nodes.owner(queue) == Some(node)).collect();
    Whose::Master { queues, has_limit: nodes.owner(&limit()) == Some(node) }
}

/// Does it, and gives the master that is away from then on.
pub(crate) fn hit(faults: &mut Faults, fleet: &mut Fleet, at: usize) -> Option<Absent> {
    let fault = faults.plan[at].clone();
    let keys: Vec<String> = fleet.queues().all().map(String::from).chain([limit()]).collect();
    let key = &keys[fault.roll as usize % keys.len()];
    let nodes = fleet.place.nodes().expect("a Cluster has nodes");
    let master = nodes.owner(key).expect("each key has a master between faults");
    let whose = served(nodes, fleet, master);
    let nodes = fleet.place.nodes_mut().expect("a Cluster has nodes");
    match fault.kind {
        Kind::KillMaster => nodes.node_mut(master).kill(),
        Kind::StopMaster => nodes.node(master).pause(),
        Kind::CutNode => {
            for kind in ["normal", "pubsub"] {
                let mut kill = redis::cmd("CLIENT");
                kill.arg("KILL").arg("TYPE").arg(kind);
                let _: u64 = read(&mut nodes.node(master).connection(), &kill);
            }
            return None;
        }
        Kind::MoveSlot => {
            let masters = nodes.masters();
            let place = masters.iter().position(|node| *node == master).expect("it is a master");
            let to = 1 + fault.roll as usize / keys.len() % (masters.len() - 1);
            let (began, to) = (Instant::now(), masters[(place + to) % masters.len()]);
            nodes.move_slot(key, to);
            println!("{:9} {key} moved from node {master} to {to} within {:.1?}", "", began.elapsed());
            return None;
        }
        _ => unreachable!("it is no fault of a node"),
    }
    let (began, until) = (Instant::now(), Instant::now() + fault.lasts);
    println!("{:9} it was node {master}, which had {key}", "");
    faults.windows.push(Window { fault: at, whose, began: now(), ended: u64::MAX - BLUR });
    let window = faults.windows.len() - 1;
    Some(Absent { fault: at, node: master, key: key.clone(), began, until, is_back: false, window })
}

/// Lets a master come back when it has been replaced. Gives it back unless all is as before.
pub(crate) fn tend(faults: &mut Faults, fleet: &mut Fleet, mut absent: Absent) -> Option<Absent> {
    assert!(absent.began.elapsed() < PATIENCE, "expected another master instead of node {}", absent.node);
    let nodes = fleet.place.nodes_mut().expect("a Cluster has nodes");
    if absent.is_back {
        let is_whole = nodes.is_complete() && nodes.has_replicas();
        if is_whole {
            faults.windows[absent.window].ended = now();
            println!("{:9} the Cluster was whole after {:.1?}", "", absent.began.elapsed());
        }
        return (!is_whole).then_some(absent);
    }
    let is_replaced = nodes.owner_but(&absent.key, absent.node).is_some_and(|owner| owner != absent.node);
    if is_replaced && absent.until <= Instant::now() {
        match faults.plan[absent.fault].kind {
            Kind::KillMaster => nodes.node_mut(absent.node).restart(),
            _ => nodes.node(absent.node).resume(),
        }
        absent.is_back = true;
    }
    Some(absent)
}

/// Notes that nobody could do anything since then: leases may have ended.
pub(crate) fn stall(faults: &mut Faults, began: u64) {
    let (kind, lasts) = (Kind::Stall, Duration::from_millis(now() - began));
    println!("{:9} the machine stood still for {lasts:.1?}", "");
    faults.plan.push(Fault { kind, at: Duration::ZERO, lasts, victim: None, roll: 0 });
    faults.in_flight.push(HashSet::new());
    let fault = faults.plan.len() - 1;
    faults.windows.push(Window { fault, whose: Whose::All, began, ended: now() });
}

/// Notes which calls were in flight at the faults, and which cancellations a master may have taken with it.
pub(crate) fn explain(faults: &mut Faults, runs: &Runs, sent: &mut [(&'static str, Sent)]) {
    for window in &faults.windows {
        faults.in_flight[window.fault].extend(window.hits(runs, sent));
        let is_master = matches!(window.whose, Whose::Master { .. });
        for (_, sent) in sent.iter_mut().filter(|_| is_master) {
            let lost = |(n, time): (&u64, &u64)| {
                (window.has(*time, *time) && window.concerns(*n, sent)).then_some(*n)
            };
            let lost: Vec<u64> = sent.cancelled.iter().filter_map(lost).collect();
            sent.refused.retain(|n| !lost.contains(n));
            sent.uncertain.extend(lost);
        }
    }
}
