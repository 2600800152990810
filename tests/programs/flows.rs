//! Tasks that are steps of flows. The tests call them by the same functions.

use std::path::PathBuf;
use std::time::Duration;

use delayed::{Context, FlowFailure, TaskError};

fn note(text: &str) {
    use std::io::Write;
    let path = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
    let mut ledger =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the ledger opens");
    ledger.write_all(format!("{text}\n").as_bytes()).expect("the ledger can be written");
}

#[delayed::task(name = "flows.number", queue = "q")]
pub(crate) async fn number(n: u64) -> u64 {
    n
}

#[delayed::task(name = "flows.add", queue = "q")]
pub(crate) async fn add(sum: u64, n: u64) -> u64 {
    sum + n
}

/// Runs in a process of its own, and in another queue than its neighbors.
#[delayed::task(name = "flows.add_apart", queue = "other", isolation = "fork")]
pub(crate) fn add_apart(sum: u64, n: u64) -> u64 {
    sum + n
}

#[delayed::task(name = "flows.double", queue = "other")]
pub(crate) fn double(n: u64) -> u64 {
    2 * n
}

#[delayed::task(name = "flows.sum", queue = "q")]
pub(crate) async fn sum(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

#[delayed::task(name = "flows.words", queue = "q")]
pub(crate) async fn words(of: (String, u64, Vec<u64>), end: String) -> String {
    format!("{} {} {:?} {end}", of.0, of.1, of.2)
}

#[delayed::task(name = "flows.text", queue = "q")]
pub(crate) async fn text(length: usize) -> String {
    "x".repeat(length)
}

#[delayed::task(name = "flows.length", queue = "q")]
pub(crate) async fn length(text: String) -> usize {
    text.len()
}

/// Notes its run.
#[delayed::task(name = "flows.note", queue = "q")]
pub(crate) async fn note_run(name: String) -> String {
    note(&name);
    name
}

/// Notes what came before it.
#[delayed::task(name = "flows.end", queue = "q")]
pub(crate) async fn end(results: Vec<String>, name: String) -> String {
    note(&format!("{name} {}", results.len()));
    name
}

/// Notes the beginning and the end of its run, with the id of its call.
#[delayed::task(name = "flows.traced", queue = "q")]
pub(crate) async fn traced(results: Vec<String>, name: String, ctx: Context) -> String {
    let id = ctx.id().expect("a step has an id");
    note(&format!("begin {name} {id}"));
    tokio::time::sleep(Duration::from_millis(40)).await;
    note(&format!("end {name} {id} {}", results.len()));
    name
}

/// Notes its run with the id of its call.
#[delayed::task(name = "flows.identified", queue = "q")]
pub(crate) async fn identified(results: Vec<String>, name: String, ctx: Context) -> String {
    let id = ctx.id().expect("a step has an id");
    note(&format!("{name} {id} {}", results.len()));
    name
}

/// Fails until the file is there.
#[delayed::task(name = "flows.needs", queue = "q", backoff = none)]
pub(crate) async fn needs(file: PathBuf) -> Result<u64, String> {
    if file.exists() { Ok(7) } else { Err("no such file".into()) }
}

/// Fails in its first attempts.
#[delayed::task(name = "flows.flaky", queue = "q", retry = 3, backoff = fixed("20ms"))]
pub(crate) async fn flaky(n: u64, ctx: Context) -> Result<u64, TaskError> {
    if ctx.attempt() < 3 { Err(TaskError::retry("not yet")) } else { Ok(n) }
}

/// Notes `+n`, waits for the file, and notes `-n`.
#[delayed::task(name = "flows.gated", queue = "q", grace = "5s")]
pub(crate) async fn gated(n: String, gate: PathBuf, ctx: Context) -> Result<String, TaskError> {
    note(&format!("+{n}"));
    while !gate.exists() {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
            () = ctx.cancelled() => return Err(TaskError::retry("asked to end")),
        }
    }
    note(&format!("-{n}"));
    Ok(n)
}

/// Notes why a flow failed.
#[delayed::task(name = "flows.alert", queue = "q")]
pub(crate) async fn alert(failure: FlowFailure) {
    note(&format!("alert {} {} {}", failure.task, failure.state, failure.reason));
}

#[delayed::task(name = "flows.words_of", queue = "q")]
pub(crate) async fn words_of(of: (String, String)) -> String {
    format!("{} {}", of.0, of.1)
}

/// Notes its run, and takes its worker with it.
#[delayed::task(name = "flows.poison", queue = "q")]
pub(crate) async fn poison(name: String) {
    note(&name);
    std::process::abort()
}

/// Notes `+n`, and never ends, in a process of its own.
#[delayed::task(name = "flows.stuck_apart", queue = "q", isolation = "fork")]
pub(crate) fn stuck_apart(n: String) {
    note(&format!("+{n}"));
    loop {
        std::thread::park();
    }
}

/// Fails if the file is not there; then waits for the gate.
#[delayed::task(name = "flows.span", queue = "q", grace = "5s")]
pub(crate) async fn span(n: u64, file: PathBuf, gate: PathBuf, ctx: Context) -> Result<u64, TaskError> {
    note(&format!("+{n}"));
    if !file.exists() {
        return Err(TaskError::fatal("no such file"));
    }
    while !gate.exists() {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
            () = ctx.cancelled() => return Err(TaskError::retry("asked to end")),
        }
    }
    Ok(n)
}
