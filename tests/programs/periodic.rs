//! Periodic tasks, and tasks that periodic ones call. The tests call them by the same functions.

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

/// Notes the id of its call.
#[delayed::task(name = "periodic.second", queue = "ticks", cron = "* * * * * *")]
pub(crate) async fn second(ctx: Context) {
    note(&ctx.id().map(|id| id.to_string()).unwrap_or_default());
}

#[delayed::task(
    name = "periodic.nightly",
    queue = "nightly",
    cron = "0 3 * * *",
    tz = "Europe/Berlin",
    overlap = "skip",
    missed = "all:7",
    expires = "1h"
)]
pub(crate) async fn nightly(kind: Option<String>) {
    note(kind.as_deref().unwrap_or("nightly"));
}

/// Notes its run.
#[delayed::task(name = "periodic.mark", queue = "q")]
pub(crate) async fn mark(n: String) {
    note(&n);
}

/// Runs until the file is there.
#[delayed::task(name = "periodic.gated", queue = "q")]
pub(crate) async fn gated(n: String, gate: PathBuf) {
    note(&n);
    while !gate.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Fails for good.
#[delayed::task(name = "periodic.fatal", queue = "q")]
pub(crate) async fn fatal(n: String) -> Result<(), TaskError> {
    note(&n);
    Err(TaskError::fatal("no use"))
}

/// Runs for a while: `+` at its start, `-` at its end.
#[delayed::task(name = "periodic.span", queue = "q")]
pub(crate) async fn span(ms: u64) {
    note("+");
    tokio::time::sleep(Duration::from_millis(ms)).await;
    note("-");
}
