//! What surrounds the runs of a program: headers, layers, hooks and traces.

mod enqueues;
mod headers;
mod hooks;
mod runs;
mod traces;

use delayed::__private::protocol::annotations::Annotations;
use delayed::__private::protocol::encode::{Meta, annotated};

use crate::support::process::Program;
use crate::support::trial::{QUEUE, Trial, WORKER};

const ISOLATIONS: [&str; 3] = ["inline", "fork", "prefork"];

/// Tasks of the program, by the same names.
mod tasks {
    #[delayed::task(name = "layers.headers", queue = "q")]
    pub(super) fn headers(_n: String) {}

    #[delayed::task(name = "layers.traced", queue = "q")]
    pub(super) fn traced(_n: u32, _own: Option<String>) {}

    #[delayed::task(name = "layers.traced_blocking", queue = "q")]
    pub(super) fn traced_blocking(_n: u32, _own: Option<String>) {}

    #[delayed::task(name = "layers.headers_blocking", queue = "q")]
    pub(super) fn headers_blocking(_n: String) {}
}

/// Functions that block, and those that do not.
const INSIDE: [&str; 2] = ["layers.inside", "layers.inside_blocking"];

/// A worker whose program has layers.
fn layered(trial: &Trial, words: &[&str]) -> Program {
    with_layers("noting", trial, words)
}

fn with_layers(kind: &str, trial: &Trial, words: &[&str]) -> Program {
    let mut command = trial.command(WORKER);
    command.args(["worker", "--queue", QUEUE, "--redis", &trial.server.url()]).args(words);
    Program::spawn(command.env("LAYERS", kind))
}

/// A call of one of those, with headers.
fn inside(task: &str, n: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut annotations = Annotations::default();
    headers.iter().for_each(|(name, value)| annotations.headers.insert(*name, *value));
    annotated(task, &rmp_serde::to_vec(n).unwrap(), &Meta::default(), &annotations)
}

/// The words of a worker of this isolation that ends when all is done.
fn burst(isolation: &str) -> [&str; 3] {
    ["--burst", "--isolation", isolation]
}
