//! Tasks of the trials: each run appends to the file that LEDGER names, one line in one write.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use delayed::{Client, Context, GoTask, State, TaskError};
use nix::time::{ClockId, clock_gettime};

/// Between two looks at a gate.
const LOOK: Duration = Duration::from_millis(2);

pub(super) fn note(text: &str) {
    static LEDGER: OnceLock<File> = OnceLock::new();
    let mut ledger = LEDGER.get_or_init(|| {
        let path = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
        OpenOptions::new().append(true).create(true).open(path).expect("the ledger can be opened")
    });
    ledger.write_all(format!("{text}\n").as_bytes()).expect("the ledger can be written");
}

/// Notes its run.
#[delayed::task(name = "trial.mark")]
async fn mark(n: String) {
    note(&n);
}

#[delayed::task(name = "trial.mark_blocking")]
fn mark_blocking(n: String) {
    note(&n);
}

/// Has as many retries as it needs here.
#[delayed::task(name = "trial.mark_or_retry", retry = 3)]
async fn mark_or_retry(n: String, fails: u32, ctx: Context) -> Result<(), String> {
    note(&format!("{n} {}", ctx.attempt()));
    if ctx.attempt() <= fails { Err("not yet".into()) } else { Ok(()) }
}

/// Notes when it begins, in milliseconds, and fails.
#[delayed::task(name = "trial.stamp_and_fail", retry = 3)]
async fn stamp_and_fail() -> Result<(), String> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock of the machine"));
    note(&now.as_millis().to_string());
    Err("not yet".into())
}

/// As `trial.mark_or_retry`, with the retries of the attribute, not of the message.
#[delayed::task(name = "trial.flaky", retry = 2)]
fn flaky(n: String, fails: u32, ctx: Context) -> Result<(), String> {
    note(&format!("{n} {}", ctx.attempt()));
    if ctx.attempt() <= fails { Err("not yet".into()) } else { Ok(()) }
}

/// Waits as its attribute says, whatever the worker does.
#[delayed::task(name = "trial.waits", max_attempts = 4, backoff = fixed("400ms"))]
async fn waits(n: String, fails: u32, ctx: Context) -> Result<(), String> {
    note(&format!("{n} {}", ctx.attempt()));
    if ctx.attempt() <= fails { Err(format!("not yet {}", ctx.attempt())) } else { Ok(()) }
}

/// Says itself when it is tried again.
#[delayed::task(name = "trial.comes_back", retry = 1)]
fn comes_back(n: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("{n} {}", ctx.attempt()));
    match ctx.attempt() {
        1 => Err(TaskError::retry_after(Duration::from_millis(400), "busy")),
        _ => Ok(()),
    }
}

/// Snoozes until the file is there.
#[delayed::task(name = "trial.snoozes")]
fn snoozes(n: String, file: std::path::PathBuf, ctx: Context) -> Result<(), TaskError> {
    note(&format!("{n} {}", ctx.attempt()));
    if file.exists() { Ok(()) } else { Err(TaskError::snooze(Duration::from_millis(100))) }
}

/// Fails for as long as it is retried.
#[delayed::task(name = "trial.gives_up", retry_for = "900ms", backoff = fixed("200ms"))]
async fn gives_up(n: String, ctx: Context) -> Result<(), String> {
    note(&format!("{n} {}", ctx.attempt()));
    Err("never".into())
}

/// Says nothing of retries.
#[delayed::task(name = "trial.fails")]
async fn fails(n: String, ctx: Context) -> Result<(), String> {
    note(&format!("{n} {}", ctx.attempt()));
    Err("never".into())
}

/// Two parameters of two types.
#[delayed::task(name = "trial.pair")]
async fn pair(number: i64, text: String) {
    note(&format!("{number} {text}"));
}

#[delayed::task(name = "trial.length")]
async fn length(data: Vec<u8>) {
    note(&data.len().to_string());
}

/// Runs for a while: `+n` at its start, `-n` at its end. With TIMES, behind `@`, when that was.
#[delayed::task(name = "trial.span")]
async fn span(n: String, ms: u64) {
    note(&format!("+{n}{}", moment()));
    tokio::time::sleep(Duration::from_millis(ms)).await;
    note(&format!("-{n}{}", moment()));
}

/// The same for each item of a batch. Each seventh fails in its first attempt, and leaves nothing then.
#[delayed::task(name = "trial.collect", retry = 3, backoff = fixed("50ms"), batch(max = 5, within = "300ms"))]
async fn collect(items: Vec<u64>, ctx: Context) -> Vec<Result<(), String>> {
    let fails = |n: &u64| n.is_multiple_of(7) && ctx.attempt() == 1;
    let done = || items.iter().filter(|n| !fails(n));
    done().for_each(|n| note(&format!("+{n}{}", moment())));
    tokio::time::sleep(Duration::from_millis(items.first().copied().unwrap_or_default() % 401)).await;
    done().for_each(|n| note(&format!("-{n}{}", moment())));
    items.iter().map(|n| if fails(n) { Err("not yet".into()) } else { Ok(()) }).collect()
}

/// Fails in its first attempt, snoozes until that moment, in milliseconds as below, and then leaves what `trial.span` does.
#[delayed::task(name = "trial.tried")]
async fn tried(n: String, until: u64, ctx: Context) -> Result<(), TaskError> {
    if ctx.attempt() == 1 {
        return Err(TaskError::retry("not yet"));
    }
    if now_ms() < until {
        return Err(TaskError::snooze(Duration::from_millis(50)));
    }
    note(&format!("+{n}{}", moment()));
    note(&format!("-{n}{}", moment()));
    Ok(())
}

/// Fails, and leaves nothing.
#[delayed::task(name = "trial.dies")]
async fn dies(n: String) -> Result<(), String> {
    Err(format!("{n} fails"))
}

/// As `trial.span`, with the first half of the id of its call as its number.
#[delayed::task(name = "trial.tick")]
async fn tick(ms: u64, ctx: Context) {
    let id = ctx.id().expect("the call of a tick has an id");
    let n = u64::from_be_bytes(*id.as_bytes().split_first_chunk().expect("it has 16 bytes").0);
    note(&format!("+{n}{}", moment()));
    tokio::time::sleep(Duration::from_millis(ms)).await;
    note(&format!("-{n}{}", moment()));
}

fn now_ms() -> u64 {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock of the machine"));
    now.as_millis() as u64
}

/// Milliseconds of the clock that is the same for all processes, whatever they take the time to be.
fn moment() -> String {
    if std::env::var_os("TIMES").is_none() {
        return String::new();
    }
    format!("@{}", now_ms())
}

#[delayed::task(name = "trial.span_blocking")]
fn span_blocking(n: String, ms: u64) {
    note(&format!("+{n}"));
    std::thread::park_timeout(Duration::from_millis(ms));
    note(&format!("-{n}"));
}

/// Runs until the file `gate` exists.
#[delayed::task(name = "trial.gated")]
async fn gated(n: String, gate: String) {
    note(&format!("+{n}"));
    while !Path::new(&gate).exists() {
        tokio::time::sleep(LOOK).await;
    }
    note(&format!("-{n}"));
}

/// The same with something to carry.
#[delayed::task(name = "trial.gated_carrier")]
async fn gated_carrier(n: String, gate: String, _data: String) {
    gated(n, gate).await;
}

#[delayed::task(name = "trial.gated_blocking")]
fn gated_blocking(n: String, gate: String) {
    note(&format!("+{n}"));
    while !Path::new(&gate).exists() {
        std::thread::park_timeout(LOOK);
    }
    note(&format!("-{n}"));
}

/// Fails when its gate opens.
#[delayed::task(name = "trial.gated_failing", retry = 3)]
fn gated_failing(n: String, gate: String) -> Result<(), String> {
    gated_blocking(n, gate);
    Err("it fails in the end".into())
}

/// Asynchronous, and blocks its thread all the same.
#[delayed::task(name = "trial.starve")]
async fn starve(n: String, gate: String) {
    note(&format!("+{n}"));
    while !Path::new(&gate).exists() {
        std::thread::park_timeout(LOOK);
    }
    note(&format!("-{n}"));
}

#[delayed::task(name = "trial.never")]
async fn never(n: String) {
    note(&n);
    std::future::pending().await
}

#[delayed::task(name = "trial.never_blocking")]
fn never_blocking(n: String) {
    note(&n);
    loop {
        std::thread::park();
    }
}

#[delayed::task(name = "trial.panic")]
async fn panic(n: String) {
    note(&n);
    panic!("there is no {n}");
}

#[delayed::task(name = "trial.panic_blocking")]
fn panic_blocking(n: String) {
    note(&n);
    panic!("there is no {n}");
}

/// Panics when it is dropped, and then again.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            std::panic::panic_any(Bomb(left));
        }
    }
}

#[delayed::task(name = "trial.bomb")]
async fn bomb(n: String) {
    note(&n);
    std::panic::panic_any(Bomb(3));
}

#[delayed::task(name = "trial.bomb_blocking")]
fn bomb_blocking(n: String) {
    note(&n);
    std::panic::panic_any(Bomb(3));
}

/// Cannot be shown.
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("it cannot be shown")
    }
}

/// Panics while its panic message is made: that ends the process.
#[delayed::task(name = "trial.double_panic")]
async fn double_panic(n: String) {
    note(&n);
    panic!("{Unspeakable}");
}

/// Returns an error that panics when it is shown: that is a panic of the task.
#[delayed::task(name = "trial.unspeakable")]
async fn unspeakable(n: String) -> Result<(), Unspeakable> {
    note(&n);
    Err(Unspeakable)
}

/// An error that is `Display` and nothing else.
struct OnlyShown;

impl std::fmt::Display for OnlyShown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("only shown")
    }
}

#[delayed::task(name = "trial.shown")]
async fn shown(n: String) -> Result<(), OnlyShown> {
    note(&n);
    Err(OnlyShown)
}

#[delayed::task(name = "trial.fatal", retry = 5)]
async fn fatal(n: String) -> Result<(), TaskError> {
    note(&n);
    Err(TaskError::fatal("for good"))
}

#[delayed::task(name = "trial.injected")]
async fn injected(n: String, ctx: Context, greeting: State<super::Greeting>) {
    let id = ctx.id().map_or_else(|| "none".into(), |id| id.to_string());
    note(&format!("{n} {} {} {} {id} {}", ctx.task(), ctx.queue(), ctx.attempt(), greeting.0));
}

/// Ends when it is told to, and says so.
#[delayed::task(name = "trial.obedient")]
async fn obedient(n: String, ctx: Context) -> Result<(), String> {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("-{n} {}", ctx.deadline().is_some()));
    Err("it was told to end".into())
}

/// The same, on a thread of its own.
#[delayed::task(name = "trial.obedient_blocking", retry = 3)]
fn obedient_blocking(n: String, ctx: Context) -> Result<(), String> {
    note(&format!("+{n}"));
    while !ctx.is_cancelled() {
        std::thread::park_timeout(LOOK);
    }
    note(&format!("-{n}"));
    Err("it was told to end".into())
}

/// Is told to end, and does not.
#[delayed::task(name = "trial.deaf", grace = "50ms")]
async fn deaf(n: String, ctx: Context) {
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("-{n}"));
    std::future::pending().await
}

/// Enqueues `count` marks from a thread that blocks.
#[delayed::task(name = "trial.spread")]
fn spread(n: String, url: String, queue: String, count: u32) -> Result<(), TaskError> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let client = match CLIENT.get() {
        Some(client) => client,
        None => {
            let client = Client::connect_blocking(&url)?;
            CLIENT.get_or_init(|| client)
        }
    };
    for i in 0..count {
        client.enqueue_blocking(GoTask::new("trial.mark").arg(format!("{n}/{i}")).queue(queue.as_str()))?;
    }
    Ok(())
}

fn of_run(ctx: &Context, n: &str, i: u32) -> delayed::Call {
    GoTask::new("trial.mark").arg(format!("{n}/{i}")).queue(ctx.queue())
}

/// Enqueues `count` marks by the client of its context.
#[delayed::task(name = "trial.fan")]
async fn fan(n: String, count: u32, ctx: Context) -> Result<(), delayed::Error> {
    for i in 0..count {
        ctx.client().enqueue(of_run(&ctx, &n, i)).await?;
    }
    Ok(())
}

/// The same from a thread that blocks.
#[delayed::task(name = "trial.fan_blocking")]
fn fan_blocking(n: String, count: u32, ctx: Context) -> Result<(), delayed::Error> {
    (0..count).try_for_each(|i| ctx.client().enqueue_blocking(of_run(&ctx, &n, i)).map(drop))
}

/// The same in a process of its own.
#[delayed::task(name = "trial.fan_forked", isolation = "fork")]
fn fan_forked(n: String, count: u32, ctx: Context) -> Result<(), delayed::Error> {
    fan_blocking(n, count, ctx)
}

/// A state that connects when it is made, to the Redis that STATE_REDIS names.
pub(super) struct OwnClient(Client);

impl OwnClient {
    pub(super) fn connect() -> Self {
        let url = std::env::var("STATE_REDIS").expect("STATE_REDIS says where Redis is");
        // It may use the runtime of its process too.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.block_on(tokio::time::sleep(Duration::from_millis(1)));
        }
        Self(Client::connect_blocking(&url).expect("it connects"))
    }
}

/// Enqueues one mark by a client that is a state.
#[delayed::task(name = "trial.by_state")]
async fn by_state(n: String, client: State<OwnClient>, ctx: Context) -> Result<(), delayed::Error> {
    client.0.enqueue(of_run(&ctx, &n, 0)).await.map(drop)
}

#[delayed::task(name = "trial.by_state_blocking")]
fn by_state_blocking(n: String, client: State<OwnClient>, ctx: Context) -> Result<(), delayed::Error> {
    client.0.enqueue_blocking(of_run(&ctx, &n, 0)).map(drop)
}
