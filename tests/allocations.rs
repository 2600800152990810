//! How often does a call ask for memory? What is written down in `docs/performance.md` is held here.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests die and print")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use delayed::__private::Handler;
use delayed::__private::protocol::message::Message;
use delayed::__private::{Cancellation, Scope};
use delayed::QueueName;
use delayed::config::Prefetch;
use delayed::{Call, Client, Worker};
use delayed::{Registry, States};
use support::redis::TestRedis;
use tokio::task::Id;

struct Counting;

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread is one of the worker's: other tests run beside it.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}
static OF_WORKER: AtomicU64 = AtomicU64::new(0);

fn note() {
    // Not of a thread that ends.
    let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
    if IS_WORKER.try_with(Cell::get) == Ok(true) {
        OF_WORKER.fetch_add(1, Relaxed);
    }
}

// SAFETY: the system's, with a count beside it that asks for no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as for the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as for the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[delayed::task(name = "numbers")]
fn numbers(one: i64, two: bool) {
    black_box((one, two));
}

#[delayed::task(name = "numbers_async")]
async fn numbers_async(one: i64, two: bool) {
    black_box((one, two));
}

#[delayed::task(name = "text")]
async fn text(one: i64, text: String) {
    black_box((one, text));
}

#[test]
fn call_allocates_its_boxed_future_and_its_arguments_alone() {
    let registry = Registry::collect().unwrap();
    let (states, cancellation, queue) = (States::new(), Cancellation::new(), QueueName::default());
    let run = |bytes: &[u8]| {
        let message = Message::decode(black_box(bytes)).unwrap();
        let task = registry.get(message.task()).expect("it is registered");
        let scope = Scope::new(task.name, &queue, &states, &cancellation);
        match task.handler {
            Handler::Blocking(function) => assert!(function(message.arguments(), &scope).unwrap().is_ok()),
            Handler::Async(function) => {
                let mut run = function(message.arguments(), &scope).unwrap();
                let mut context = Context::from_waker(Waker::noop());
                assert!(matches!(run.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
            }
        }
    };
    let cases: [(&str, Call, u64); 3] = [
        ("a plain fn", numbers::call(7, true), 0),
        ("an async fn", numbers_async::call(7, true), 1),
        ("an async fn with a String", text::call(7, "hello".into()), 2),
    ];
    for (name, call, expected) in cases {
        let bytes = call.encode().unwrap();
        run(&bytes);
        let before = OF_THREAD.get();
        run(&bytes);
        assert_eq!(OF_THREAD.get() - before, expected, "allocations of {name}");
    }
}

#[test]
fn plain_call_allocates_its_payload_and_its_message_alone() {
    drop(numbers::call(7, true)); // makes the default queue
    let before = OF_THREAD.get();
    let call = black_box(numbers::call(7, true));
    assert_eq!(OF_THREAD.get() - before, 1, "allocations of the call");
    drop(black_box(call.encode().unwrap()));
    assert_eq!(OF_THREAD.get() - before, 2, "allocations of the call and its message");
}

const WARM: u64 = 5_000;
const MEASURED: u64 = 20_000;
static RUNS: AtomicU64 = AtomicU64::new(0);
/// Calls that were not polled by the same task of the runtime as the one before: what is polled in place has the
/// worker's, what is spawned one of its own.
static SPAWNED: AtomicU64 = AtomicU64::new(0);
static LAST_ID: Mutex<Option<Id>> = Mutex::new(None);
static WARM_AT: AtomicU64 = AtomicU64::new(0);
static ENDED_AT: AtomicU64 = AtomicU64::new(0);

#[delayed::task(name = "drained", queue = "q")]
async fn drained(number: u64) {
    black_box(number);
    let id = tokio::task::try_id();
    if std::mem::replace(&mut *LAST_ID.lock().unwrap(), id) != id {
        SPAWNED.fetch_add(1, Relaxed);
    }
    match RUNS.fetch_add(1, Relaxed) + 1 {
        WARM => WARM_AT.store(OF_WORKER.load(Relaxed), Relaxed),
        runs if runs == WARM + MEASURED => ENDED_AT.store(OF_WORKER.load(Relaxed), Relaxed),
        _ => {}
    }
}

/// A call asks for its boxed future, and for nothing else where many short messages come in one piece; where few come, each
/// asks for its bytes as Redis sent them. What else there is depends on how fast the machine is: how many calls share a
/// request, how many are spawned, and what was claimed in vain since it had to wait and was put back. So that is counted,
/// too.
#[test]
fn draining_worker_allocates_little_beside_each_calls_future() {
    const OF_CALL: f64 = 1.05;
    const OF_FEW: f64 = 1.0;
    const OF_RETURN: f64 = 1.1;
    const OF_SPAWN: f64 = 3.0;
    const OF_REQUEST: f64 = 24.0;

    IS_WORKER.set(true);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().on_thread_start(|| IS_WORKER.set(true)).build().unwrap();
    let (auto, none) = (Prefetch::Auto, Prefetch::Fixed(0));
    for (concurrency, prefetch) in [(10, auto), (64, auto), (10, none), (64, none)] {
        let server = TestRedis::start();
        RUNS.store(0, Relaxed);
        SPAWNED.store(0, Relaxed);
        let claimed = runtime.block_on(async {
            let client = Client::connect(&server.url()).await.unwrap();
            client.enqueue_many((0..WARM + MEASURED).map(drained::call)).await.unwrap();
            let worker = Worker::builder(&server.url()).queue("q").concurrency(concurrency);
            let worker = worker.prefetch(prefetch).burst(true).connect().await.unwrap();
            let handle = worker.handle();
            worker.run().await.unwrap();
            handle.stats().claimed
        });
        assert_eq!(RUNS.load(Relaxed), WARM + MEASURED);
        let (requests, spawned) = (scripts_run(&server), SPAWNED.load(Relaxed));
        let returned = claimed - WARM - MEASURED;
        let asked = ENDED_AT.load(Relaxed) - WARM_AT.load(Relaxed);
        let told = format!(
            "{concurrency} at a time, {prefetch} ahead: {:.2} allocations for each call; {requests} requests, \
             {spawned} spawned, {returned} put back",
            asked as f64 / MEASURED as f64
        );
        println!("{told}");
        let few = if concurrency < 16 && prefetch == none { MEASURED } else { 0 };
        let most = [
            (OF_CALL, MEASURED),
            (OF_FEW, few),
            (OF_RETURN, returned),
            (OF_SPAWN, spawned),
            (OF_REQUEST, requests),
        ];
        let most: f64 = most.into_iter().map(|(each, times)| each * times as f64).sum();
        assert!(
            asked as f64 <= most,
            "{told}: at most {most} allocations were expected, and there were {asked}"
        );
    }
}

/// How many scripts Redis has run.
fn scripts_run(server: &TestRedis) -> u64 {
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let text: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).unwrap();
    let of_script = text.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    of_script.map(|line| line.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}
