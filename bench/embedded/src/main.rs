//! A worker in a `main` of its own, without the command line and without TLS. Knows the words `worker` and `send` of
//! `peers/README.md`.

#[path = "../../src/clock.rs"]
mod clock;
#[path = "../../src/sending.rs"]
mod sending;
#[path = "../../src/tally.rs"]
mod tally;

use std::ops::Range;

use delayed::{Call, Client, Worker};

use crate::sending::{Sends, answer, queues};
use crate::tally::Tally;

/// Does nothing but count its run.
#[delayed::task(name = "count", queue = "bench")]
async fn count(number: u64) {
    Tally::of_environment().count(number);
}

/// Tells when it began.
#[delayed::task(name = "mark", queue = "bench")]
async fn mark(number: u64) {
    Tally::of_environment().mark(number);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = delayed::worker::runtime().build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", url] => runtime.block_on(send(url))?,
        ["worker", url, _, concurrency] => runtime.block_on(work(url, concurrency.parse()?))?,
        _ => return Err("worker or send, as peers/README.md has it".into()),
    }
    Ok(())
}

async fn work(url: &str, concurrency: usize) -> Result<(), Box<dyn std::error::Error>> {
    let worker = queues().iter().fold(Worker::builder(url), |worker, queue| worker.queue(queue));
    let worker = worker.concurrency(concurrency).signals(true);
    // On the runtime's own threads, as `delayed::main()` does it.
    tokio::spawn(async { worker.connect().await?.run().await }).await??;
    Ok(())
}

async fn send(url: &str) -> Result<(), delayed::Error> {
    let client = Client::connect(url).await?;
    answer(Sender { client, queues: queues() }).await;
    Ok(())
}

#[derive(Clone)]
struct Sender {
    client: Client,
    queues: Vec<String>,
}

impl Sender {
    fn call(&self, task: &str, number: u64) -> Call {
        let call = match task {
            "count" => count::call(number),
            "mark" => mark::call(number),
            _ => panic!("no such task: {task}"),
        };
        call.queue(self.queues[number as usize % self.queues.len()].as_str())
    }
}

impl Sends for Sender {
    async fn bulk(&self, task: &str, numbers: Range<u64>, _: usize) {
        self.client.enqueue_many(numbers.map(|number| self.call(task, number))).await.expect("enqueued");
    }

    async fn one(&self, task: &str, number: u64) {
        self.client.enqueue(self.call(task, number)).await.expect("enqueued");
    }
}
