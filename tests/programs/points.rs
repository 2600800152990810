//! Tasks for the points where a crash can fall. Each run leaves its number in the file that LEDGER names.
//!
//! Python's and Go's workers have tasks of the same names: they leave the number, and come to a good end.

use std::path::Path;
use std::time::Duration;

use delayed::{Context, TaskError};

use crate::trials::note;

/// The effect of a run, and the point in the middle of it.
fn effect(n: u16) {
    note(&n.to_string());
    delayed::__private::crash_point("run", "middle");
}

#[delayed::task(name = "points:note", retry = 1)]
pub(crate) fn plain(n: u16) {
    effect(n);
}

#[delayed::task(name = "points:note_async", retry = 1)]
async fn plain_async(n: u16) {
    effect(n);
}

#[delayed::task(name = "points:once")]
fn once(n: u16) {
    effect(n);
}

#[delayed::task(name = "points:once_async")]
async fn once_async(n: u16) {
    effect(n);
}

/// A batch of one item is full.
#[delayed::task(name = "points:collected", batch(max = 1, within = "1h"))]
pub(crate) fn collected(numbers: Vec<u16>) {
    numbers.into_iter().for_each(effect);
}

/// Each item but 0 fails in its first attempt.
#[delayed::task(name = "points:split", retry = 1, batch(max = 2, within = "1h"))]
fn split(numbers: Vec<u16>, ctx: Context) -> Vec<Result<(), String>> {
    let settle = |n: u16| {
        if n == 0 {
            return Ok(());
        }
        effect(n);
        if ctx.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
    };
    numbers.into_iter().map(settle).collect()
}

/// The same without another attempt.
#[delayed::task(name = "points:split_once", retry = 0, batch(max = 2, within = "1h"))]
fn split_once(numbers: Vec<u16>) -> Vec<Result<(), String>> {
    let settle = |n: u16| {
        if n == 0 {
            return Ok(());
        }
        effect(n);
        Err("no".into())
    };
    numbers.into_iter().map(settle).collect()
}

/// Fails in its first attempt.
#[delayed::task(name = "points:retried", retry = 1)]
fn retried(n: u16, ctx: Context) -> Result<(), String> {
    effect(n);
    if ctx.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
}

#[delayed::task(name = "points:failing")]
fn failing(n: u16) -> Result<(), TaskError> {
    effect(n);
    Err(TaskError::fatal("for good"))
}

/// Says how far it is, and goes on until its gate is open.
#[delayed::task(name = "points:says")]
async fn says(n: u16, ctx: Context) {
    effect(n);
    ctx.progress(0.5, "half of it");
    wait_for_gate(n).await;
}

/// Goes on until its gate is open: a file with its number as the name, in the directory GATES.
#[delayed::task(name = "points:held")]
async fn held(n: u16) {
    effect(n);
    wait_for_gate(n).await;
}

async fn wait_for_gate(n: u16) {
    let gates = std::env::var_os("GATES").expect("GATES names the directory of the gates");
    while !Path::new(&gates).join(n.to_string()).exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
