//! The worker of the tests: tasks that succeed, fail, panic, sleep and take their process down.

#[allow(dead_code, reason = "the tests call them")]
mod batches;
#[expect(clippy::print_stderr, reason = "tests read it")]
mod embedder;
mod exits;
#[allow(dead_code, reason = "the tests call them")]
mod flows;
mod followed;
mod interop;
mod isolation;
mod layers;
mod limited;
mod periodic;
mod points;
#[expect(clippy::print_stderr, reason = "tests read it")]
mod producer;
#[cfg(feature = "otel")]
#[expect(clippy::print_stdout, reason = "tests read it")]
mod spans;
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "how that fails is what is tried")]
mod streams;
#[expect(clippy::print_stdout, reason = "tests read it")]
mod tester;
#[expect(clippy::print_stdout, reason = "what is printed is shortened")]
mod texts;
mod timed;
mod trials;
mod typed;

#[expect(clippy::print_stdout, reason = "tests read it")]
mod tasks {
    use std::io::Write;
    use std::time::Duration;

    /// Adds two numbers.
    ///
    /// Whoever calls it does not hear the sum.
    #[delayed::task(retry = 2)]
    pub(super) async fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Appends a line with `n` to the file that RECORD_FILE names, in one write.
    #[delayed::task]
    pub(super) fn record(n: i64) -> std::io::Result<()> {
        let name = std::env::var_os("RECORD_FILE").expect("RECORD_FILE names the record");
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(name)?;
        file.write_all(format!("{n}\n").as_bytes())
    }

    /// Fails each time.
    #[delayed::task]
    pub(super) async fn fail(reason: Option<String>) -> Result<(), String> {
        Err(reason.unwrap_or_else(|| "it fails each time".into()))
    }

    #[delayed::task]
    pub(super) async fn panic() {
        panic!("it panics each time");
    }

    #[delayed::task]
    pub(super) async fn sleep(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    #[delayed::task]
    pub(super) fn sleep_blocking(ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    /// Takes the process down.
    #[delayed::task]
    pub(super) fn abort() {
        std::process::abort();
    }

    #[delayed::task]
    pub(super) async fn never_ends() {
        std::future::pending().await
    }

    #[delayed::task]
    pub(super) fn never_ends_blocking() {
        loop {
            std::thread::park();
        }
    }

    /// Into a queue of its own.
    #[delayed::task(queue = "reports", name = "report.greet")]
    pub(super) fn greet(name: String, greeting: delayed::State<super::Greeting>, #[task(default)] times: u8) {
        for _ in 0..=times {
            println!("{}, {name}!", greeting.0);
        }
    }
}

/// What the program shares with its tasks.
struct Greeting(&'static str);

fn main() -> std::process::ExitCode {
    isolation::draw_early();
    if let Ok(kind) = std::env::var("EMBEDDER") {
        return embedder::main(&kind);
    }
    if let Ok(kind) = std::env::var("PRODUCER") {
        return producer::main(&kind);
    }
    if let Ok(kind) = std::env::var("TESTER") {
        return tester::main(&kind);
    }
    worker()
}

fn worker() -> std::process::ExitCode {
    layers::surround(delayed::App::new())
        .version("7.8.9")
        .state(Greeting("Hello"))
        .state(isolation::Files::default())
        .state_with(trials::OwnClient::connect)
        .main()
}
