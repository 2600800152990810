//! A circuit breaker: when calls of a queue fail too often, its workers pause the queue, and a scheduled call resumes it.
//!
//! Run it with the address of a Redis and the Unix socket of a bank, and enqueue `circuit_breaker::charge` into `bank`. It is a
//! worker until a signal stops it.

#![expect(clippy::print_stdout, reason = "it shows what becomes of the queue")]

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use delayed::{Client, Inspector, QueueName, State, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::unbounded_channel;

/// The queue of the calls that need the bank.
const QUEUE: &str = "bank";
/// Who pauses it.
const BREAKER: &str = "circuit breaker";
/// How long it stays paused.
const REST: Duration = Duration::from_secs(2);

/// Counts failures, and opens when there are `most` within `period`.
struct Breaker {
    most: usize,
    period: Duration,
    recent: VecDeque<Instant>,
}

impl Breaker {
    /// Counts a failure. Returns whether the breaker opens.
    fn count(&mut self, now: Instant) -> bool {
        self.recent.retain(|failure| now.duration_since(*failure) < self.period);
        self.recent.push_back(now);
        let opens = self.recent.len() >= self.most;
        if opens {
            self.recent.clear();
        }
        opens
    }
}

/// Pauses the queue. The call that resumes it is scheduled first, so that no crash leaves the queue paused.
async fn open(client: &Client, inspector: &Inspector) -> Result<(), delayed::Error> {
    client.enqueue(close::call().after(REST)).await?;
    let pause = inspector.pause(&QUEUE.parse()?, BREAKER).await?;
    if pause.changed {
        println!("opened: {QUEUE} is paused for {REST:?}");
    }
    Ok(())
}

/// Resumes the queue, unless somebody else has paused it. Runs in a queue that is not paused.
#[delayed::task(queue = "breaker", retry = 100)]
async fn close(inspector: State<Inspector>) -> Result<(), delayed::Error> {
    let queue: QueueName = QUEUE.parse()?;
    let paused = inspector.queue(&queue).await?.paused;
    if paused.is_some_and(|pause| pause.by == BREAKER) {
        inspector.resume(&queue, BREAKER).await?;
        println!("closed: {QUEUE} is resumed");
    }
    Ok(())
}

/// Where the bank listens.
struct Bank(PathBuf);

#[delayed::task(queue = "bank", retry = 100, backoff = fixed("50ms"))]
async fn charge(order: u64, bank: State<Bank>) -> io::Result<()> {
    let mut stream = UnixStream::connect(&bank.0).await?;
    stream.write_all(format!("{order}\n").as_bytes()).await?;
    match stream.read_u8().await? {
        b'+' => Ok(()),
        _ => Err(io::Error::other("the bank has refused")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the address of a Redis")?;
    let bank = arguments.next().ok_or("give the socket of the bank")?;
    let (client, inspector) = (Client::connect(&url).await?, Inspector::connect(&url).await?);

    let breaker = Breaker { most: 5, period: Duration::from_secs(10), recent: VecDeque::new() };
    let breaker = Mutex::new(breaker);
    // A hook must not block, so another task sends the requests.
    let (opens, mut opened) = unbounded_channel();
    let worker = Worker::builder(&url)
        .queue("breaker") // before the other, which may be full
        .queue(QUEUE)
        .concurrency(4)
        .state(inspector.clone())
        .state(Bank(bank.into()))
        .on_failure(move |run| {
            let mut breaker = breaker.lock().unwrap_or_else(PoisonError::into_inner);
            if run.queue() == QUEUE && breaker.count(Instant::now()) {
                let _ = opens.send(());
            }
        })
        .signals(true)
        .connect()
        .await?;
    tokio::spawn(async move {
        while opened.recv().await.is_some() {
            if let Err(error) = open(&client, &inspector).await {
                println!("not opened: {error}"); // the next failures open it
            }
        }
    });
    println!("serving");
    worker.run().await?;
    Ok(())
}
