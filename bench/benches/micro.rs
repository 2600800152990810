//! What do the steps of one call cost, without Redis: encode, decode, look-up, dispatch?
//!
//! `cargo bench --manifest-path bench/Cargo.toml`; with `-- --save-baseline NAME` and `-- --baseline NAME` it compares.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use delayed::__private::Handler;
use delayed::__private::protocol::message::Message;
use delayed::__private::{Cancellation, Scope};
use delayed::QueueName;
use delayed::{Registry, States};

#[delayed::task(name = "nothing")]
async fn nothing() {}

#[delayed::task(name = "three")]
async fn three(number: i64, text: String, flag: bool) {
    black_box((number, text, flag));
}

#[delayed::task(name = "kilobyte")]
async fn kilobyte(data: Vec<u8>) {
    black_box(data);
}

/// Names a case, and makes its call.
type Case = (&'static str, fn() -> delayed::Call);

const CASES: [Case; 3] = [
    ("no arguments", || nothing::call()),
    ("(i64, String, bool)", || three::call(123_456, "hello".into(), true)),
    ("1 kB", || kilobyte::call(vec![7; 1000])),
];

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (name, call) in CASES {
        group.bench_function(name, |bencher| bencher.iter(|| call().encode().expect("encodes")));
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, call) in CASES {
        let bytes = call().encode().expect("encodes");
        group.bench_function(name, |bencher| {
            bencher.iter(|| Message::decode(black_box(&bytes)).expect("decodes").task().len());
        });
    }
}

fn look_up(criterion: &mut Criterion) {
    let registry = Registry::collect().expect("tasks");
    let mut group = criterion.benchmark_group("look-up");
    for name in ["three", "unknown"] {
        group.bench_function(name, |bencher| bencher.iter(|| registry.get(black_box(name)).is_some()));
    }
}

/// From the bytes that Redis sent to the end of the function.
fn dispatch(criterion: &mut Criterion) {
    let registry = Registry::collect().expect("tasks");
    let (states, cancellation, queue) = (States::new(), Cancellation::new(), QueueName::default());
    let mut group = criterion.benchmark_group("dispatch");
    for (name, call) in CASES {
        let bytes = call().encode().expect("encodes");
        group.bench_function(name, |bencher| {
            let mut context = Context::from_waker(Waker::noop());
            bencher.iter(|| {
                let message = Message::decode(black_box(&bytes)).expect("decodes");
                let task = registry.get(message.task()).expect("registered");
                let Handler::Async(function) = task.handler else { panic!("an async fn") };
                let scope = Scope::new(task.name, &queue, &states, &cancellation);
                let mut run = function(message.arguments(), &scope).expect("reads");
                assert!(matches!(run.as_mut().poll(&mut context), Poll::Ready(_)));
            });
        });
    }
}

criterion_group!(micro, encode, decode, look_up, dispatch);
criterion_main!(micro);
