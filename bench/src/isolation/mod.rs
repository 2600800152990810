//! What does it cost to run a task in a process of its own, and how soon is one that hangs killed? Beside a bare loop of
//! fork, exit and wait, a program that is started for each task, and other systems, by turns on one private Redis.

mod bare_fork;
mod effort;
pub mod ledger;
mod processes;
mod report;
mod sender;
mod systems;
mod tasks;
mod trial;
mod watch;
mod worker;

use std::collections::HashMap;
use std::path::PathBuf;

use self::bare_fork::Pace;
pub use self::bare_fork::fork_loop;
pub use self::effort::Effort;
use self::processes::Size;
use self::report::Report;
pub use self::sender::serve as send;
use self::systems::{Load, SYSTEMS, System, Way};
pub use self::tasks::exec_child;
use self::trial::{Killed, Trial};
use crate::server::Server;

/// The parts that this module runs.
pub const PARTS: [&str; 3] = ["fork", "prefork", "kill"];

/// What is to be measured.
pub struct Plan {
    pub parts: Vec<&'static str>,
    /// Names of systems; none: all.
    pub only: Vec<String>,
    pub effort: Effort,
    /// Where the raw figures go.
    pub json: PathBuf,
}

/// Runs the parts, prints one table, and writes the raw figures.
pub fn run(plan: &Plan) {
    let systems: Vec<&System> = SYSTEMS
        .iter()
        .filter(|system| plan.only.is_empty() || plan.only.iter().any(|name| name == system.name))
        .collect();
    let server = Server::start();
    let mut report = Report::default();
    let mut sizes = HashMap::new();
    for system in &systems {
        report.describe(system.name, system.version(), system.settings);
    }
    for round in 0..plan.effort.rounds {
        eprintln!("round {} of {}", round + 1, plan.effort.rounds);
        for part in &plan.parts {
            for system in &systems {
                let trial = Trial { system, server: &server, effort: &plan.effort };
                match *part {
                    "kill" if system.way != Way::Inline => kill(&trial, &mut report),
                    part if part == system.part => costs(&trial, &mut sizes, &mut report),
                    _ => {}
                }
            }
        }
    }
    report.print();
    report.save(&plan.json, &server);
}

/// Calls each second, and what the process of its own adds to the time of a call.
fn costs(trial: &Trial, sizes: &mut HashMap<(&'static str, Load), u64>, report: &mut Report) {
    let (part, name) = (trial.system.part, trial.system.name);
    for load in trial.system.loads {
        let row = format!("{part}: calls/s, {}", load.label);
        let key = (name, *load);
        let result = match sizes.get(&key) {
            Some(&count) => trial.rate(*load, count),
            None => trial.calibrate(*load).and_then(|count| {
                sizes.insert(key, count);
                trial.rate(*load, count)
            }),
        };
        report.add(&row, name, "/s", result);
    }
    if trial.system.way == Way::Inline {
        return;
    }
    let inline = trial.latency(Way::Inline);
    let own = trial.latency(trial.system.way);
    let size = own.as_ref().ok().and_then(|(_, size)| *size);
    for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |measured: &Result<(Vec<f64>, Option<Size>), String>| {
            measured.as_ref().map(|(times, _)| quantile(times, share)).map_err(Clone::clone)
        };
        let (inline, own) = (at(&inline), at(&own));
        report.add(&format!("{part}: enqueue to release, inline, {label}"), name, "ms", inline.clone());
        report.add(&format!("{part}: enqueue to release, {label}"), name, "ms", own.clone());
        let added = own.and_then(|own| inline.map(|inline| own - inline));
        report.add(&format!("{part}: added latency, {label}"), name, "ms", added);
    }
    for (label, measured) in [("inline", inline), ("isolated", own)] {
        if let Ok((times, _)) = measured {
            report.raw(&format!("{part}: enqueue to release, {label}"), name, times);
        }
    }
    if let Some(size) = size
        && trial.system.bare_loop
    {
        bare_loop(trial, size, report);
    }
}

/// Bare loops of fork, exit and wait, in a process that is as large as the one that forks for the worker.
fn bare_loop(trial: &Trial, size: Size, report: &mut Report) {
    let part = trial.system.part;
    let ours = trial.system.name;
    report.add(&format!("{part}: resident size of what forks"), ours, "MB", Ok(size.resident as f64 / 1e6));
    let settings = "a process with one thread and as much memory as the zygote: fork, _exit, waitpid";
    report.describe("bare loop", String::new(), settings);
    for (label, processes) in [("1 at a time", 1), ("2 at a time", 2)] {
        let rate = bare_fork::run(processes, size, Pace::Full(trial.effort.seconds));
        let rate = rate
            .map(|bare| processes as f64 * 1e3 * bare.times.len() as f64 / bare.times.iter().sum::<f64>());
        report.add(&format!("{part}: calls/s, {label}"), "bare loop", "/s", rate);
    }
    let settings = "the same with the pauses that the calls have whose latency is measured";
    report.describe("bare, paused", String::new(), settings);
    for (name, pace) in [
        ("bare loop", Pace::Full(trial.effort.seconds)),
        ("bare, paused", Pace::Paused(trial.effort.samples)),
    ] {
        let bare = bare_fork::run(1, size, pace);
        let resident = bare.as_ref().map(|bare| bare.resident as f64 / 1e6).map_err(Clone::clone);
        report.add(&format!("{part}: resident size of what forks"), name, "MB", resident);
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = format!("{part}: added latency, {label}");
            let bare = bare.as_ref().map(|bare| quantile(&bare.times, share)).map_err(Clone::clone);
            let added = report.last(&row, ours).ok_or_else(|| "nothing to compare".to_owned());
            report.add(&row, name, "ms", bare.clone());
            let ratio = added.and_then(|added| bare.map(|bare| added / bare));
            report.add(&format!("{part}: added latency over {name}, {label}"), ours, "", ratio);
        }
    }
}

/// How long after its limit a task that hangs is gone and settled, and what a thousand of them leave behind.
fn kill(trial: &Trial, report: &mut Report) {
    let name = trial.system.name;
    for task in ["sleep", "spin"] {
        let killed = trial.kill(task);
        let pick = |of: fn(&Killed) -> &Vec<f64>, share: f64| {
            killed.as_ref().map(|killed| quantile(of(killed), share)).map_err(Clone::clone)
        };
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = format!("kill: limit to reaped and settled, {task}, {label}");
            report.add(&row, name, "ms", pick(|killed| &killed.done, share));
            let row = format!("kill: limit after the enqueue to reaped and settled, {task}, {label}");
            report.add(&row, name, "ms", pick(|killed| &killed.from_enqueue, share));
        }
        if let Ok(killed) = killed {
            report.raw(&format!("kill: limit to settled, {task}"), name, killed.settled);
            report.raw(&format!("kill: limit to reaped and settled, {task}"), name, killed.done);
            report.raw(
                &format!("kill: the same, counted from the enqueue, {task}"),
                name,
                killed.from_enqueue,
            );
        }
    }
    let hung = trial.hang();
    let mut row = |row: &str, unit, value: fn(&trial::Hung) -> f64| {
        report.add(row, name, unit, hung.as_ref().map(value).map_err(Clone::clone));
    };
    row("kill: hanging calls, 16 at a time", "", |hung| hung.calls as f64);
    row("kill: of these, killed after their first line", "", |hung| hung.begun as f64);
    row("kill: time of all of them", "s", |hung| hung.seconds);
    row("kill: time over the least that it can be", "", |hung| hung.seconds / hung.least);
    row("kill: processes left", "", |hung| hung.processes_left as f64);
    row("kill: descriptors left", "", |hung| hung.descriptors_left as f64);
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}
