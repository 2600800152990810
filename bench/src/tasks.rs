//! What the benchmarks call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::isolation::ledger;

pub static RUNS: AtomicU64 = AtomicU64::new(0);
pub static PICKED_UP: Mutex<Option<tokio::sync::mpsc::UnboundedSender<Instant>>> = Mutex::new(None);

#[delayed::task(queue = "bench")]
pub async fn noop(_number: i64, _text: String, _flag: bool) {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[delayed::task(queue = "bench")]
pub fn noop_blocking(_number: i64, _text: String, _flag: bool) {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[delayed::task(queue = "bench")]
pub async fn picked_up() {
    let now = Instant::now();
    if let Some(sender) = &*PICKED_UP.lock().expect("no panics") {
        let _ = sender.send(now);
    }
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
