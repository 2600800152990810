//! What does it cost to run a task in a process of its own, and how soon is one that hangs killed? Beside a bare loop of
//! fork, exit and wait, a program that is started for each task, and other systems, by turns on one private Redis.

mod bare_fork;
mod effort;
pub mod ledger;
mod systems;
pub mod tasks;
mod trial;
mod watch;

use self::bare_fork::Pace;
pub use self::bare_fork::fork_loop;
pub use self::effort::Effort;
use self::systems::{SYSTEMS, System, Way};
pub use self::tasks::exec_child;
use self::trial::{Killed, Trial};
use crate::figures::{Figures, quantile};
use crate::processes::Size;
use crate::server::Server;
use crate::times::Times;

/// What stands beside those that fork.
const BARE: [(&str, &str); 2] = [
    ("bare loop", "a process with one thread and as much memory as the zygote: fork, _exit, waitpid"),
    ("bare, paused", "the same with the pauses that the calls have whose latency is measured"),
];

/// The parts that this module runs.
pub const PARTS: [&str; 3] = ["fork", "prefork", "kill"];

/// Those that are measured; `only` has names, none: all.
pub fn systems(only: &[String], figures: &mut Figures) -> Result<Vec<&'static System>, String> {
    let wanted = |system: &&System| only.is_empty() || only.iter().any(|name| name == system.name);
    let systems: Vec<&System> = SYSTEMS.iter().filter(wanted).collect();
    for system in &systems {
        figures.describe(system.name, system.program.version(), system.settings)?;
        if system.bare_loop {
            for (name, settings) in BARE {
                figures.describe(name, Some(String::new()), settings)?;
            }
        }
    }
    Ok(systems)
}

/// Runs the parts.
pub fn run(
    parts: &[&'static str],
    systems: &[&'static System],
    effort: &Effort,
    figures: &mut Figures,
) -> Result<(), String> {
    let server = Server::start();
    for round in 0..effort.rounds {
        eprintln!("round {} of {}", round + 1, effort.rounds);
        let mut times = Times::default();
        for part in parts {
            for system in systems {
                if effort.is_over() {
                    eprintln!("the time is over");
                    times.tell();
                    return Ok(());
                }
                let trial = Trial { system, server: &server, effort };
                times.take(part, system.name, || match *part {
                    "kill" if system.way != Way::Inline => kill(&trial, figures),
                    part if part == system.part => costs(&trial, figures),
                    _ => {}
                });
            }
            figures.keep()?;
        }
        times.tell();
    }
    Ok(())
}

/// Calls each second, and what the process of its own adds to the time of a call.
fn costs(trial: &Trial, figures: &mut Figures) {
    let (part, name) = (trial.system.part, trial.system.name);
    for load in trial.system.loads {
        let row = format!("{part}: calls/s, {}", load.label);
        let count = match figures.known(&row, name) {
            Some(rate) => Ok(trial.calls(rate)),
            None => trial.calibrate(*load),
        };
        figures.add(&row, name, "/s", count.and_then(|count| trial.rate(*load, count)));
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
        figures.add(&format!("{part}: enqueue to release, inline, {label}"), name, "ms", inline.clone());
        figures.add(&format!("{part}: enqueue to release, {label}"), name, "ms", own.clone());
        let added = own.and_then(|own| inline.map(|inline| own - inline));
        figures.add(&format!("{part}: added latency, {label}"), name, "ms", added);
    }
    for (label, measured) in [("inline", inline), ("isolated", own)] {
        if let Ok((times, _)) = measured {
            figures.raw(&format!("{part}: enqueue to release, {label}"), name, times);
        }
    }
    if let Some(size) = size
        && trial.system.bare_loop
    {
        bare_loop(trial, size, figures);
    }
}

/// Bare loops of fork, exit and wait, in a process that is as large as the one that forks for the worker.
fn bare_loop(trial: &Trial, size: Size, figures: &mut Figures) {
    let part = trial.system.part;
    let ours = trial.system.name;
    figures.add(&format!("{part}: resident size of what forks"), ours, "MB", Ok(size.resident as f64 / 1e6));
    for (label, processes) in [("1 at a time", 1), ("2 at a time", 2)] {
        let rate = bare_fork::run(processes, size, Pace::Full(trial.effort.seconds));
        let rate = rate
            .map(|bare| processes as f64 * 1e3 * bare.times.len() as f64 / bare.times.iter().sum::<f64>());
        figures.add(&format!("{part}: calls/s, {label}"), "bare loop", "/s", rate);
    }
    for (name, pace) in [
        ("bare loop", Pace::Full(trial.effort.seconds)),
        ("bare, paused", Pace::Paused(trial.effort.samples)),
    ] {
        let bare = bare_fork::run(1, size, pace);
        let resident = bare.as_ref().map(|bare| bare.resident as f64 / 1e6).map_err(Clone::clone);
        figures.add(&format!("{part}: resident size of what forks"), name, "MB", resident);
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = format!("{part}: added latency, {label}");
            let bare = bare.as_ref().map(|bare| quantile(&bare.times, share)).map_err(Clone::clone);
            let added = figures.last(&row, ours).ok_or_else(|| "nothing to compare".to_owned());
            figures.add(&row, name, "ms", bare.clone());
            let ratio = added.and_then(|added| bare.map(|bare| added / bare));
            figures.add(&format!("{part}: added latency over {name}, {label}"), ours, "", ratio);
        }
    }
}

/// How long after its limit a task that hangs is gone and settled, and what a thousand of them leave behind.
fn kill(trial: &Trial, figures: &mut Figures) {
    let name = trial.system.name;
    for task in ["sleep", "spin"] {
        let killed = trial.kill(task);
        let pick = |of: fn(&Killed) -> &Vec<f64>, share: f64| {
            killed.as_ref().map(|killed| quantile(of(killed), share)).map_err(Clone::clone)
        };
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = format!("kill: limit to reaped and settled, {task}, {label}");
            figures.add(&row, name, "ms", pick(|killed| &killed.done, share));
            let row = format!("kill: limit after the enqueue to reaped and settled, {task}, {label}");
            figures.add(&row, name, "ms", pick(|killed| &killed.from_enqueue, share));
        }
        if let Ok(killed) = killed {
            figures.raw(&format!("kill: limit to settled, {task}"), name, killed.settled);
            figures.raw(&format!("kill: limit to reaped and settled, {task}"), name, killed.done);
            figures.raw(
                &format!("kill: the same, counted from the enqueue, {task}"),
                name,
                killed.from_enqueue,
            );
        }
    }
    let hung = trial.hang();
    let mut row = |row: &str, unit, value: fn(&trial::Hung) -> f64| {
        figures.add(row, name, unit, hung.as_ref().map(value).map_err(Clone::clone));
    };
    row("kill: many that hang, 16 at a time", "", |hung| hung.calls as f64);
    row("kill: many that hang, of these killed after their first line", "", |hung| hung.begun as f64);
    row("kill: many that hang, time", "s", |hung| hung.seconds);
    row("kill: many that hang, time over the least that it can be", "", |hung| hung.seconds / hung.least);
    row("kill: many that hang, processes left", "", |hung| hung.processes_left as f64);
    row("kill: many that hang, descriptors left", "", |hung| hung.descriptors_left as f64);
}
