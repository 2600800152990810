//! Is anything lost when everything goes wrong? A fleet of all three languages runs calls, while by a schedule that a
//! seed decides its processes, its network and its Redis fail. Then every call is counted. With `--cluster`, a fleet of Rust
//! serves a Cluster, whose masters fail and whose slots move.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests die and print")]

#[path = "chaos/count.rs"]
mod count;
#[path = "chaos/ends.rs"]
#[allow(unused_imports, dead_code, reason = "its own tests run elsewhere")]
mod ends;
#[path = "chaos/faults.rs"]
mod faults;
#[path = "chaos/fleet.rs"]
mod fleet;
#[path = "chaos/members.rs"]
mod members;
#[path = "chaos/nodes.rs"]
mod nodes;
#[path = "chaos/place.rs"]
mod place;
#[path = "chaos/plan.rs"]
mod plan;
#[path = "chaos/producers.rs"]
mod producers;
#[path = "chaos/spans.rs"]
#[allow(dead_code, reason = "its own tests run elsewhere")]
mod spans;
#[path = "chaos/steady.rs"]
mod steady;
#[path = "chaos/strikes.rs"]
mod strikes;
#[allow(unused_imports, reason = "its own tests run elsewhere")]
mod support;
#[path = "chaos/times.rs"]
mod times;
#[path = "chaos/varied.rs"]
mod varied;

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::Signal;

use count::{Count, Runs, stray_keys, without_end};
use faults::Faults;
use fleet::{Fleet, wait_gone};
use members::{Role, victims};
use place::{Place, Queues};
use plan::Kind;
use producers::{Producers, warm_up};
use support::tree::{Process, list};
use support::wait;

/// How long the fleet may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the command line asks for.
#[derive(Clone, Copy)]
struct Wanted {
    length: Duration,
    seed: u64,
    is_cluster: bool,
    /// Only to say what would be done.
    plan: bool,
}

impl Wanted {
    const fn seconds(length: u64, seed: u64, is_cluster: bool) -> Self {
        Self { length: Duration::from_secs(length), seed, is_cluster, plan: false }
    }
}

/// What is run with all other tests. The second plan has faults of nodes of each kind.
const USUAL: [Wanted; 2] = [Wanted::seconds(12, 1, false), Wanted::seconds(10, 5, true)];

/// Reads the command line: nothing is wanted when the names of other tests are asked for. What is not ours is cargo's.
fn wanted() -> Vec<Wanted> {
    let mut wanted = Wanted::seconds(20, 1, false);
    let mut words = std::env::args().skip(1);
    let mut is_usual = true;
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            value.unwrap_or_else(|| panic!("expected a whole number behind {word}"))
        };
        match word.as_str() {
            "--minutes" => wanted.length = Duration::from_secs(60 * number()),
            "--seconds" => wanted.length = Duration::from_secs(number()),
            "--seed" => wanted.seed = number(),
            "--cluster" => wanted.is_cluster = true,
            "--plan" => wanted.plan = true,
            name if !name.starts_with('-') && !"chaos".contains(name) => return Vec::new(),
            _ => continue,
        }
        is_usual = false;
    }
    if is_usual { USUAL.to_vec() } else { vec![wanted] }
}

fn main() -> ExitCode {
    // One of the fleet.
    if let [_, produce, turn, _, url] = &std::env::args().collect::<Vec<_>>()[..]
        && produce == "--produce"
    {
        steady::produce(turn.parse().expect("a number"), url, Queues::IN_A_CLUSTER);
        return ExitCode::SUCCESS;
    }
    if wanted().into_iter().all(is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does what is wanted, and gives whether all is well.
fn is_good(wanted: Wanted) -> bool {
    let deck = Kind::deck(wanted.is_cluster);
    let plan = plan::plan(wanted.seed, wanted.length, deck, |kind| victims(kind, wanted.is_cluster));
    println!("chaos: seed {}, {} faults in {:?}", wanted.seed, plan.len(), wanted.length);
    if wanted.plan {
        for fault in plan {
            println!("{:7.1} s  {fault}", fault.at.as_secs_f64());
        }
        return true;
    }
    let mut faults = Faults::new(plan, deck);
    let place = if wanted.is_cluster { Place::cluster() } else { Place::server() };
    let (count, took) = run(place, &mut faults);
    println!("seed {}, {:?} of faults, at rest {took:.1?} later", wanted.seed, wanted.length);
    count.print()
}

/// The whole course; gives also how long the fleet took to come to rest.
fn run(place: Place, faults: &mut Faults) -> (Count, Duration) {
    let mut fleet = Fleet::start(place);
    let mut sent = vec![("Rust", warm_up(&fleet))];
    wait_settled(&fleet).expect("a fleet that nothing happened to comes to rest");
    let before = descriptors(&fleet);

    let producers = Producers::start(&mut fleet);
    faults.run(&mut fleet);
    sent.extend(producers.end(&mut fleet));
    let left: Vec<_> =
        fleet.queues().all().map(|queue| (queue, snapshot(&fleet, queue).waiting.len())).collect();
    println!("waiting at the end of the faults: {left:?}");
    let began = std::time::Instant::now();
    faults.end_of_go(&mut fleet);
    let mut left: Vec<String> = wait_settled(&fleet).err().into_iter().collect();
    let took = began.elapsed();

    left.extend(wait_shrunk(&fleet, &before));
    left.append(&mut faults.surprises);
    left.extend(end(&mut fleet));
    left.extend(stray_keys(&fleet));
    let runs = Runs::read(&fleet);
    nodes::explain(faults, &runs, &mut sent);
    left.extend(without_end(&fleet, &sent));
    let dues = times::dues(&fleet, &sent);
    (Count::of(&sent, &runs, &dues, faults, left), took)
}

/// The descriptors that a worker has for each of its children, and may have for each master that it has known.
const OF_A_CHILD: usize = 4;
const OF_A_MASTER: usize = 4;

fn snapshot(fleet: &Fleet, queue: &str) -> support::redis::State {
    support::redis::snapshot(&mut fleet.place.connection(queue), queue)
}

/// Waits until nothing waits, is owned, is scheduled or is to be delivered.
fn wait_settled(fleet: &Fleet) -> Result<(), String> {
    wait::or_last(PATIENCE, || {
        // What ends a step in one queue begins another in any. So none of them may have anything, twice in a row.
        for queue in fleet.queues().of_rust().chain(fleet.queues().of_rust()) {
            let key = |suffix: &str| format!("{queue}{suffix}");
            // At one instant: the end of a step is in the outbox before the next one waits.
            let mut pipe = redis::pipe();
            pipe.atomic().llen(key("")).hlen(key("_processing")).zcard(key("_due")).hlen(key("_outbox"));
            pipe.scard(key("_parked"));
            let left: Vec<u64> = pipe.query(&mut fleet.place.connection(queue)).unwrap();
            if left != [0; 5] {
                return Err(format!(
                    "not at rest after {PATIENCE:?}: {left:?} in {queue}, its timetable, its outbox, and parked"
                ));
            }
        }
        for queue in fleet.queues().all() {
            let it = snapshot(fleet, queue);
            if !(it.waiting.is_empty() && it.processing.is_empty() && it.later.is_empty() && it.tokens == 0) {
                let numbers = (it.waiting.len(), it.processing, it.later.len(), it.tokens);
                return Err(format!("not at rest after {PATIENCE:?}: {queue} has {numbers:?}"));
            }
        }
        Ok(())
    })
}

/// The witnesses, with their subreapers and zygotes, and how many descriptors each has open.
fn descriptors(fleet: &Fleet) -> Vec<(String, usize)> {
    let all = fleet.everybody();
    let mut counted = Vec::new();
    for member in fleet.members.iter().filter(|member| member.is_witness) {
        let worker = member.program.as_ref().map(|program| program.pid().as_raw());
        let mut process: Option<Process> = worker.and_then(Process::of);
        for name in ["", "'s subreaper", "'s zygote"] {
            let Some(this) = process else { break };
            counted.push((format!("{}{name}", member.name), this.descriptors()));
            process = all.iter().find(|it| it.parent == this.pid && it.is_alive()).cloned();
        }
    }
    counted
}

/// Gives what the witnesses have open that they had not, when connections without replies have been given up.
fn wait_shrunk(fleet: &Fleet, before: &[(String, usize)]) -> Vec<String> {
    let mut after = Vec::new();
    let shrunk = wait::or_last(Duration::from_secs(20), || {
        after = descriptors(fleet);
        let masters = fleet.place.nodes().map_or(0, |nodes| nodes.len() - nodes.masters().len());
        let grown = grown(before, &after, masters);
        if grown.is_empty() { Ok(()) } else { Err(grown) }
    });
    println!("descriptors: before {before:?}, after {after:?}");
    shrunk.err().unwrap_or_default()
}

/// `masters`: how many more masters there may have been than at first.
fn grown(before: &[(String, usize)], after: &[(String, usize)], masters: usize) -> Vec<String> {
    let names = |counts: &[(String, usize)]| counts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(before) != names(after) {
        return vec![format!("other witnesses than before: {before:?}, {after:?}")];
    }
    // A pool forks a child when it needs one, so it may have one more than at first. The first flow that a worker begins opens
    // the connection of the client of its tasks.
    let room = |name: &str| match (name.contains('\''), name.starts_with("prefork")) {
        (true, _) => 0,
        (false, true) => OF_A_CHILD + 1 + masters * OF_A_MASTER,
        (false, false) => 1 + masters * OF_A_MASTER,
    };
    let pairs = before.iter().zip(after).filter(|(before, after)| after.1 > before.1 + room(&before.0));
    pairs
        .map(|(before, after)| format!("{} has {} descriptors, had {}", after.0, after.1, before.1))
        .collect()
}

/// Ends all, workers before sweepers; gives what did not end well.
fn end(fleet: &mut Fleet) -> Vec<String> {
    let mut bad = Vec::new();
    let is_sweeper = |role| matches!(role, Role::OurSweeper | Role::PythonSweeper);
    for sweepers in [false, true] {
        let mut programs: Vec<_> =
            fleet.members.iter_mut().filter(|it| is_sweeper(it.role) == sweepers).collect();
        for program in programs.iter().filter_map(|member| member.program.as_ref()) {
            program.signal(Signal::SIGTERM);
        }
        for member in &mut programs {
            let Some(mut program) = member.program.take() else { continue };
            let status = program.wait_exit(PATIENCE);
            if !status.success() {
                bad.push(format!("{} ended with {status}: {}", member.name, program.printed()));
            }
        }
    }
    let processes = wait_gone(fleet, Duration::from_secs(20));
    if !processes.is_empty() {
        bad.push(format!("processes left: {}", list(&processes)));
    }
    bad
}
