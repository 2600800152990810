//! How late do scheduled calls begin, with a million of them in the timetable, and what does Redis do for that?

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Runtime;

use super::{Workers, at, scripts};
use crate::clock::now;
use crate::server::Server;
use crate::tally::Tally;
use crate::tasks;

/// Calls that are not due for a long time.
const FAR: u64 = 1_000_000;
const A_DAY: Duration = Duration::from_secs(86_400);
const WORKERS: usize = 20;
/// Due each second, and for how many seconds.
const RATE: u64 = 1_000;
const SECONDS: u64 = 5;
/// Due in the same moment.
const AT_ONCE: u64 = 100_000;
const ROUNDS: u64 = 3;
/// How long enqueueing the calls may take before the first is due.
const AHEAD: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

pub(super) fn run(runtime: &Runtime) {
    let directory = tempfile::tempdir_in(crate::programs::memory()).expect("a directory");
    steady(runtime, &directory.path().join("steady"));
    for round in 0..ROUNDS {
        let plain = at_once(runtime, &directory.path().join(format!("plain-{round}")), None);
        let due = at_once(runtime, &directory.path().join(format!("due-{round}")), Some(AHEAD));
        println!(
            "{AT_ONCE} calls due in one moment: {due:.0} calls/s; waiting calls before and beside that: {plain:.0} \
             calls/s; ratio {:.2} (to be reached: 0.5)",
            due / plain
        );
    }
}

/// Calls that are due one after the other, with idle workers.
fn steady(runtime: &Runtime, path: &Path) {
    let server = Server::start();
    let tally = Tally::create(path, RATE * SECONDS).expect("a tally");
    let mut connection = server.connect();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    let far = (0..FAR).map(|number| tasks::mark::call(number).after(A_DAY));
    let began = Instant::now();
    runtime.block_on(client.enqueue_many(far)).expect("scheduled");
    println!("{FAR} calls scheduled in bulk: {:.1} s", began.elapsed().as_secs_f64());
    let workers = Workers::start(&server.url(), WORKERS, 10, path);
    workers.wait(runtime, &server.url());
    scripts::watch(&mut connection);
    let (moment, begin) = (SystemTime::now() + AHEAD, now() + AHEAD.as_nanos() as u64);
    let each = Duration::from_secs(1) / RATE as u32;
    let calls = (0..RATE * SECONDS).map(|number| tasks::mark::call(number).at(moment + each * number as u32));
    runtime.block_on(client.enqueue_many(calls)).expect("scheduled");
    for number in 0..RATE * SECONDS {
        tally.sent(number, begin + number * each.as_nanos() as u64);
    }
    sleep_until(begin);
    let (busy, began) = (server.cpu(), Instant::now());
    wait(&tally, RATE * SECONDS);
    let share = (server.cpu() - busy) / began.elapsed().as_secs_f64() * 100.0;
    let mut late: Vec<f64> = (0..RATE * SECONDS).map(|number| tally.waited(number)).collect();
    late.sort_by(f64::total_cmp);
    println!(
        "{RATE} calls due each second, {WORKERS} idle workers: late by p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms (to be \
         reached: p99 10 ms); Redis uses {share:.1} % of a core (to be reached: 10 %)",
        at(&late, 0.5),
        at(&late, 0.99),
        at(&late, 1.0),
    );
    scripts::report(&mut connection);
}

/// Calls each second with one worker, of calls that wait in the queue or are all due after that time.
fn at_once(runtime: &Runtime, path: &Path, after: Option<Duration>) -> f64 {
    let server = Server::start();
    let tally = Tally::create(path, AT_ONCE).expect("a tally");
    let mut connection = server.connect();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    scripts::watch(&mut connection);
    let begin;
    let calls = (0..AT_ONCE).map(|number| tasks::mark::call(number));
    let workers = match after {
        None => {
            runtime.block_on(client.enqueue_many(calls)).expect("enqueued");
            begin = 0;
            Workers::start(&server.url(), 1, 64, path)
        }
        Some(after) => {
            let workers = Workers::start(&server.url(), 1, 64, path);
            workers.wait(runtime, &server.url());
            let moment = SystemTime::now() + after;
            begin = now() + after.as_nanos() as u64;
            runtime.block_on(client.enqueue_many(calls.map(|call| call.at(moment)))).expect("scheduled");
            sleep_until(begin);
            workers
        }
    };
    (0..AT_ONCE).for_each(|number| tally.sent(number, begin));
    wait(&tally, AT_ONCE);
    drop(workers);
    // Milliseconds since they were due, or since the first of those that waited began.
    let mut late: Vec<f64> = (0..AT_ONCE).map(|number| tally.waited(number)).collect();
    late.sort_by(f64::total_cmp);
    let first = if after.is_some() { 0.0 } else { late[0] };
    if after.is_some() {
        println!("the first began after {:.1} ms, the last after {:.1} ms", at(&late, 0.0), at(&late, 1.0));
        scripts::report(&mut connection);
    }
    AT_ONCE as f64 / (at(&late, 1.0) - first) * 1e3
}

fn sleep_until(moment: u64) {
    std::thread::sleep(Duration::from_nanos(moment.saturating_sub(now())));
}

/// Comes back when all have run, each once.
fn wait(tally: &Tally, calls: u64) {
    let (mut known, began) = (0, Instant::now());
    while tally.ran(&mut known, calls) < calls {
        assert!(began.elapsed() < LONGEST, "all calls ran in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    tally.exactly_once().expect("each call ran once");
}
