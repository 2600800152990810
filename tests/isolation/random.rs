//! What a process draws at random is its own: neither the program nor the zygote has drawn it before.

use std::collections::BTreeSet;

use super::{Case, told};
use crate::support::process::Program;
use crate::support::trial::{QUEUE, Trial, WORKER, call, count};

both! {
    every_process_draws_values_of_its_own
}

/// A program that has drawn before its `main` calls `delayed`.
fn case(mode: &'static str, words: &[&str]) -> Case {
    let trial = Trial::new();
    let mut command = trial.command(WORKER);
    command.args(["worker", "--redis", &trial.server.url(), "--queue", QUEUE, "--isolation", mode]);
    let worker = Program::spawn(command.args(words).env("DRAW_EARLY", "1"));
    worker.wait_for_line("\"serving\"");
    let family = super::family(&trial, &worker);
    Case { trial, worker, family, mode }
}

fn every_process_draws_values_of_its_own(mode: &'static str) {
    let mut case = case(mode, &["--max-tasks", "1", "--concurrency", "4"]);
    let names = ["isolation.draws", "isolation.draws_async"];
    case.trial.push(&(0..200).map(|n| call(names[n % 2], &[])).collect::<Vec<_>>());
    case.trial.wait_runs(200);
    let drawn = told(&case.trial);
    for kind in ["uuid", "call_id", "hash_keys", "thread_local"] {
        let distinct: BTreeSet<&str> = drawn.iter().filter_map(|drawn| drawn[kind].as_str()).collect();
        assert_eq!(distinct.len(), 200, "{kind}: expected each process to draw another: {distinct:?}");
    }
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 200, "{stopped}");
}
