//! Tasks that go on for too long.

use std::time::{Duration, Instant};

use delayed::Context;
use nix::sys::signal::{SigHandler, Signal, raise, signal};

use super::{hang, note, wait_at};

/// Makes this process deaf to a signal.
#[allow(unsafe_code, reason = "to ignore a signal runs no code of ours in its handler")]
pub(super) fn ignore(which: Signal) {
    // SAFETY: no handler is installed.
    unsafe { signal(which, SigHandler::SigIgn) }.expect("a signal can be ignored");
}

#[delayed::task(name = "isolation.sleep")]
async fn sleep(n: String) {
    note(&n);
    std::future::pending().await
}

#[delayed::task(name = "isolation.sleep_blocking")]
fn sleep_blocking(n: String) {
    note(&n);
    hang()
}

#[delayed::task(name = "isolation.spin")]
fn spin(n: String) {
    note(&n);
    loop {
        std::hint::spin_loop();
    }
}

/// Asynchronous, and never yields.
#[delayed::task(name = "isolation.spin_async")]
async fn spin_async(n: String) {
    note(&n);
    loop {
        std::hint::spin_loop();
    }
}

#[delayed::task(name = "isolation.deaf")]
fn deaf(n: String) {
    ignore(Signal::SIGTERM);
    note(&n);
    hang()
}

/// Stops itself as a debugger would.
#[delayed::task(name = "isolation.stopped")]
fn stopped(n: String) {
    note(&n);
    raise(Signal::SIGSTOP).expect("a process can stop itself");
    hang()
}

#[delayed::task(name = "isolation.stopped_and_deaf")]
fn stopped_and_deaf(n: String) {
    ignore(Signal::SIGTERM);
    note(&n);
    raise(Signal::SIGSTOP).expect("a process can stop itself");
    hang()
}

/// Hears that it should end, and does not.
#[delayed::task(name = "isolation.attempts", retry = 1)]
fn attempts(n: String, ctx: Context) {
    note(&format!("{n} {}", ctx.attempt()));
    hang()
}

#[delayed::task(name = "isolation.hangs_once", retry = 1)]
async fn hangs_once(n: String, ctx: Context) {
    note(&format!("{n} {}", ctx.attempt()));
    if ctx.attempt() == 1 {
        std::future::pending().await
    }
}

/// Ends when it should, without its effect.
#[delayed::task(name = "isolation.gives_up")]
async fn gives_up(n: String, ctx: Context) -> Result<(), String> {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("-{n}"));
    Err("it gave up".into())
}

/// Ends when it should, with its effect.
#[delayed::task(name = "isolation.in_time")]
async fn in_time(n: String, ctx: Context) {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("-{n}"));
}

#[delayed::task(name = "isolation.in_time_blocking")]
fn in_time_blocking(n: String, ctx: Context) {
    note(&format!("+{n}"));
    while !ctx.is_cancelled() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
    note(&format!("-{n}"));
}

/// Notes that it is dropped.
struct Guard(String);

impl Drop for Guard {
    fn drop(&mut self) {
        note(&format!("-{}", self.0));
    }
}

#[delayed::task(name = "isolation.guarded")]
async fn guarded(n: String) {
    note(&format!("+{n}"));
    let _guard = Guard(n);
    std::future::pending().await
}

/// Runs for a time that is not cut short by a wake-up.
fn last(ms: u64) {
    let end = Instant::now() + Duration::from_millis(ms);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

#[delayed::task(name = "isolation.lasts")]
fn lasts(n: String, ms: u64) {
    note(&format!("+{n}"));
    last(ms);
    note(&format!("-{n}"));
}

#[delayed::task(name = "isolation.short", timeout = "300ms", grace = "100ms")]
fn short(n: String, ms: u64) {
    note(&format!("+{n}"));
    last(ms);
    note(&format!("-{n}"));
}

#[delayed::task(name = "isolation.long", timeout = "1h")]
fn long(n: String, ms: u64) {
    note(&format!("+{n}"));
    last(ms);
    note(&format!("-{n}"));
}

#[delayed::task(name = "isolation.own_grace", timeout = "500ms", grace = "700ms")]
fn own_grace(n: String) {
    ignore(Signal::SIGTERM);
    note(&n);
    hang()
}

/// Its deadline may pass while it waits for the file.
#[delayed::task(name = "isolation.gated")]
fn gated(n: String, gate: String) {
    note(&format!("+{n}"));
    wait_at(&gate);
    note(&format!("-{n}"));
}

#[delayed::task(name = "isolation.gated_inline", isolation = "inline")]
fn gated_inline(n: String, gate: String) {
    gated(n, gate);
}
