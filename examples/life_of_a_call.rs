//! Schedules calls, retries them, makes them unique, awaits a result and cancels one. Needs a Redis, whose address
//! is the only argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows what becomes of the calls")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayed::{Client, TaskError, Worker};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    order: u64,
    attempt: u32,
}

/// The bank does not answer at first. Nobody is charged twice at a time, and the receipt is kept for an hour.
#[delayed::task(retry = 5, backoff = exponential("50ms", max = "10m"), unique = "until_done", keep = "1h")]
async fn charge(order: u64) -> Result<Receipt, TaskError> {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
    match ATTEMPTS.fetch_add(1, Ordering::Relaxed) + 1 {
        attempt @ 3.. => Ok(Receipt { order, attempt }),
        attempt => Err(TaskError::retry(format!("the bank did not answer attempt {attempt}"))),
    }
}

#[delayed::task(keep = "1h")]
fn remind(who: String) {
    println!("remember, {who}!");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;

    let charged = client.enqueue(charge::call(7)).await?;
    let again = client.enqueue(charge::call(7)).await?;
    println!("charged twice: {}", again.is_new());

    let reminder = client.enqueue(remind::call("ann".into()).after(Duration::from_secs(3600))).await?;
    println!("the reminder was {:?}", reminder.cancel().await?);

    let worker = Worker::builder(&url).connect().await?;
    let stop = worker.handle();
    let running = tokio::spawn(worker.run());
    let receipt = charged.wait(Duration::from_secs(30)).await?;
    println!("order {} was paid in attempt {}", receipt.order, receipt.attempt);
    if let Err(error) = reminder.wait(Duration::from_secs(1)).await {
        println!("the reminder: {error}");
    }
    stop.stop();
    running.await??;
    Ok(())
}
