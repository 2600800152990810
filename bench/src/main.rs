//! Measures what `delayed` costs, as ratios against a bare loop of its own scripts in the same run, and against other
//! systems.
//!
//! `bench/run` builds and runs all of it; `bench/run drain` one part.
//!
//! With the word `worker` or `sweeper` this program is the one that is measured, as any program whose `main` is
//! `delayed::main()`; with the word `load` it is `scripts/load`.

mod bare;
mod isolation;
mod load;
mod server;
mod tasks;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use server::{Server, cpu, resident, used};
use tasks::{PICKED_UP, RUNS};

const CALLS: usize = 300_000;
const ROUNDS: usize = 5;

/// A part that runs in this process.
type Part = fn(&tokio::runtime::Runtime);
const PARTS: [(&str, Part); 6] = [
    ("drain", drain),
    ("pickup", pickup),
    ("enqueue", enqueue),
    ("decode", decode),
    ("memory", memory),
    ("idle", idle),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // The roles in which this program starts itself.
    match words.split_first() {
        Some((role, _)) if role == "worker" || role == "sweeper" => return delayed::main(),
        Some((role, rest)) if role == "send" => return isolation::send(rest),
        Some((role, rest)) if role == "fork-loop" => return isolation::fork_loop(rest),
        Some((role, rest)) if role == "exec-child" => return isolation::exec_child(rest),
        Some((role, rest)) if role == "idle-worker" => return idle_worker(rest),
        Some((role, rest)) if role == "load" => return load::run(rest),
        _ => {}
    }
    let (parts, plan) = match read(&words) {
        Ok(read) => read,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    for (name, run) in PARTS {
        if parts.contains(&name) {
            println!("\n## {name}");
            run(&tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime"));
        }
    }
    if !plan.parts.is_empty() {
        println!("\n## {}", plan.parts.join(", "));
        isolation::run(&plan);
    }
    ExitCode::SUCCESS
}

/// What the command line asks for: parts that run in this process, and those that compare.
fn read(words: &[String]) -> Result<(Vec<&'static str>, isolation::Plan), String> {
    let here = PARTS.map(|(name, _)| name);
    let (mut parts, mut compared) = (Vec::new(), Vec::new());
    let mut plan = isolation::Plan {
        parts: Vec::new(),
        only: Vec::new(),
        effort: isolation::Effort::FULL,
        json: concat!(env!("CARGO_MANIFEST_DIR"), "/figures.json").into(),
    };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
        match word {
            "--quick" => plan.effort = isolation::Effort::QUICK,
            "--json" => plan.json = value()?.into(),
            "--only" => plan.only.extend(value()?.split(',').map(str::to_owned)),
            "all" => {
                parts.extend(here);
                compared.extend(isolation::PARTS);
            }
            _ if word.starts_with('-') => return Err(format!("no such option: {word}")),
            _ => {
                parts.extend(here.into_iter().find(|name| *name == word));
                compared.extend(isolation::PARTS.into_iter().find(|name| *name == word));
                if !here.contains(&word) && !isolation::PARTS.contains(&word) {
                    let known = [&here[..], &isolation::PARTS].concat().join(", ");
                    return Err(format!("no such part: {word}; there are {known}"));
                }
            }
        }
    }
    if parts.is_empty() && compared.is_empty() {
        parts.extend(here);
        compared.extend(isolation::PARTS);
    }
    plan.parts = compared;
    Ok((parts, plan))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn fill(runtime: &tokio::runtime::Runtime, client: &delayed::Client, blocking: bool) {
    let sent = runtime.block_on(async {
        if blocking {
            client
                .enqueue_many((0..CALLS as i64).map(|i| tasks::noop_blocking::call(i, "x".into(), true)))
                .await
        } else {
            client.enqueue_many((0..CALLS as i64).map(|i| tasks::noop::call(i, "x".into(), true))).await
        }
    });
    assert_eq!(sent.expect("enqueued"), CALLS);
}

/// Drain of no-op calls: the worker and the bare loop take turns.
fn drain(runtime: &tokio::runtime::Runtime) {
    let server = Server::start();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    let mut connection = server.connect();
    for slots in [64, 10, 1] {
        for blocking in [false, true] {
            let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                fill(runtime, &client, blocking);
                let (took, total) = bare::drain(&mut connection, slots);
                assert_eq!(total, CALLS, "the bare loop took each message once");
                let bare_rate = total as f64 / took.as_secs_f64();

                fill(runtime, &client, blocking);
                let before = RUNS.load(Ordering::Relaxed);
                let worker = runtime.block_on(
                    delayed::Worker::builder(&server.url())
                        .queue("bench")
                        .concurrency(slots)
                        .burst(true)
                        .connect(),
                );
                let began = Instant::now();
                runtime.block_on(worker.expect("connects").run()).expect("runs");
                let rate = CALLS as f64 / began.elapsed().as_secs_f64();
                assert_eq!(RUNS.load(Ordering::Relaxed) - before, CALLS as u64, "each call ran once");
                ours.push(rate);
                bare.push(bare_rate);
                ratios.push(rate / bare_rate);
            }
            let kind = if blocking { "fn" } else { "async fn" };
            println!(
                "concurrency {slots:>2}, {kind:<8}: worker {:>7.0}/s, bare loop {:>7.0}/s, ratio {:.2} ({:.2} to {:.2})",
                median(ours),
                median(bare),
                median(ratios.clone()),
                ratios.iter().copied().fold(f64::MAX, f64::min),
                ratios.iter().copied().fold(0.0, f64::max),
            );
        }
    }
}

/// Idle pick-up: from before the enqueue to the first line of the task. Beside it a bare hand-over, from before an
/// `RPUSH` until somebody's `BLPOP` has returned, and a round trip, a `PING`: by connections of the same kind in the
/// same runtime, each after the same pause, so that all find the machine as idle. They take turns.
fn pickup(runtime: &tokio::runtime::Runtime) {
    let server = Server::start();
    let busy = bare::round_trip(&mut server.connect());
    let (sender, mut picked) = tokio::sync::mpsc::unbounded_channel();
    *PICKED_UP.lock().expect("no panics") = Some(sender);
    let url = server.url();
    // In tasks, as a program that serves would: what `block_on` polls is woken from another thread each time.
    let [pings, hand_overs, times] = runtime
        .block_on(runtime.spawn(async move {
            let redis = redis::Client::open(url.as_str()).expect("an address");
            let mut bare = redis::aio::ConnectionManager::new(redis.clone()).await.expect("connects");
            let mut handed = bare::hand_overs(&redis).await;
            let client = delayed::Client::connect(&url).await.expect("connects");
            let worker = delayed::Worker::builder(&url).queue("bench").concurrency(10).connect().await;
            let worker = worker.expect("connects");
            let handle = worker.handle();
            let running = tokio::spawn(worker.run());
            let [mut pings, mut hand_overs, mut times] = [const { Vec::new() }; 3];
            for round in 0..1000 {
                let pause = Duration::from_millis(5 + round % 7);
                tokio::time::sleep(pause).await;
                let began = Instant::now();
                redis::cmd("PING").exec_async(&mut bare).await.expect("answers");
                pings.push(began.elapsed());

                tokio::time::sleep(pause).await;
                let began = Instant::now();
                redis::cmd("RPUSH").arg(bare::HANDED).arg(1).exec_async(&mut bare).await.expect("answers");
                hand_overs.push(handed.recv().await.expect("is woken") - began);

                tokio::time::sleep(pause).await;
                let began = Instant::now();
                client.enqueue(tasks::picked_up::call()).await.expect("enqueued");
                times.push(picked.recv().await.expect("runs") - began);
            }
            handle.stop();
            running.await.expect("ends").expect("ends well");
            [pings, hand_overs, times]
        }))
        .expect("ends");
    let at = |times: &[Duration], share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let sorted = |mut times: Vec<Duration>| {
        times.sort_unstable();
        [at(&times, 0.5), at(&times, 0.99), at(&times, 1.0)]
    };
    let [ping, hand_over, time] = [pings, hand_overs, times].map(sorted);
    println!(
        "round trip: p50 {:?}, p99 {:?} (of a thread that does nothing else {busy:?})",
        ping[0], ping[1]
    );
    println!("hand-over: p50 {:?}, p99 {:?}", hand_over[0], hand_over[1]);
    let ratio = |place: usize, of: [Duration; 3]| time[place].as_secs_f64() / of[place].as_secs_f64();
    println!(
        "pick-up: p50 {:?} ({:.2} hand-overs, {:.2} round trips), p99 {:?} ({:.2} hand-overs), max {:?}",
        time[0],
        ratio(0, hand_over),
        ratio(0, ping),
        time[1],
        ratio(1, hand_over),
        time[2],
    );
}

/// Enqueue one by one, from many tasks, and in bulk.
fn enqueue(runtime: &tokio::runtime::Runtime) {
    let server = Server::start();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    for tasks in [1_usize, 64] {
        let each = if tasks == 1 { 20_000 } else { 5_000 };
        let began = Instant::now();
        runtime.block_on(async {
            let mut set = tokio::task::JoinSet::new();
            for _ in 0..tasks {
                let client = client.clone();
                set.spawn(async move {
                    for i in 0..each {
                        client.enqueue(tasks::noop::call(i, "x".into(), true)).await.expect("enqueued");
                    }
                });
            }
            while set.join_next().await.is_some() {}
        });
        let rate = (tasks as i64 * each) as f64 / began.elapsed().as_secs_f64();
        println!("one by one from {tasks} tasks: {rate:.0}/s");
    }
    let began = Instant::now();
    fill(runtime, &client, false);
    println!("in bulk: {:.0}/s", CALLS as f64 / began.elapsed().as_secs_f64());
}

/// Decode and call of `(i64, String, bool)`.
fn decode(_: &tokio::runtime::Runtime) {
    use delayed::protocol::message::Message;
    let bytes = tasks::noop::call(123_456, "hello".into(), true).encode().expect("encodes");
    let registry = delayed::task::Registry::collect().expect("tasks");
    let task = registry.get(Message::decode(&bytes).expect("decodes").task()).expect("registered");
    let delayed::task::handler::Handler::Async(function) = task.handler else { panic!("async") };
    let states = delayed::task::States::new();
    let cancellation = delayed::task::Cancellation::new();
    let queue = delayed::protocol::names::QueueName::default();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut times = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        for _ in 0..100_000 {
            let message = Message::decode(std::hint::black_box(&bytes)).expect("decodes");
            let task = registry.get(message.task()).expect("registered");
            let scope = delayed::task::Scope::new(task.name, &queue, &states, &cancellation);
            let mut run = function(message.arguments(), &scope).expect("reads");
            assert!(run.as_mut().poll(&mut context).is_ready());
        }
        times.push(began.elapsed().as_nanos() as f64 / 100_000.0);
    }
    println!("decode, look up and call (i64, String, bool): {:.0} ns", median(times));
}

/// Memory of Redis for each waiting message.
fn memory(runtime: &tokio::runtime::Runtime) {
    let server = Server::start();
    let client = runtime.block_on(delayed::Client::connect(&server.url())).expect("connects");
    let mut connection = server.connect();
    let message = tasks::noop::call(CALLS as i64, "x".into(), true).encode().expect("encodes").len();
    let before = used(&mut connection);
    fill(runtime, &client, false);
    let each = (used(&mut connection) - before) as f64 / CALLS as f64;
    println!(
        "a waiting message of {message} bytes costs Redis {each:.1} bytes: {:.1} more",
        each - message as f64
    );
}

/// An idle worker by itself, and 200 of them on one Redis.
fn idle(runtime: &tokio::runtime::Runtime) {
    let server = Server::start();
    let mut worker = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["idle-worker", &server.url()])
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_secs(3));
    let before = cpu(worker.id());
    std::thread::sleep(Duration::from_secs(20));
    let share = (cpu(worker.id()) - before) / 20.0 * 100.0;
    println!("an idle worker: {:.1} MB resident, {share:.2} % of a core", resident(worker.id()) as f64 / 1e6);
    worker.kill().expect("ends");
    worker.wait().expect("ended");

    let server = Server::start();
    runtime.block_on(async {
        let mut handles = Vec::new();
        let mut running = Vec::new();
        for _ in 0..200 {
            let worker =
                delayed::Worker::builder(&server.url()).queue("bench").concurrency(64).connect().await;
            let worker = worker.expect("connects");
            handles.push(worker.handle());
            running.push(tokio::spawn(worker.run()));
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = server.cpu();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let share = (server.cpu() - before) / 20.0 * 100.0;
        println!("200 idle workers of concurrency 64: Redis uses {share:.2} % of a core");
        for handle in handles {
            handle.stop();
        }
        for run in running {
            run.await.expect("ends").expect("ends well");
        }
    });
}

fn idle_worker(words: &[String]) -> ExitCode {
    let url = words.first().expect("an address");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let worker =
            delayed::Worker::builder(url).queue("bench").concurrency(64).connect().await.expect("connects");
        worker.run().await.expect("ends well");
    });
    ExitCode::SUCCESS
}
