//! Tasks that tell how they are kept.

use delayed::{Context, State};
use serde_json::json;

use super::{note, wait_at};

/// Which process this is.
fn who(n: &str) -> serde_json::Value {
    let group = nix::unistd::getpgrp().as_raw();
    let parent = nix::unistd::getppid().as_raw();
    json!({ "n": n, "pid": std::process::id(), "group": group, "parent": parent })
}

#[delayed::task(name = "isolation.who", timeout = "1m")]
async fn tell(n: String) {
    note(&who(&n).to_string());
}

#[delayed::task(name = "isolation.who_blocking")]
fn tell_blocking(n: String) {
    note(&who(&n).to_string());
}

/// Enqueues a call, and says who did.
#[delayed::task(name = "isolation.who_enqueues")]
async fn tell_and_enqueue(n: String, ctx: delayed::Context) -> Result<(), delayed::Error> {
    ctx.client().enqueue(delayed::GoTask::new("nobody.knows").arg(&n).queue("other")).await?;
    note(&who(&n).to_string());
    Ok(())
}

#[delayed::task(name = "isolation.who_enqueues_blocking")]
fn tell_and_enqueue_blocking(n: String, ctx: delayed::Context) -> Result<(), delayed::Error> {
    ctx.client().enqueue_blocking(delayed::GoTask::new("nobody.knows").arg(&n).queue("other"))?;
    note(&who(&n).to_string());
    Ok(())
}

#[delayed::task(name = "isolation.who_inline", isolation = "inline")]
fn tell_inline(n: String) {
    note(&who(&n).to_string());
}

#[delayed::task(name = "isolation.who_fork", isolation = "fork")]
fn tell_fork(n: String) {
    note(&who(&n).to_string());
}

#[delayed::task(name = "isolation.who_prefork", isolation = "prefork")]
async fn tell_prefork(n: String) {
    note(&who(&n).to_string());
}

/// What it has open, from 3 on: number and what stands behind it.
fn open() -> Vec<(u32, String)> {
    let numbers: Vec<u32> = std::fs::read_dir("/proc/self/fd")
        .expect("a process can see its descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let named = |fd| Some((fd, std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?));
    let named = numbers.into_iter().filter_map(named);
    named.map(|(fd, name)| (fd, name.to_string_lossy().into_owned())).collect()
}

fn signals() -> serde_json::Value {
    let text = std::fs::read_to_string("/proc/self/status").expect("a process can see itself");
    let mask = |name: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        u64::from_str_radix(mask.expect("it has masks").trim(), 16).expect("a mask is a number")
    };
    json!({ "ignored": mask("SigIgn"), "blocked": mask("SigBlk"), "caught": mask("SigCgt") })
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("a process can see its threads").count()
}

/// Tells what it has, and waits for the file `gate`.
#[delayed::task(name = "isolation.belongings")]
fn belongings(n: String, gate: String) {
    let mut told = who(&n);
    told["open"] = json!(open());
    told["signals"] = signals();
    told["threads"] = json!(threads());
    note(&told.to_string());
    wait_at(&gate);
}

#[delayed::task(name = "isolation.belongings_async")]
async fn belongings_async(n: String, gate: String) {
    let mut told = who(&n);
    told["open"] = json!(open());
    told["signals"] = signals();
    told["threads"] = json!(threads());
    note(&told.to_string());
    while !std::path::Path::new(&gate).exists() {
        tokio::time::sleep(super::LOOK).await;
    }
}

/// Says it in its log.
#[delayed::task(name = "isolation.events")]
async fn events(n: String) {
    tracing::info!(answer = 42, n, "said in a child");
    tracing::warn!("a warning of a child");
    note(&n);
}

/// The same of a function that blocks.
#[delayed::task(name = "isolation.events_blocking")]
fn events_blocking(n: String) {
    tracing::info!(answer = 42, n, "said in a child");
    tracing::warn!("a warning of a child");
    note(&n);
}

#[delayed::task(name = "isolation.length")]
async fn length(data: Vec<u8>) {
    note(&format!("{} {}", data.len(), data.iter().map(|byte| u64::from(*byte)).sum::<u64>()));
}

#[delayed::task(name = "isolation.length_blocking")]
fn length_blocking(data: Vec<u8>) {
    note(&format!("{} {}", data.len(), data.iter().map(|byte| u64::from(*byte)).sum::<u64>()));
}

/// All that a run may be given beside its arguments.
#[delayed::task(name = "isolation.given")]
fn given(n: String, ctx: Context, greeting: State<crate::Greeting>) {
    let id = ctx.id().map_or_else(|| "none".into(), |id| id.to_string());
    note(&format!("{n} {} {} {} {id} {}", ctx.task(), ctx.queue(), ctx.attempt(), greeting.0));
}

/// Counts aloud.
#[delayed::task(name = "isolation.counts")]
#[expect(clippy::print_stdout, reason = "tests read it")]
fn counts(n: String, lines: u32) {
    for line in 0..lines {
        println!("counted {line} by {n}");
    }
}

#[delayed::task(name = "isolation.numbered")]
async fn numbered(n: String, ctx: Context) {
    note(&format!("{n} {}", ctx.attempt()));
}
