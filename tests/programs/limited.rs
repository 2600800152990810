//! Tasks whose calls are limited. The tests call them by the same functions.

use std::path::PathBuf;
use std::time::Duration;

use delayed::{Context, TaskError};

fn note(text: &str) {
    use std::io::Write;
    let path = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
    let mut ledger =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the ledger opens");
    ledger.write_all(format!("{text}\n").as_bytes()).expect("the ledger can be written");
}

/// Runs for a while: `+n` at its start, `-n` at its end.
#[delayed::task(name = "limited.span", queue = "q", limit = "few")]
pub(crate) async fn span(n: String, ms: u64) {
    note(&format!("+{n}"));
    tokio::time::sleep(Duration::from_millis(ms)).await;
    note(&format!("-{n}"));
}

#[delayed::task(name = "limited.span_blocking", queue = "q", limit = "few")]
pub(crate) fn span_blocking(n: String, ms: u64) {
    note(&format!("+{n}"));
    std::thread::park_timeout(Duration::from_millis(ms));
    note(&format!("-{n}"));
}

#[delayed::task(name = "limited.span_apart", queue = "q", limit = "few", isolation = "fork")]
pub(crate) fn span_apart(n: String, ms: u64) {
    span_blocking(n, ms);
}

/// Has no limit of its own.
#[delayed::task(name = "limited.plain", queue = "q", keep = "1h")]
pub(crate) async fn plain(n: String) {
    note(&n);
}

/// All calls have the same bytes.
#[delayed::task(name = "limited.alike", queue = "q", limit = "few")]
pub(crate) async fn alike() {
    note("+");
    tokio::time::sleep(Duration::from_millis(3)).await;
    note("-");
}

/// Runs until the file is there.
#[delayed::task(name = "limited.gated", queue = "q", limit = "few")]
pub(crate) async fn gated(n: String, gate: PathBuf) {
    note(&format!("+{n}"));
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    note(&format!("-{n}"));
}

/// Fails at its first attempt.
#[delayed::task(name = "limited.flaky", queue = "q", limit = "few", retry = 1, backoff = fixed("100ms"))]
pub(crate) async fn flaky(n: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("+{n}"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    note(&format!("-{n}"));
    if ctx.attempt() == 1 { Err(TaskError::retry("not yet")) } else { Ok(()) }
}

/// Notes when it began, in milliseconds since 1970; its first attempt may fail.
#[delayed::task(name = "limited.stamp", queue = "q", limit = "rate", retry = 1, backoff = fixed("50ms"))]
pub(crate) async fn stamp(fails: bool, ctx: Context) -> Result<(), TaskError> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    note(&now.as_millis().to_string());
    if fails && ctx.attempt() == 1 { Err(TaskError::retry("not yet")) } else { Ok(()) }
}

/// Notes when it began, and fails for good.
#[delayed::task(name = "limited.stamp_and_die", queue = "q", limit = "rate", retry = 0)]
pub(crate) async fn stamp_and_die() -> Result<(), TaskError> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    note(&now.as_millis().to_string());
    Err(TaskError::fatal("no"))
}

/// Runs for a while, without a limit of its own.
#[delayed::task(name = "limited.free_span", queue = "q")]
pub(crate) async fn free_span(n: String, ms: u64) {
    note(&format!("+{n}"));
    tokio::time::sleep(Duration::from_millis(ms)).await;
    note(&format!("-{n}"));
}

/// Runs until the file is there, or it is asked to end, without a limit of its own.
#[delayed::task(name = "limited.free_gated", queue = "q")]
pub(crate) async fn free_gated(n: String, gate: PathBuf, ctx: Context) -> Result<(), TaskError> {
    note(&format!("+{n}"));
    while !gate.exists() {
        if ctx.is_cancelled() {
            return Err(TaskError::fatal("it was asked to end"));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    note(&format!("-{n}"));
    Ok(())
}

/// Fails at its first attempt, without a limit of its own.
#[delayed::task(name = "limited.free_flaky", queue = "q", retry = 1)]
pub(crate) async fn free_flaky(n: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("{n} {}", ctx.attempt()));
    if ctx.attempt() == 1 { Err(TaskError::retry("not yet")) } else { Ok(()) }
}

/// Always fails.
#[delayed::task(name = "limited.free_fails", queue = "q", retry = 0)]
pub(crate) async fn free_fails() -> Result<(), TaskError> {
    Err(TaskError::fatal("no"))
}
