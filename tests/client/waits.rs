//! No operation takes longer than its time, whatever Redis does, and each goes on as soon as Redis does.

use std::process::Command;
use std::time::{Duration, Instant};

use delayed::testing::Mode;
use delayed::{BrokerErrorKind, Client, Inspector};

use super::{marking, settings};
use crate::support::process::DELAYED;
use crate::support::redis::Options;
use crate::support::trial::{Trial, marks};
use crate::support::wait;

/// What an operation may take beyond its time on a machine that is busy.
const SLACK: Duration = Duration::from_millis(1500);

/// How long `work` takes; it is to fail.
#[track_caller]
fn failing<T: std::fmt::Debug>(
    timeout: Duration,
    work: impl FnOnce() -> Result<T, delayed::Error>,
) -> delayed::Error {
    let began = Instant::now();
    let error = work().unwrap_err();
    let took = began.elapsed();
    assert!(took < timeout + SLACK, "expected it within {timeout:?}, it took {took:?}: {error}");
    error
}

#[test]
fn each_call_fails_in_time_while_redis_is_down() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let mut trial = Trial::new();
    let client = Client::with_config_blocking(&settings(&trial.server.url(), 500)).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    trial.server.kill();
    for n in 1..4 {
        let error = failing(TIMEOUT, || client.enqueue_blocking(marking(n)));
        assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Unreachable), "{error}");
        assert!(!error.may_have_been_applied() && error.is_retryable(), "{error}");
    }
    let error = client.enqueue_many_blocking((0..3).map(marking)).unwrap_err();
    assert_eq!((error.applied(), error.uncertain()), (0, 0), "{error}");
}

/// What was sent to a silent Redis may have been applied; what waited behind it was not.
#[test]
fn each_call_fails_in_time_while_redis_is_silent() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    const CALLS: usize = 3000;
    let trial = Trial::new();
    let proxy = trial.server.proxy();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::with_config(&settings(proxy.url(), 500)).await.unwrap();
        client.enqueue(marking(0)).await.unwrap();
        proxy.set(Mode::Hold);
        let began = Instant::now();
        let calls = (0..CALLS).map(|n| client.enqueue(marking(n)));
        let errors: Vec<_> =
            futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap_err).collect();
        let took = began.elapsed();
        assert!(took < TIMEOUT + SLACK, "it took {took:?}");
        let in_doubt = errors.iter().filter(|error| error.may_have_been_applied()).count();
        // Two requests of a single call.
        assert!((1..=2).contains(&in_doubt), "expected the rest to be certain: {in_doubt} are in doubt");
    });
}

#[test]
fn connecting_and_reading_fail_in_time() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let trial = Trial::new();
    let proxy = trial.server.proxy();
    let config = settings(proxy.url(), 500);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let inspector = runtime.block_on(Inspector::with_config(&config)).unwrap();
    proxy.set(Mode::Hold);
    failing(TIMEOUT, || runtime.block_on(inspector.queues()));
    // Its connection is made anew, which takes for ever.
    failing(TIMEOUT, || runtime.block_on(inspector.queues()));
    failing(TIMEOUT, || runtime.block_on(Inspector::with_config(&config)));
    failing(TIMEOUT, || Client::with_config_blocking(&config));
    failing(TIMEOUT, || Client::lazy_with_config(&config).enqueue_blocking(marking(0)));
    for words in [&["queues"][..], &["enqueue", "a", "--as", "rust"], &["doctor"]] {
        let began = Instant::now();
        let mut command = Command::new(DELAYED);
        command.args(words).args(["--redis", proxy.url()]).env("DELAYED_REDIS_TIMEOUT", "500ms");
        let output = command.current_dir("/").output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words:?}: {output:?}");
        assert!(began.elapsed() < TIMEOUT + SLACK, "{words:?} took {:?}", began.elapsed());
    }
}

/// Many calls that wait for a Redis that comes back are enqueued as soon as it does, and until then take little memory.
#[test]
fn calls_that_wait_go_on_when_redis_is_back() {
    const CALLS: usize = 20_000;
    let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
    let mut config = settings(&trial.server.url(), 500);
    config.client.patience = Some(Duration::from_secs(60));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(Client::with_config(&config)).unwrap();
    runtime.block_on(client.enqueue(marking("first"))).unwrap();
    trial.server.kill();
    let before = resident();
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            let client = client.clone();
            runtime.spawn(async move { client.enqueue(marking(n)).await })
        })
        .collect();
    // Longer than the longest pause.
    wait::pause(Duration::from_millis(1000));
    let each = resident().saturating_sub(before) / CALLS as u64;
    println!("each call that waits takes {each} bytes");
    assert!(each < 3000, "expected a call that waits to take little: {each} bytes");
    assert!(calls.iter().all(|call| !call.is_finished()), "expected all to wait");
    trial.server.restart();
    let began = Instant::now();
    runtime.block_on(async {
        for call in calls {
            call.await.unwrap().unwrap();
        }
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "expected them to go on at once, it took {took:?}");
    trial.redis = trial.server.connection();
    assert_eq!(trial.state().waiting.len(), CALLS + 1);
}

/// The memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Without a setting a call waits as long as `redis.timeout`: enough for a short restart.
#[test]
fn call_waits_for_a_redis_that_restarts() {
    let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(marking(0)).unwrap();
    trial.server.kill();
    let waiting = std::thread::spawn({
        let client = client.clone();
        move || client.enqueue_blocking(marking(1))
    });
    wait::pause(Duration::from_millis(700));
    trial.server.restart();
    let began = Instant::now();
    waiting.join().unwrap().unwrap();
    assert!(began.elapsed() < SLACK, "it went on after {:?}", began.elapsed());
    trial.redis = trial.server.connection();
    assert_eq!(trial.state().waiting, marks(2));
}
