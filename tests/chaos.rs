//! Is anything lost when everything goes wrong? A fleet of all three languages runs calls, while by a schedule that a
//! seed decides its processes, its network and its Redis fail. Then every call is counted.

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
#[path = "chaos/plan.rs"]
mod plan;
#[path = "chaos/producers.rs"]
mod producers;
#[path = "chaos/spans.rs"]
#[allow(dead_code, reason = "its own tests run elsewhere")]
mod spans;
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
use producers::{Producers, warm_up};
use support::tree::{Process, list};
use support::wait;

/// How long the fleet may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the command line asks for.
struct Wanted {
    length: Duration,
    seed: u64,
    /// Only to say what would be done.
    plan: bool,
}

/// Reads the command line: `None` when the names of other tests are asked for. What is not ours is cargo's.
fn wanted() -> Option<Wanted> {
    let mut wanted = Wanted { length: Duration::from_secs(20), seed: 1, plan: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            value.unwrap_or_else(|| panic!("expected a whole number behind {word}"))
        };
        match word.as_str() {
            "--minutes" => wanted.length = Duration::from_secs(60 * number()),
            "--seconds" => wanted.length = Duration::from_secs(number()),
            "--seed" => wanted.seed = number(),
            "--plan" => wanted.plan = true,
            name if !name.starts_with('-') && !"chaos".contains(name) => return None,
            _ => {}
        }
    }
    Some(wanted)
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else { return ExitCode::SUCCESS };
    let plan = plan::plan(wanted.seed, wanted.length, victims);
    println!("chaos: seed {}, {} faults in {:?}", wanted.seed, plan.len(), wanted.length);
    if wanted.plan {
        for fault in plan {
            println!("{:7.1} s  {fault}", fault.at.as_secs_f64());
        }
        return ExitCode::SUCCESS;
    }
    let mut faults = Faults::new(plan);
    let (count, took) = run(&mut faults);
    println!("seed {}, {:?} of faults, at rest {took:.1?} later", wanted.seed, wanted.length);
    if count.print() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The whole course; gives also how long the fleet took to come to rest.
fn run(faults: &mut Faults) -> (Count, Duration) {
    let mut fleet = Fleet::start();
    let mut sent = vec![("Rust", warm_up(&fleet))];
    wait_settled(&fleet).expect("a fleet that nothing happened to comes to rest");
    let before = descriptors(&fleet);

    let producers = Producers::start(&fleet);
    faults.run(&mut fleet);
    sent.extend(producers.end(&fleet));
    let queues = [fleet::OURS, fleet::SMALL, fleet::MIXED];
    let left =
        queues.map(|queue| support::redis::snapshot(&mut fleet.server.connection(), queue).waiting.len());
    println!("waiting at the end of the faults in {queues:?}: {left:?}");
    let began = std::time::Instant::now();
    faults.end_of_go(&mut fleet);
    let mut left: Vec<String> = wait_settled(&fleet).err().into_iter().collect();
    let took = began.elapsed();

    left.extend(wait_shrunk(&fleet, &before));
    left.append(&mut faults.surprises);
    left.extend(end(&mut fleet));
    left.extend(stray_keys(&fleet));
    left.extend(without_end(&fleet, &sent));
    let runs = Runs::read(&fleet);
    let dues = times::dues(&fleet, &sent);
    (Count::of(&sent, &runs, &dues, faults, left), took)
}

/// The descriptors that a worker has for each of its children.
const OF_A_CHILD: usize = 4;

/// Waits until nothing waits, is owned, is scheduled or is to be delivered.
fn wait_settled(fleet: &Fleet) -> Result<(), String> {
    let mut redis = fleet.server.connection();
    wait::or_last(PATIENCE, || {
        // At one instant: the end of a step is in the outbox before the next one waits.
        for queue in [fleet::OURS, fleet::SMALL] {
            let key = |suffix: &str| format!("{queue}{suffix}");
            let mut pipe = redis::pipe();
            pipe.atomic().llen(key("")).hlen(key("_processing")).zcard(key("_due")).hlen(key("_outbox"));
            let left: Vec<u64> = pipe.query(&mut redis).unwrap();
            if left != [0; 4] {
                return Err(format!(
                    "not at rest after {PATIENCE:?}: {left:?} in {queue}, its timetable and its outbox"
                ));
            }
        }
        let keys = [fleet::OURS, fleet::SMALL, fleet::MIXED]
            .map(|queue| support::redis::snapshot(&mut redis, queue));
        let rest = keys.iter().all(|it| {
            it.waiting.is_empty() && it.processing.is_empty() && it.later.is_empty() && it.tokens == 0
        });
        let parked: usize =
            redis::Commands::scard(&mut redis, format!("{}_parked", fleet::OURS)).expect("Redis is there");
        if rest && parked == 0 {
            return Ok(());
        }
        let numbers =
            |it: &support::redis::State| (it.waiting.len(), it.processing.clone(), it.later.len(), it.tokens);
        Err(format!("not at rest after {PATIENCE:?}: {parked} parked, {:?}", keys.each_ref().map(numbers)))
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
        let grown = grown(before, &after);
        if grown.is_empty() { Ok(()) } else { Err(grown) }
    });
    println!("descriptors: before {before:?}, after {after:?}");
    shrunk.err().unwrap_or_default()
}

fn grown(before: &[(String, usize)], after: &[(String, usize)]) -> Vec<String> {
    let names = |counts: &[(String, usize)]| counts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(before) != names(after) {
        return vec![format!("other witnesses than before: {before:?}, {after:?}")];
    }
    // A pool forks a child when it needs one, so it may have one more than at first. The first flow that a worker begins opens
    // the connection of the client of its tasks.
    let room = |name: &str| match (name.contains('\''), name.starts_with("prefork")) {
        (true, _) => 0,
        (false, true) => OF_A_CHILD + 1,
        (false, false) => 1,
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
