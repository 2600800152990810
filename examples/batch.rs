//! Runs the items of many calls together. Needs a Redis, whose address is the only argument, and runs the worker in this
//! process.

#![expect(clippy::print_stdout, reason = "it shows what runs")]

use std::time::Duration;

use delayed::{Client, Inspector, TaskError, Worker};

/// Writes pages into a search index, in one request for all of them. A page that it refuses is retried or buried by itself.
#[delayed::task(retry = 1, backoff = fixed("100ms"), batch(max = 100, within = "500ms"))]
async fn index(pages: Vec<String>, ctx: delayed::Context) -> Vec<Result<(), TaskError>> {
    println!("indexing {} pages", pages.len());
    let index_one = |page: &String| match page.as_str() {
        "" => Err(TaskError::fatal("an empty page")),
        "page 7" if ctx.attempt() == 1 => Err(TaskError::retry("page 7 is locked")),
        _ => Ok(()),
    };
    pages.iter().map(index_one).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let inspector = Inspector::connect(&url).await?;
    let queue = "default".parse()?;

    // Two full batches, and one that waits for more pages, for half a second at the most.
    client.enqueue_many((0..249).map(|page| index::call(format!("page {page}")))).await?;
    client.enqueue(index::call(String::new())).await?;
    for batch in inspector.batches(&queue).await? {
        println!("{} pages wait for more", batch.items);
    }

    let worker = Worker::builder(&url).concurrency(1).connect().await?;
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let is_done = async || {
        let queues = inspector.queues().await?;
        let status = queues.iter().find(|status| status.queue == "default");
        Ok::<_, delayed::Error>(
            status.is_some_and(|status| status.dead == 1 && status.scheduled == 0 && status.waiting == 0),
        )
    };
    while !is_done().await? || !inspector.batches(&queue).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    handle.stop();
    running.await??;
    Ok(())
}
