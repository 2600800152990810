//! How late are the ticks of ten thousand periodic tasks made, and what does Redis do for that?

use std::time::{Duration, Instant};

use delayed::Periodic;
use redis::Commands;
use tokio::runtime::Runtime;

use super::{Workers, at, scripts};
use crate::server::Server;
use crate::tasks;

const TASKS: u64 = 10_000;
const WORKERS: usize = 20;

pub(super) fn run(runtime: &Runtime) {
    let directory = tempfile::tempdir_in(crate::programs::memory()).expect("a directory");
    let cases = [
        ("every 10 s, spread by their names", "@every 10s", Duration::from_secs(21), 20.0),
        ("every 10 s, all in the same second", "*/10 * * * * *", Duration::from_secs(31), f64::INFINITY),
        ("once a year", "@yearly", Duration::from_secs(10), f64::INFINITY),
    ];
    for (what, cron, time, limit) in cases {
        measure(runtime, &directory.path().join("tally"), what, cron, time, limit);
    }
}

/// Lets workers make the ticks for a while.
fn measure(runtime: &Runtime, tally: &std::path::Path, what: &str, cron: &str, time: Duration, limit: f64) {
    let server = Server::start();
    let mut connection = server.connect();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    let task =
        |number| Periodic::new(format!("task-{number}"), cron, tasks::echo::call(number).queue("bench"));
    let began = Instant::now();
    runtime.block_on(client.define_all_periodic((0..TASKS).map(task))).expect("defined");
    println!("{TASKS} tasks defined, {what}: {:.1} s", began.elapsed().as_secs_f64());
    let workers = Workers::start(&server.url(), WORKERS, 10, tally);
    workers.wait(runtime, &server.url());
    scripts::watch(&mut connection);
    let (busy, began) = (server.cpu(), Instant::now());
    std::thread::sleep(time);
    let (busy, passed) = (server.cpu() - busy, began.elapsed().as_secs_f64());
    let mut late: Vec<f64> = Vec::new();
    for number in 0..TASKS {
        let entries: Vec<Vec<u8>> =
            connection.lrange(format!("bench:p:task-{number}"), 0, -1).expect("a history");
        late.extend(entries.iter().filter_map(|entry| lateness(entry)));
    }
    late.sort_by(f64::total_cmp);
    print!("{} ticks in {passed:.0} s", late.len());
    if !late.is_empty() {
        let (p50, p99, most) = (at(&late, 0.5), at(&late, 0.99), at(&late, 1.0));
        print!(", made late by p50 {p50:.0} ms, p99 {p99:.0} ms, at most {most:.0} ms");
        if limit.is_finite() {
            print!(" (to be reached: p99 {limit:.0} ms)");
        }
        print!("; {:.1} µs of Redis for each tick and its run", busy * 1e6 / late.len() as f64);
    }
    println!("; Redis uses {:.1} % of a core", busy / passed * 100.0);
    scripts::report(&mut connection);
}

/// How many milliseconds after its time a tick was made: the first two numbers of an entry, each of 9 bytes.
fn lateness(entry: &[u8]) -> Option<f64> {
    let number = |at: usize| Some(u64::from_be_bytes(entry.get(at + 1..at + 9)?.try_into().ok()?));
    let (due, made) = (number(1)?, number(10)?);
    Some(made.saturating_sub(due) as f64)
}
