//! Measures what `delayed` costs beside the bare loop of its own scripts, and beside other systems.
//!
//! `bench/run` builds and runs all of it; `bench/run drain` one part. `bench/report` tells a saved run again, and
//! `bench/compare` compares two.
//!
//! With the word `worker` or `sweeper` this program is the one that is measured, as any program whose `main` is
//! `delayed::main()`; with the word `run` it is `bench/run`, with `load` `scripts/load`, and with `scale` `bench/scale`.

mod bare;
mod chart;
mod clock;
mod compare;
mod figures;
mod isolation;
mod load;
mod machine;
mod processes;
mod programs;
mod publish;
mod race;
mod readme;
mod run;
mod scale;
mod send;
mod sender;
mod sending;
mod server;
mod table;
mod tally;
mod tasks;
mod times;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (role, rest) = words.split_first().map_or(("", &[][..]), |(role, rest)| (role.as_str(), rest));
    match role {
        // The roles in which this program starts itself.
        "worker" | "sweeper" => delayed::main(),
        "send" => send::serve(rest),
        "bare" => bare::work(rest),
        "fork-loop" => isolation::fork_loop(rest),
        "exec-child" => isolation::exec_child(rest),
        "idle-worker" => load::idle_worker(rest),
        // Those that scripts start.
        "load" => load::run(rest),
        "scale" => scale::run(rest),
        "report" => publish::report(rest),
        "compare" => compare::run(rest),
        "run" => run::run(rest),
        other => {
            eprintln!(
                "error: {other:?} is no role of this program: use bench/run, bench/scale, bench/report, bench/compare or scripts/load"
            );
            ExitCode::from(2)
        }
    }
}
