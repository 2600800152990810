//! Tasks whose time is up at some moment.

use std::path::Path;
use std::time::{Duration, Instant};

use delayed::{Context, TaskError};

use super::trials::note;

/// Notes when it is dropped.
struct Dropped(String);

impl Drop for Dropped {
    fn drop(&mut self) {
        note(&format!("dropped {}", self.0));
    }
}

/// Hangs, and cannot hear that it should end.
#[delayed::task(name = "timed.hangs", timeout = "50ms")]
async fn hangs(n: String) {
    note(&format!("+{n}"));
    let _dropped = Dropped(n);
    std::future::pending().await
}

/// Hears that it should end, and hangs on.
#[delayed::task(name = "timed.deaf", timeout = "50ms", grace = "20ms")]
async fn deaf(n: String, ctx: Context) {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    let _dropped = Dropped(n.clone());
    note(&format!("told {n}"));
    std::future::pending().await
}

/// Ends when it is told to, in one way or another.
#[delayed::task(name = "timed.obedient", timeout = "50ms", grace = "1h")]
async fn obedient(n: String, how: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("told {n} {}", ctx.deadline().is_some_and(|deadline| deadline <= Instant::now())));
    end(&how)
}

#[delayed::task(name = "timed.obedient_blocking", timeout = "50ms", grace = "1h")]
fn obedient_blocking(n: String, how: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("+{n}"));
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    note(&format!("told {n} {}", ctx.deadline().is_some_and(|deadline| deadline <= Instant::now())));
    end(&how)
}

fn end(how: &str) -> Result<(), TaskError> {
    match how {
        "succeed" => Ok(()),
        "fail" => Err(TaskError::retry("it was told to end")),
        "give up" => Err(TaskError::fatal("for good")),
        _ => panic!("it was told to end"),
    }
}

/// Runs until the file `gate` exists, whatever its timeout says.
#[delayed::task(name = "timed.gated_blocking", timeout = "20ms")]
fn gated_blocking(n: String, gate: String, how: String) -> Result<(), TaskError> {
    note(&format!("+{n}"));
    while !Path::new(&gate).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    note(&format!("-{n}"));
    end(&how)
}

/// Asynchronous, and comes to no `await` until the file `gate` exists.
#[delayed::task(name = "timed.starve", timeout = "20ms")]
async fn starve(n: String, gate: String) {
    note(&format!("+{n}"));
    while !Path::new(&gate).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    tokio::task::yield_now().await;
    note(&format!("-{n}"));
}

/// Is quick, but for once.
#[delayed::task(name = "timed.sometimes", timeout = "100ms")]
async fn sometimes(n: String, hangs: bool) {
    note(&n);
    if hangs {
        std::future::pending().await
    }
}

/// Notes how many seconds it has, rounded up.
#[delayed::task(name = "timed.left", timeout = "1000s")]
async fn left(n: String, ctx: Context) {
    note(&format!("{n} {}", seconds(&ctx)));
}

#[delayed::task(name = "timed.left_blocking", timeout = "1000s")]
fn left_blocking(n: String, ctx: Context) {
    note(&format!("{n} {}", seconds(&ctx)));
}

/// The same with no timeout of its own.
#[delayed::task(name = "timed.left_unsaid")]
async fn left_unsaid(n: String, ctx: Context) {
    note(&format!("{n} {}", seconds(&ctx)));
}

fn seconds(ctx: &Context) -> String {
    let Some(deadline) = ctx.deadline() else { return "without end".into() };
    // What has passed since it was claimed is no matter here.
    let tens = (deadline.saturating_duration_since(Instant::now()).as_secs_f64() / 10.0).ceil();
    format!("{}s", tens * 10.0)
}

/// Has a limit, and is not told where to run.
#[delayed::task(name = "timed.limited", memory = "1GB")]
async fn limited() {}
