//! Measures how much limited calls slow down the other calls of their queue, by turns with and without them.

use std::time::{Duration, Instant};

use delayed::Limit;
use tokio::runtime::Runtime;

use super::Workers;
use crate::server::Server;
use crate::tally::Tally;
use crate::tasks;

/// Calls without a limit, and those that share one.
const FREE: u64 = 300_000;
const LIMITED: u64 = 10_000;
const MOST: u32 = 4;
const ROUNDS: usize = 5;

pub(super) fn run(runtime: &Runtime) {
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let alone = round(runtime, false);
        let beside = round(runtime, true);
        println!(
            "other calls: {alone:.0}/s alone, {beside:.0}/s beside {LIMITED} that share a limit of {MOST}"
        );
        ratios.push(beside / alone);
    }
    ratios.sort_by(f64::total_cmp);
    println!("other calls: {:.2} of their rate (to be reached: 0.9)", ratios[ROUNDS / 2]);
}

/// The rate of the calls without a limit. The limited ones come first.
fn round(runtime: &Runtime, with_limited: bool) -> f64 {
    let server = Server::start();
    let directory = tempfile::tempdir_in(crate::programs::memory()).expect("a directory");
    let path = directory.path().join("tally");
    let tally = Tally::create(&path, FREE + LIMITED).expect("a tally");
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    runtime.block_on(client.set_limit("bench", Limit::concurrent(MOST))).expect("is set");
    if with_limited {
        let limited = (FREE..FREE + LIMITED).map(tasks::limited::call);
        runtime.block_on(client.enqueue_many(limited)).expect("enqueued");
    }
    runtime.block_on(client.enqueue_many((0..FREE).map(tasks::count::call))).expect("enqueued");
    let began = Instant::now();
    let workers = Workers::start(&server.url(), 1, 64, &path);
    let mut ran = 0;
    while tally.ran(&mut ran, FREE) < FREE {
        std::thread::sleep(Duration::from_millis(2));
    }
    let rate = FREE as f64 / began.elapsed().as_secs_f64();
    drop(workers);
    rate
}
