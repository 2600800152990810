//! Runs a flow: a chain with a group in it, one that fails and is retried. Needs a Redis, whose address is the only
//! argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows what becomes of the flows")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayed::{Client, FlowFailure, TaskError, Worker, chain, group};

/// Whether there is paper in the printer.
static PAPER: AtomicBool = AtomicBool::new(false);

#[delayed::task]
async fn draw(page: u64) -> String {
    format!("page {page}")
}

#[delayed::task]
async fn bind(pages: Vec<String>, title: String) -> String {
    format!("{title} ({})", pages.join(", "))
}

#[delayed::task]
async fn print(book: String) -> Result<String, TaskError> {
    if PAPER.load(Ordering::Relaxed) {
        Ok(format!("printed {book}"))
    } else {
        Err(TaskError::fatal("no paper"))
    }
}

#[delayed::task]
async fn alert(failure: FlowFailure) {
    println!("{} failed: {}", failure.task, failure.reason);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let worker = Worker::builder(&url).connect().await?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let patience = Duration::from_secs(60);

    let pages = group([1, 2, 3].map(draw::call)).at_most(2);
    let flow = chain(pages).then(bind::step("Fables".into())).then(print::step()).on_error(alert::step());
    let book = client.enqueue_flow(flow).await?;
    let failed = book.wait(patience).await.expect_err("there is no paper");
    println!("{failed}");

    PAPER.store(true, Ordering::Relaxed);
    let steps = book.retry().await?.unwrap_or(0);
    println!("steps to run again: {steps}");
    println!("{}", book.wait(patience).await?);
    if let Some(tree) = book.tree().await? {
        println!("{}", tree.mermaid().lines().next().unwrap_or_default());
        println!("{} steps, {}", tree.steps, tree.state);
    }

    handle.stop();
    running.await??;
    Ok(())
}
