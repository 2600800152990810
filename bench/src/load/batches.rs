//! Measures what batches save: sends the same small items as single calls and in batches, by turns.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::Workers;
use crate::server::{Server, cpu_of_threads};
use crate::tally::Tally;
use crate::tasks;

const ITEMS: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// Calls for one request of the sender's program, as one reads them from a file.
const CHUNK: u64 = 10_000;

pub(super) fn run(runtime: &Runtime) {
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let single = round(runtime, "single calls", |number| tasks::count::call(number).untyped());
        let batches = round(runtime, "batches of 100", tasks::count_all::call);
        ratios.push(batches / single);
    }
    ratios.sort_by(f64::total_cmp);
    println!("batches: {:.1} times as many items (to be reached: 5)", ratios[ROUNDS / 2]);
}

/// Sends all and waits until all have run. Returns how many ran each second.
fn round(runtime: &Runtime, what: &str, call: impl Fn(u64) -> delayed::Call) -> f64 {
    let server = Server::start();
    let directory = tempfile::tempdir_in(crate::programs::memory()).expect("a directory");
    let path = directory.path().join("tally");
    let tally = Tally::create(&path, ITEMS).expect("a tally");
    let workers = Workers::start(&server.url(), 1, 64, &path);
    workers.wait(runtime, &server.url());
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    let used = || (server.cpu(), cpu_of_threads(workers.0[0].id()), cpu_of_threads(std::process::id()));
    let (before, began) = (used(), Instant::now());
    for first in (0..ITEMS).step_by(CHUNK as usize) {
        let calls = (first..first + CHUNK).map(&call);
        runtime.block_on(client.enqueue_many(calls)).expect("enqueued");
    }
    let sent = began.elapsed();
    let mut ran = 0;
    while tally.ran(&mut ran, ITEMS) < ITEMS {
        std::thread::sleep(Duration::from_millis(2));
    }
    let rate = ITEMS as f64 / began.elapsed().as_secs_f64();
    let after = used();
    tally.exactly_once().expect("each ran once");
    let each = |before: f64, after: f64| (after - before) * 1e6 / ITEMS as f64;
    println!(
        "{what}: {rate:.0} items/s, sent within {:.2} s; for each: Redis {:.2} µs, worker {:.2} µs, sender {:.2} µs",
        sent.as_secs_f64(),
        each(before.0, after.0),
        each(before.1, after.1),
        each(before.2, after.2)
    );
    rate
}
