//! Tasks whose calls are followed or unique. The tests call them by the same functions.

use std::path::PathBuf;
use std::time::Duration;

use delayed::{Context, TaskError};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) order: u64,
    pub(crate) paid: Option<String>,
}

#[delayed::task(name = "followed.charge", queue = "q", keep = "1h")]
pub(crate) async fn charge(order: u64) -> Result<Receipt, TaskError> {
    Ok(Receipt { order, paid: Some(format!("{order} EUR")) })
}

#[delayed::task(name = "followed.charge_blocking", queue = "q", keep = "1h")]
pub(crate) fn charge_blocking(order: u64) -> Receipt {
    Receipt { order, paid: None }
}

#[delayed::task(name = "followed.charge_apart", queue = "q", keep = "1h", isolation = "fork")]
pub(crate) fn charge_apart(order: u64) -> Receipt {
    Receipt { order, paid: None }
}

#[delayed::task(name = "followed.text", queue = "q", keep = "1h")]
pub(crate) async fn text(length: usize) -> String {
    "x".repeat(length)
}

#[delayed::task(name = "followed.text_apart", queue = "q", keep = "1h", isolation = "prefork")]
pub(crate) fn text_apart(length: usize) -> String {
    "x".repeat(length)
}

#[delayed::task(name = "followed.fail", queue = "q", keep = "1h", retry = 1, backoff = none)]
pub(crate) async fn fail(reason: String) -> Result<u8, String> {
    Err(reason)
}

/// Notes its run.
#[delayed::task(name = "followed.noted", queue = "q", keep = "1h")]
pub(crate) async fn noted(n: String) {
    note(&n);
}

#[delayed::task(name = "followed.gated_blocking", queue = "q", keep = "1h")]
pub(crate) fn gated_blocking(gate: PathBuf) {
    while !gate.exists() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Ends when the file is there, whoever asks it to end before.
#[delayed::task(name = "followed.stubborn", queue = "q", grace = "60s")]
pub(crate) async fn stubborn(n: String, gate: PathBuf, _ctx: Context) {
    note(&n);
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One line in the file that LEDGER names.
fn note(text: &str) {
    use std::io::Write;
    let path = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
    let mut ledger =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the ledger opens");
    ledger.write_all(format!("{text}\n").as_bytes()).expect("the ledger can be written");
}

/// Ends when the file is there, or when it is asked to.
#[delayed::task(name = "followed.gated", queue = "q", keep = "1h", unique = "until_done", grace = "5s")]
pub(crate) async fn gated(gate: PathBuf, ctx: Context) -> Result<String, String> {
    while !gate.exists() {
        if ctx.is_cancelled() {
            return Err("it was asked to end".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok("opened".into())
}

/// Says how far it is, then waits for the file.
#[delayed::task(name = "followed.steps", queue = "q", keep = "1h")]
pub(crate) async fn steps(gate: PathBuf, ctx: Context) {
    say_steps(&ctx);
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ctx.progress(1.0, "done");
}

#[delayed::task(name = "followed.steps_apart", queue = "q", keep = "1h", isolation = "fork")]
pub(crate) fn steps_apart(gate: PathBuf, ctx: Context) {
    say_steps(&ctx);
    while !gate.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    ctx.progress(1.0, "done");
}

fn say_steps(ctx: &Context) {
    ctx.log("opened the book");
    ctx.log("two\nlines");
    ctx.progress(0.4, "reading");
    ctx.progress(0.5, "too soon after that");
}

/// Fails at its first attempt, and says what it does.
#[delayed::task(name = "followed.second_time", queue = "q", keep = "1h", retry = 1)]
pub(crate) async fn second_time(ctx: Context) -> Result<u32, String> {
    ctx.log(format!("attempt {}", ctx.attempt()));
    if ctx.attempt() == 1 {
        return Err("not yet".into());
    }
    ctx.progress(0.75, "nearly\u{1b}there");
    Ok(ctx.attempt())
}

/// Wants to go on in an hour, once the file is there.
#[delayed::task(name = "followed.snoozes", queue = "q")]
pub(crate) async fn snoozes(n: String, gate: PathBuf) -> Result<(), TaskError> {
    note(&n);
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(TaskError::snooze(Duration::from_secs(3600)))
}

/// Takes its process down.
#[delayed::task(
    name = "followed.dies_apart",
    queue = "q",
    keep = "1h",
    isolation = "fork",
    unique = "until_done"
)]
pub(crate) fn dies_apart() {
    std::process::abort();
}

#[delayed::task(
    name = "followed.dies_pooled",
    queue = "q",
    keep = "1h",
    isolation = "prefork",
    unique = "until_done"
)]
pub(crate) fn dies_pooled() {
    std::process::abort();
}

/// Cannot be written.
#[derive(Debug)]
pub(crate) struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no words for it"))
    }
}

#[delayed::task(name = "followed.unwritable", queue = "q", keep = "1h")]
pub(crate) async fn unwritable() -> Unwritable {
    Unwritable
}

#[delayed::task(name = "followed.unwritable_apart", queue = "q", keep = "1h", isolation = "fork")]
pub(crate) fn unwritable_apart() -> Unwritable {
    Unwritable
}

/// Never ends by itself.
#[delayed::task(name = "followed.endless", queue = "q", keep = "1h", isolation = "fork")]
pub(crate) fn endless() {
    loop {
        std::thread::park();
    }
}

/// Waits long for its second attempt.
#[delayed::task(name = "followed.later", queue = "q", keep = "1h", retry = 1, backoff = fixed("1h"))]
pub(crate) async fn later() -> Result<(), String> {
    Err("not yet".into())
}

#[delayed::task(name = "followed.once", queue = "q", unique = "until_started")]
pub(crate) async fn once(_n: u64) {}
