//! Tasks that are called by themselves: one of the code, and one that is defined while the program runs.
//!
//! Run it with the address of a Redis: `cargo run --example periodic redis://127.0.0.1:6379`. It ends after three calls of each.

#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::sync::atomic::{AtomicU32, Ordering};

use delayed::{Client, Missed, Overlap, Periodic, Worker};

static TICKS: AtomicU32 = AtomicU32::new(0);

/// Is called at each full second: the worker declares it when it starts.
#[delayed::task(cron = "* * * * * *", overlap = "skip")]
async fn every_second() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// Is called as often as `define_periodic` says.
#[delayed::task]
async fn poll(what: String) {
    println!("polled {what}");
}

#[tokio::main]
async fn main() -> Result<(), delayed::Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let client = Client::connect(&url).await?;
    let mails = Periodic::new("mails", "@every 1s", poll::call("the mails".into()))
        .overlap(Overlap::Skip)
        .missed(Missed::Skip);
    client.define_periodic(mails).await?;

    let worker = Worker::builder(&url).connect().await?;
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    while TICKS.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let queue = "default".parse()?;
    println!("removed: {}", client.remove_periodic(&queue, "mails").await?);
    handle.stop();
    let stopped = running.await.expect("the worker does not panic")?;
    println!("ticks of the code: at least 3; calls that failed: {}", stopped.stats.failed);
    Ok(())
}
