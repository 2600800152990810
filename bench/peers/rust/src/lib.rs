//! What the peers in Rust share, with the benchmarks themselves: what a run writes, and the loop that sends.

#[path = "../../../src/clock.rs"]
pub mod clock;
#[path = "../../../src/sending.rs"]
pub mod sending;
#[path = "../../../src/tally.rs"]
pub mod tally;

use std::time::Duration;

use futures_timer::Delay;
use serde::{Deserialize, Serialize};

use self::tally::Tally;

/// What a call has: data only when it carries some.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arguments {
    pub number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Arguments {
    pub fn new(number: u64, bytes: usize) -> Self {
        Self { number, data: (bytes > 0).then(|| "x".repeat(bytes)) }
    }
}

/// A run of one of the tasks.
pub async fn run(task: &str, number: u64) {
    let tally = Tally::of_environment();
    match task {
        "mark" => return tally.mark(number),
        "mixed" => {
            // Timers of tokio count whole milliseconds, and make 2 of the one.
            Delay::new(Duration::from_millis(if number.is_multiple_of(10) { 100 } else { 1 })).await;
        }
        _ => {}
    }
    tally.count(number);
}

/// What the command line asks for.
pub enum Role {
    Version,
    Send(String),
    /// Where Redis is, and how many calls run at a time.
    Work(String, usize),
}

/// Reads the command line.
pub fn role() -> Role {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", url] => Role::Send(url.into()),
        ["worker", url, _, concurrency] => Role::Work(url.into(), concurrency.parse().expect("a number")),
        _ => Role::Version,
    }
}

/// Comes back when the program is told to stop.
pub async fn stopped() {
    let kind = tokio::signal::unix::SignalKind::terminate();
    tokio::signal::unix::signal(kind).expect("hears signals").recv().await;
}
