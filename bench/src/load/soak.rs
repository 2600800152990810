//! Does the memory of worker, sweeper and Redis stay flat, while calls come all the time, some fail, some are slow, and
//! another worker is killed again and again?

use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::MissedTickBehavior;

use super::{at, start};
use crate::server::{Server, resident, until, used};
use crate::tasks;

/// Calls that are sent in each tenth of a second.
const CALLS: i64 = 200;
const EVERY: Duration = Duration::from_millis(100);
/// How often the other worker is killed.
const KILL_EVERY: Duration = Duration::from_secs(15);
/// What the memory of a process may grow, from the second fifth of the time to the last, before it is not flat.
const GROWTH: f64 = 0.10;
const MEASURED: [&str; 4] = ["worker", "sweeper", "Redis", "data in Redis"];

/// Killed when it goes.
struct Process(Child);

impl Process {
    fn start(role: &str, url: &str) -> Self {
        let mut words = vec![role, "--redis", url];
        if role == "worker" {
            words.extend(["--queue", "bench", "--concurrency", "64", "--lease", "2s"]);
        }
        Self(start(&words))
    }

    fn resident(&self) -> u64 {
        resident(self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(runtime: &Runtime, length: Duration) -> ExitCode {
    let server = Server::start();
    let url = server.url();
    let (worker, sweeper) = (Process::start("worker", &url), Process::start("sweeper", &url));
    let mut victim = Process::start("worker", &url);
    let mut connection = server.connect();
    let mut series = [const { Vec::<u64>::new() }; MEASURED.len()];
    let (mut sent, mut kills) = (0, 0);

    runtime.block_on(async {
        let client = delayed::Client::connect(&url).await.expect("connects");
        let began = Instant::now();
        let (mut killed, mut measured) = (began, began);
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while began.elapsed() < length {
            ticks.tick().await;
            client.enqueue_many((sent..sent + CALLS).map(call)).await.expect("enqueued");
            sent += CALLS;
            if killed.elapsed() >= KILL_EVERY {
                killed = Instant::now();
                victim = Process::start("worker", &url);
                kills += 1;
            }
            if measured.elapsed() >= Duration::from_secs(1) {
                measured = Instant::now();
                let now = [worker.resident(), sweeper.resident(), server.resident(), used(&mut connection)];
                series.iter_mut().zip(now).for_each(|(series, value)| series.push(value));
            }
        }
        let inspector = delayed::Inspector::connect(&url).await.expect("connects");
        until("all calls have come to an end", async || {
            let queues = inspector.queues().await.expect("tells");
            queues.iter().all(|queue| queue.waiting + queue.owned == 0)
        })
        .await;
        let dead: u64 = inspector.queues().await.expect("tells").iter().map(|queue| queue.dead).sum();
        println!("{sent} calls sent, {kills} workers killed; all came to an end, {dead} are dead letters");
    });
    drop(victim);

    let mut flat = true;
    for (name, mut series) in MEASURED.into_iter().zip(series) {
        let fifth = series.len() / 5;
        let median = |part: &mut [u64]| {
            part.sort_unstable();
            at(part, 0.5) as f64
        };
        let most = series.iter().copied().max().unwrap_or_default();
        let (early, late) = (median(&mut series[fifth..2 * fifth]), median(&mut series[4 * fifth..]));
        let growth = late / early - 1.0;
        flat &= growth <= GROWTH;
        println!(
            "{name}: {:.1} MB in the second fifth, {:.1} MB in the last ({:+.1} %), most {:.1} MB",
            early / 1e6,
            late / 1e6,
            growth * 100.0,
            most as f64 / 1e6
        );
    }
    println!("memory is {}", if flat { "flat" } else { "NOT flat" });
    if flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One in ten takes a while, and one in a hundred is tried twice.
fn call(number: i64) -> delayed::Call {
    match number % 100 {
        7 => tasks::fails_once::call(number),
        digits if digits % 10 == 3 => tasks::takes_a_while::call(number),
        _ => tasks::noop::call(number, "x".into(), true),
    }
}
