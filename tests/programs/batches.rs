//! Tasks that run in batches. The tests call them by the same functions.

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

/// What an item says is done: `ok`, `flaky`, which fails at the first attempt, `snoozed`, which is put off then, `bad`, `fails` or
/// `long`.
fn result(item: &str, is_alone: bool, ctx: &Context) -> Result<(), TaskError> {
    match item.split(':').next() {
        Some("flaky") if ctx.attempt() == 1 => Err(TaskError::retry("not yet")),
        Some("snoozed") if !is_alone => Err(TaskError::snooze(Duration::from_millis(50))),
        Some("bad") => Err(TaskError::fatal("never")),
        Some("fails") => Err(TaskError::retry(format!("no {item}"))),
        Some("long") => Err(TaskError::fatal("x".repeat(100_000))),
        _ => Ok(()),
    }
}

fn run(items: &[String], ctx: &Context) -> Vec<Result<(), TaskError>> {
    note(&items.join(" "));
    items.iter().map(|item| result(item, items.len() == 1, ctx)).collect()
}

#[delayed::task(
    name = "batches.collect", queue = "q", retry = 1, backoff = fixed("50ms"), batch(max = 5, within = "500ms")
)]
pub(crate) async fn collect(items: Vec<String>, ctx: Context) -> Vec<Result<(), TaskError>> {
    run(&items, &ctx)
}

#[delayed::task(name = "batches.collect_at_once", queue = "q", retry = 1, backoff = none, batch(max = 5, within = "500ms"))]
pub(crate) fn collect_at_once(
    items: Vec<String>,
    ctx: Context,
) -> Result<Vec<Result<(), TaskError>>, String> {
    Ok(run(&items, &ctx))
}

#[delayed::task(
    name = "batches.collect_apart", queue = "q", retry = 1, backoff = fixed("50ms"), isolation = "prefork",
    batch(max = 5, within = "500ms")
)]
pub(crate) fn collect_apart(ctx: Context, items: Vec<String>) -> Vec<Result<(), TaskError>> {
    run(&items, &ctx)
}

/// Waits for a pause between items.
#[delayed::task(name = "batches.patient", queue = "q", batch(max = 10_000, within = "1h", grace = "300ms"))]
pub(crate) async fn patient(items: Vec<u64>) {
    note(&format!("{}", items.len()));
}

/// Fails as a whole, once.
#[delayed::task(name = "batches.whole", queue = "q", retry = 1, backoff = fixed("50ms"), batch(max = 3, within = "1h"))]
pub(crate) async fn whole(items: Vec<u64>, ctx: Context) -> Result<(), String> {
    note(&format!("{items:?}"));
    if ctx.attempt() == 1 { Err("all of it".into()) } else { Ok(()) }
}

/// Fails as a whole at first, then for each item but `ok`.
#[delayed::task(name = "batches.late", queue = "q", retry = 2, backoff = fixed("50ms"), batch(max = 3, within = "1h"))]
pub(crate) async fn late(items: Vec<String>, ctx: Context) -> Result<Vec<Result<(), TaskError>>, String> {
    note(&items.join(" "));
    if ctx.attempt() == 1 {
        return Err("all of it".into());
    }
    Ok(items.iter().map(|item| if item == "ok" { Ok(()) } else { Err(TaskError::retry("no")) }).collect())
}

/// Returns too few results.
#[delayed::task(name = "batches.short", queue = "q", batch(max = 3, within = "1h"))]
pub(crate) async fn short(_items: Vec<u64>) -> Vec<Result<(), String>> {
    vec![Ok(())]
}

/// Notes each item, when the gate is open.
#[delayed::task(name = "batches.gated", queue = "q", batch(max = 4, within = "100ms"))]
pub(crate) async fn gated(items: Vec<(u64, PathBuf)>) {
    for (n, gate) in items {
        while !gate.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        note(&n.to_string());
    }
}
