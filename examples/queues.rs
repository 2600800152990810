//! Pauses a queue and resumes it, bounds how many calls wait in it, and lets one overtake the others. Needs a Redis, whose
//! address is the only argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows what runs, and what does not")]

use std::time::Duration;

use delayed::{Client, Error, Inspector, Overflow, QueueName, Worker};

/// The most calls that may wait in the queue.
const MOST: u64 = 2;

#[delayed::task(queue = "mail", keep = "1m")]
async fn send(text: String) {
    println!("sent {text}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let inspector = Inspector::connect(&url).await?;
    let mail: QueueName = "mail".parse()?;
    let worker = Worker::builder(&url).queue("mail").concurrency(1).connect().await?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));

    // The worker claims nothing more. Calls are still taken.
    inspector.pause(&mail, "ann").await?;
    for text in ["an invitation", "a reminder"] {
        client.enqueue(send::call(text.into()).max_len(MOST)).await?;
    }
    let status = inspector.queue(&mail).await?;
    let by = status.paused.map_or("nobody".into(), |pause| pause.by);
    println!("paused by {by}: {} calls wait", status.waiting);

    // Two wait, so the third is rejected …
    match client.enqueue(send::call("an offer".into()).max_len(MOST)).await {
        Err(Error::QueueFull { waiting, .. }) => println!("rejected an offer: {waiting} calls wait"),
        other => drop(other?),
    }
    // … or takes the place of the oldest one, which becomes a dead letter.
    let offer = send::call("another offer".into()).max_len(MOST).overflow(Overflow::BuryOldest);
    let offer = client.enqueue(offer).await?;
    for letter in inspector.dead_letters(&mail, None, None, 10, 100).await? {
        println!("dead: {} {}", letter.reason, letter.message.arguments_text.unwrap_or_default());
    }

    // This one overtakes those that wait.
    client.enqueue(send::call("an alarm".into()).front()).await?;
    println!("resuming");
    inspector.resume(&mail, "ann").await?;
    offer.wait(Duration::from_secs(60)).await?;
    handle.stop();
    running.await??;
    Ok(())
}
