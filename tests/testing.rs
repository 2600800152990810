//! `delayed::testing`, as the tests of a program use it: a private Redis, what is enqueued there, and what becomes of it.
//!
//! A program of its own, as those of users are: the tasks of all modules are in one registry.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests die and print")]

#[path = "testing/assertions.rs"]
mod assertions;
#[path = "testing/drain.rs"]
mod drain;
#[path = "testing/inline.rs"]
mod inline;
#[path = "testing/server.rs"]
mod server;
mod support;

/// What the program under test shares with its tasks.
struct Outbox(std::sync::Mutex<Vec<String>>);

impl Outbox {
    fn empty() -> Self {
        Self(std::sync::Mutex::default())
    }
}

/// The tasks of the program under test.
mod shop {
    use std::time::Duration;

    use delayed::{Context, State, TaskError};

    use super::Outbox;

    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    pub(super) struct Item {
        pub(super) name: String,
        pub(super) count: u32,
    }

    #[delayed::task(name = "shop.send", queue = "mail")]
    pub(super) async fn send(to: String, text: Option<String>) {
        drop((to, text));
    }

    #[delayed::task(name = "shop.pack")]
    pub(super) fn pack(items: Vec<Item>, price: f64, #[task(variadic)] notes: Vec<String>) {
        drop((items, price, notes));
    }

    #[delayed::task(name = "shop.note")]
    pub(super) async fn note(line: String, outbox: State<Outbox>) {
        outbox.0.lock().unwrap().push(line);
    }

    /// Enqueues a note and a mail.
    #[delayed::task(name = "shop.order")]
    pub(super) async fn order(number: u64, ctx: Context) -> Result<(), delayed::Error> {
        let client = ctx.client();
        client.enqueue(note::call(format!("order {number}"))).await?;
        client.enqueue(send::call("ann@example.org".into(), None)).await.map(drop)
    }

    /// Ends as it is told.
    #[delayed::task(name = "shop.end", retry = 1, backoff = fixed("1m"), grace = "1ms")]
    pub(super) async fn end(how: String, ctx: Context) -> Result<(), TaskError> {
        match how.as_str() {
            "well" => Ok(()),
            "fails" => Err(TaskError::retry(format!("attempt {} failed", ctx.attempt()))),
            "named" => Err(TaskError::retry_after(Duration::from_secs(90), "busy")),
            "fatal" => Err(TaskError::fatal("no such card")),
            "snoozes" => Err(TaskError::snooze(Duration::from_secs(3600))),
            "panics" => panic!("out of paper"),
            "hangs" => std::future::pending().await,
            how => unreachable!("{how}"),
        }
    }

    #[delayed::task(name = "shop.index", batch(max = 3, within = "1h"))]
    pub(super) async fn index(pages: Vec<String>) -> Vec<Result<(), String>> {
        pages.iter().map(|page| if page == "bad" { Err("no page".into()) } else { Ok(()) }).collect()
    }

    #[delayed::task(name = "shop.at_once", retry = 2, backoff = none)]
    pub(super) fn at_once(ctx: Context) -> Result<(), String> {
        if ctx.attempt() < 3 { Err(format!("not in attempt {}", ctx.attempt())) } else { Ok(()) }
    }

    /// Would be in a process of its own.
    #[delayed::task(name = "shop.isolated", isolation = "fork", memory = "1GB")]
    pub(super) fn isolated(pid: u32) -> Result<(), String> {
        if std::process::id() == pid { Ok(()) } else { Err("in another process".into()) }
    }
}
