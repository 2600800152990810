//! What does a queue cost in which a million calls wait: memory, looks at it, lost tokens, and its drain?

use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::runtime::Runtime;

use super::scripts;
use crate::server::{Server, used};
use crate::tasks::{self, RUNS};

const WAITING: usize = 1_000_000;

pub(super) fn run(runtime: &Runtime) {
    let server = Server::start();
    let mut connection = server.connect();
    scripts::watch(&mut connection);
    let before = used(&mut connection);

    let began = Instant::now();
    let calls = (0..WAITING as i64).map(|number| tasks::noop::call(number, "x".into(), true));
    let sent = runtime.block_on(async {
        delayed::Client::connect(&server.url()).await.expect("connects").enqueue_many(calls).await
    });
    assert_eq!(sent.expect("enqueued"), WAITING);
    println!("{WAITING} calls enqueued in bulk: {:.1} s", began.elapsed().as_secs_f64());
    scripts::report(&mut connection);
    let memory = used(&mut connection) - before;
    println!(
        "Redis holds {:.0} MB for them, {:.0} bytes each",
        memory as f64 / 1e6,
        memory as f64 / WAITING as f64
    );

    let began = Instant::now();
    let queues = runtime.block_on(async {
        delayed::Inspector::connect(&server.url()).await.expect("connects").queues().await.expect("tells")
    });
    assert_eq!((queues[0].waiting, queues[0].tokens), (WAITING as u64, WAITING as u64));
    println!("`queues` answers in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);

    redis::cmd("DEL").arg("bench_noti").exec(&mut connection).expect("takes the tokens away");
    let began = Instant::now();
    let report = runtime.block_on(async {
        delayed::Sweeper::connect(&server.url()).await.expect("connects").sweep().await.expect("sweeps")
    });
    assert_eq!(report.balanced, WAITING as i64, "each message has a token again");
    println!("all tokens lost and made again by one sweep: {:.1} s", began.elapsed().as_secs_f64());
    scripts::report(&mut connection);

    let (began, ran) = (Instant::now(), RUNS.load(Ordering::Relaxed));
    runtime.block_on(async {
        let worker = delayed::Worker::builder(&server.url()).queue("bench").concurrency(64).burst(true);
        worker.connect().await.expect("connects").run().await.expect("runs");
    });
    assert_eq!(RUNS.load(Ordering::Relaxed) - ran, WAITING as u64, "each call ran once");
    println!("drained by one worker of concurrency 64: {:.1} s", began.elapsed().as_secs_f64());
    scripts::report(&mut connection);
}
