//! A program with a `main` of its own that has a client, a worker and a sweeper beside its other work:
//! `cargo run --example embedded_worker -- redis://127.0.0.1:6379`.

#![allow(unreachable_pub, clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delayed::{Client, Sweeper, Worker};

/// What the program shares with its tasks.
#[derive(Clone, Default)]
struct Total(Arc<AtomicU64>);

mod tasks {
    use std::sync::atomic::Ordering;

    use delayed::State;

    /// Adds to the total of the program.
    #[delayed::task(queue = "embedded")]
    pub async fn count(amount: u64, total: State<super::Total>) {
        total.0.fetch_add(amount, Ordering::Relaxed);
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

// Any multi-thread runtime will do, such as that of `#[tokio::main]`; in this one a worker drains a queue faster.
fn main() -> Outcome {
    // Where its log goes: without a subscriber, nowhere.
    tracing_subscriber::fmt().init();
    delayed::worker::runtime().build()?.block_on(serve())
}

async fn serve() -> Outcome {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let total = Total::default();

    // Ctrl-C is the program's own matter: `signals` is off by default.
    let worker =
        Worker::builder(&url).queue("embedded").concurrency(8).state(total.clone()).connect().await?;
    let handle = worker.handle();
    let worker = tokio::spawn(worker.run());
    // Each worker sweeps its own queues by turns; a sweeper sees to all queues of the Redis.
    let sweeper = tokio::spawn(Sweeper::connect(&url).await?.run());

    let client = Client::connect(&url).await?;
    client.enqueue(tasks::count::call(1)).await?;
    let sent = 1 + client.enqueue_many((2..=100).map(tasks::count::call)).await?;

    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while total.0.load(Ordering::Relaxed) < 5050 && tokio::time::Instant::now() < end {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // The calls that run go on until they end, or until the time for the shutdown is over.
    handle.stop();
    let stopped = worker.await??;
    sweeper.abort();
    println!("sent {sent}, succeeded {}, total {}", stopped.stats.succeeded, total.0.load(Ordering::Relaxed));
    Ok(())
}
