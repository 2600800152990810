//! Follows a run while it lasts: its progress and its log are in the record of the call. Needs a Redis, whose address is
//! the only argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows what the caller sees")]

use std::time::Duration;

use delayed::{Client, Context, Inspector, Worker};
use tokio::sync::Notify;

/// A new pack of paper for the printer.
static PAPER: Notify = Notify::const_new();

/// Prints four pages, and needs more paper after the second.
#[delayed::task(keep = "1h")]
async fn print(title: String, ctx: Context) -> String {
    for page in 1..=4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        ctx.progress(f64::from(page) / 4.0, format!("page {page} of {title}"));
        if page == 2 {
            ctx.log("out of paper");
            PAPER.notified().await;
            ctx.log("goes on");
        }
    }
    format!("{title} is printed")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let worker = Worker::builder(&url).connect().await?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let printed = client.enqueue(print::call("Fables".into())).await?;

    // Through the handle, while it runs.
    let progress = loop {
        match printed.progress().await? {
            Some(progress) if progress.log.last().is_some_and(|line| line == "out of paper") => {
                break progress;
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    println!("{:.0} %: {}", progress.share.unwrap_or_default() * 100.0, progress.text);

    // By its id, as `calls show` does: any process can.
    let inspector = Inspector::connect(&url).await?;
    let id = printed.id().expect("it keeps a record");
    if let Some(call) = inspector.call(printed.queue(), id, 100).await? {
        println!("{}: {}", call.state, call.log.join(", "));
    }

    PAPER.notify_one();
    println!("{}", printed.wait(Duration::from_secs(60)).await?);
    handle.stop();
    running.await??;

    // The last progress of a run may be written shortly after the run has ended, but always before its worker stops.
    if let Some(progress) = printed.progress().await? {
        println!("{:.0} %: {}", progress.share.unwrap_or_default() * 100.0, progress.log.join(", "));
    }
    Ok(())
}
