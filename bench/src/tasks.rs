//! What the benchmarks call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_timer::Delay;

use crate::isolation::ledger;
use crate::tally::Tally;

/// How many calls of [`noop`] ran in this process.
pub static RUNS: AtomicU64 = AtomicU64::new(0);

#[delayed::task(queue = "bench")]
pub async fn noop(_number: i64, _text: String, _flag: bool) {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

/// Does nothing but count its run.
#[delayed::task(name = "count", queue = "bench")]
pub async fn count(number: u64) {
    Tally::of_environment().count(number);
}

/// Like [`count`], after a millisecond, and limited.
#[delayed::task(name = "limited", queue = "bench", limit = "bench")]
pub async fn limited(number: u64) {
    Delay::new(Duration::from_millis(1)).await;
    Tally::of_environment().count(number);
}

/// Like [`count`], for many at once.
#[delayed::task(name = "count_all", queue = "bench", batch(max = 100, within = "1s"))]
pub async fn count_all(numbers: Vec<u64>) {
    let tally = Tally::of_environment();
    numbers.into_iter().for_each(|number| tally.count(number));
}

/// Like [`count`], as a plain `fn`, which runs on a blocking thread.
#[delayed::task(name = "count_plain", queue = "bench")]
pub fn count_plain(number: u64) {
    Tally::of_environment().count(number);
}

/// Like [`mark`], as a plain `fn`.
#[delayed::task(name = "mark_plain", queue = "bench")]
pub fn mark_plain(number: u64) {
    Tally::of_environment().mark(number);
}

/// Like [`mixed`], as a plain `fn`.
#[delayed::task(name = "mixed_plain", queue = "bench")]
pub fn mixed_plain(number: u64) {
    std::thread::sleep(mixed_time(number));
    Tally::of_environment().count(number);
}

/// Like [`carry`], as a plain `fn`.
#[delayed::task(name = "carry_plain", queue = "bench")]
pub fn carry_plain(number: u64, data: Vec<u8>) {
    std::hint::black_box(data);
    Tally::of_environment().count(number);
}

/// Tells when it began.
#[delayed::task(name = "mark", queue = "bench")]
pub async fn mark(number: u64) {
    Tally::of_environment().mark(number);
}

/// Takes 1 ms, and each tenth 100 ms. Timers of tokio count whole milliseconds, and make 2 of the one.
#[delayed::task(name = "mixed", queue = "bench")]
pub async fn mixed(number: u64) {
    Delay::new(mixed_time(number)).await;
    Tally::of_environment().count(number);
}

fn mixed_time(number: u64) -> Duration {
    Duration::from_millis(if number.is_multiple_of(10) { 100 } else { 1 })
}

/// Fails for each hundredth number when it runs for the first time, and is run again a second later, as in the second
/// benchmark of asynq.
#[delayed::task(name = "later", queue = "bench", retry = 1, backoff = fixed("1s"))]
pub async fn later(context: delayed::Context, number: u64) -> Result<(), &'static str> {
    if number.is_multiple_of(100) && context.attempt() == 1 {
        return Err("the first time");
    }
    Tally::of_environment().count(number);
    Ok(())
}

/// The same as [`count`], unique until it has ended.
#[delayed::task(name = "unique", queue = "bench", unique = "until_done")]
pub async fn unique(number: u64) {
    Tally::of_environment().count(number);
}

/// Returns its number, which is kept for whoever waits for it.
#[delayed::task(name = "echo", queue = "bench", keep = "1h")]
pub async fn echo(number: u64) -> u64 {
    number
}

/// Brings something along.
#[delayed::task(name = "carry", queue = "bench")]
pub async fn carry(number: u64, data: Vec<u8>) {
    std::hint::black_box(data);
    Tally::of_environment().count(number);
}

#[delayed::task(queue = "bench")]
pub async fn takes_a_while(_number: i64) {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[delayed::task(queue = "bench", retry = 1)]
pub async fn fails_once(context: delayed::Context, _number: i64) -> Result<(), &'static str> {
    if context.attempt() == 1 { Err("the first time") } else { Ok(()) }
}

/// Hangs when it runs for the first time, as a file in that directory tells.
#[delayed::task]
pub async fn hangs_once(number: u64, marks: String) {
    ledger::record(number);
    let mark = std::path::Path::new(&marks).join(number.to_string());
    if std::fs::File::create_new(mark).is_ok() {
        std::future::pending::<()>().await;
    }
}
