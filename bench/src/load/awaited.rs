//! What does it cost to wait for the result of a call: how many each second, how long after a `PING`, how large a record?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use super::{Workers, at, scripts};
use crate::server::{Server, cpu_of_threads};
use crate::tally::Tally;
use crate::tasks;

/// Calls one after the other.
const ALONE: u64 = 1_000;
/// Calls of so many tasks, each of which waits for the result of one before it makes the next.
const TASKS: u64 = 64;
const TOGETHER: u64 = 40_000;
/// A `PING` among those, one after each pause.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(30);

pub(super) fn run(runtime: &Runtime) {
    let server = Server::start();
    let directory = tempfile::tempdir_in(crate::programs::memory()).expect("a directory");
    let path = directory.path().join("tally");
    Tally::create(&path, 1).expect("a tally");
    let workers = Workers::start(&server.url(), 1, TASKS as usize, &path);
    workers.wait(runtime, &server.url());
    let url = server.url();
    let (client, ping) = runtime.block_on(async move {
        let client = delayed::Client::connect(&url).await.expect("connects");
        let ping = redis::Client::open(url).expect("an address").get_multiplexed_async_connection().await;
        (client, ping.expect("connects"))
    });
    // In tasks, as programs wait that serve.
    runtime.block_on(runtime.spawn(alone(client.clone(), ping.clone()))).expect("ends well");
    let mut connection = server.connect();
    scripts::watch(&mut connection);
    let used = || (server.cpu(), cpu_of_threads(workers.0[0].id()), cpu_of_threads(std::process::id()));
    let before = used();
    runtime.block_on(runtime.spawn(together(client.clone(), ping))).expect("ends well");
    let after = used();
    let each = |before: f64, after: f64| (after - before) * 1e6 / TOGETHER as f64;
    println!(
        "  processor time for each: Redis {:.1} µs, worker {:.1} µs, sender {:.1} µs",
        each(before.0, after.0),
        each(before.1, after.1),
        each(before.2, after.2)
    );
    commands(&mut connection);
    record(runtime, &client, &mut connection);
}

/// One call at a time and a `PING`, in turns.
async fn alone(client: delayed::Client, mut ping: MultiplexedConnection) {
    let (mut pings, mut calls) = (Vec::new(), Vec::new());
    for number in 0..ALONE {
        pings.push(pinged(&mut ping).await);
        calls.push(called(&client, number).await);
    }
    tell("one at a time", &mut pings, &mut calls);
}

/// As many as come, with a `PING` among them now and then.
async fn together(client: delayed::Client, mut ping: MultiplexedConnection) {
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let pinging = tokio::spawn(async move {
        let mut pings = Vec::new();
        while !ends.load(Ordering::Relaxed) {
            pings.push(pinged(&mut ping).await);
            tokio::time::sleep(PAUSE).await;
        }
        pings
    });
    let began = Instant::now();
    let waiting: Vec<_> = (0..TASKS)
        .map(|at| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in (at..TOGETHER).step_by(TASKS as usize) {
                    times.push(called(&client, number).await);
                }
                times
            })
        })
        .collect();
    let mut calls = Vec::new();
    for task in waiting {
        calls.extend(task.await.expect("waits"));
    }
    let rate = TOGETHER as f64 / began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    println!("{TASKS} at a time: {rate:.0} calls/s with their results (to be reached: 40000)");
    tell(&format!("{TASKS} at a time"), &mut pinging.await.expect("pings"), &mut calls);
}

async fn pinged(ping: &mut MultiplexedConnection) -> f64 {
    let began = Instant::now();
    redis::cmd("PING").exec_async(ping).await.expect("answers");
    began.elapsed().as_secs_f64() * 1e3
}

async fn called(client: &delayed::Client, number: u64) -> f64 {
    let began = Instant::now();
    let handle = client.enqueue(tasks::echo::call(number)).await.expect("enqueued");
    assert_eq!(handle.wait(LONGEST).await.expect("succeeds"), number, "its own result");
    began.elapsed().as_secs_f64() * 1e3
}

fn tell(what: &str, pings: &mut [f64], calls: &mut [f64]) {
    pings.sort_by(f64::total_cmp);
    calls.sort_by(f64::total_cmp);
    println!(
        "{what}: from the enqueue to the result p50 {:.3} ms, p99 {:.3} ms; PING p50 {:.3} ms; ratio {:.1} (to be reached: 4)",
        at(calls, 0.5),
        at(calls, 0.99),
        at(pings, 0.5),
        at(calls, 0.5) / at(pings, 0.5)
    );
}

/// What Redis did for them.
fn commands(connection: &mut redis::Connection) {
    let info: String = redis::cmd("INFO").arg("commandstats").query(connection).expect("answers");
    scripts::report(connection);
    let mut each: Vec<(f64, f64, &str)> = info
        .lines()
        .filter_map(|line| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let field = |wanted| fields.split(',').find_map(|field| field.strip_prefix(wanted)?.parse().ok());
            Some((field("usec=")?, field("calls=")?, name))
        })
        .collect();
    each.sort_by(|one, other| other.0.total_cmp(&one.0));
    let all = (ALONE + TOGETHER) as f64;
    for (us, calls, name) in each.into_iter().take(8) {
        println!("  {name}: {:.2} for each call, {:.1} µs", calls / all, us / all);
    }
}

/// The bytes of a record with all fields of a finished call, of one that was scheduled.
fn record(runtime: &Runtime, client: &delayed::Client, connection: &mut redis::Connection) {
    let handle = runtime.block_on(async {
        let handle = client.enqueue(tasks::echo::call(1).after(Duration::from_millis(1))).await;
        let handle = handle.expect("scheduled");
        handle.wait(LONGEST).await.expect("succeeds");
        handle
    });
    let id = handle.id().expect("it has one");
    let key = format!("bench:c:{}", id.to_string().replace('-', ""));
    let fields: Vec<String> = redis::cmd("HKEYS").arg(&key).query(connection).expect("answers");
    let bytes: u64 = redis::cmd("MEMORY").arg("USAGE").arg(&key).query(connection).expect("answers");
    let result: u64 = redis::cmd("HSTRLEN").arg(&key).arg("result").query(connection).expect("answers");
    println!(
        "a record of {} fields ({}): {} bytes beside the result (to be reached: 300)",
        fields.len(),
        fields.join(", "),
        bytes - result
    );
}
