//! Limits how many calls run at the same time, and how many begin in a period; runs calls of one customer in their order.
//! Needs a Redis, whose address is the only argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows what runs when")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use delayed::{Client, Limit, Worker};

/// The number of pages that are being printed, and the highest number so far.
static PRINTING: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);
/// When each text was sent.
static SENT: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

/// There are two printers, for all workers together.
#[delayed::task(keep = "1m", limit = "printers")]
async fn print(_page: u32) {
    let printing = PRINTING.fetch_add(1, Ordering::SeqCst) + 1;
    MOST.fetch_max(printing, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(50)).await;
    PRINTING.fetch_sub(1, Ordering::SeqCst);
}

#[delayed::task(keep = "1m")]
async fn text(_number: String) {
    SENT.lock().expect("no task panics").push(Instant::now());
}

/// The first change takes the longest, and the later ones wait for it.
#[delayed::task(keep = "1m")]
async fn apply(customer: u32, change: String, takes_ms: u64) {
    tokio::time::sleep(Duration::from_millis(takes_ms)).await;
    println!("customer {customer} {change}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let patience = Duration::from_secs(60);
    client.set_limit("printers", Limit::concurrent(2)).await?;
    client.set_limit("texts", Limit::at_rate(10, "1s")).await?; // one every 100 ms

    let worker = Worker::builder(&url).concurrency(16).connect().await?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));

    // A call that may not run yet holds no slot of the worker.
    let mut pages = Vec::new();
    for page in 1..=8 {
        pages.push(client.enqueue(print::call(page)).await?);
    }
    for page in &pages {
        page.wait(patience).await?;
    }
    println!("at most {} pages at a time", MOST.load(Ordering::SeqCst));

    let mut texts = Vec::new();
    for number in ["ann", "bob", "eve", "joe"] {
        texts.push(client.enqueue(text::call(number.into()).limit("texts")).await?);
    }
    for text in &texts {
        text.wait(patience).await?;
    }
    let sent = SENT.lock().expect("no task panics").clone();
    let lasted = sent[sent.len() - 1] - sent[0];
    println!("{} texts, not faster than one every 100 ms: {}", sent.len(), lasted.as_millis() > 200);

    let mut changes = Vec::new();
    for (change, takes_ms) in [("moved", 100), ("ordered", 10), ("paid", 0)] {
        let call = apply::call(42, change.into(), takes_ms).ordered("customer:42");
        changes.push(client.enqueue(call).await?);
    }
    for change in &changes {
        change.wait(patience).await?;
    }
    handle.stop();
    running.await??;
    Ok(())
}
