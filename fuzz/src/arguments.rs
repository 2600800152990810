//! A task's handler reads any bytes as its arguments without a panic, and a call with the values that it read is read
//! as the same values.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use delayed::__private::protocol::encode::go_task;
use delayed::__private::protocol::message::Message;
use delayed::__private::{Cancellation, Handler, Registration, Scope};
use delayed::QueueName;
use delayed::{Call, Timestamp};
use delayed::{States, Task};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    id: u64,
    name: String,
    tags: Vec<String>,
    note: Option<String>,
    #[serde(default)]
    parts: Vec<Order>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Shape {
    Empty,
    Circle(f64),
    Line(i8, u16),
    Named { name: String, inner: Option<Box<Shape>> },
}

pub(crate) mod tasks {
    use super::*;

    #[delayed::task]
    pub(crate) async fn nothing() {
        saw(&(), nothing::call());
    }

    #[delayed::task]
    pub(crate) async fn number(a: i64) {
        saw(&a, number::call(a));
    }

    #[delayed::task]
    pub(crate) async fn list(a: Vec<Vec<i32>>) {
        saw(&a, list::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn bytes(a: Vec<u8>) {
        saw(&a, bytes::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn maybe(a: Option<Vec<String>>) {
        saw(&a, maybe::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn json(a: serde_json::Value) {
        saw(&a, json::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn several(a: i64, b: String, c: Vec<u16>, d: Option<f64>, e: BTreeMap<String, i32>) {
        saw(&(a, &b, &c, d, &e), several::call(a, b.clone(), c.clone(), d, e.clone()));
    }

    #[delayed::task]
    pub(crate) async fn defaults(a: String, #[task(default)] b: Vec<i64>, #[task(default = 7)] c: u8) {
        saw(&(&a, &b, c), defaults::call(a.clone(), b.clone(), c));
    }

    #[delayed::task]
    pub(crate) async fn composed(a: Order, b: Shape, c: (f32, char, bool)) {
        let text = format!("{:?}", (&a, &b, c));
        saw(&text, composed::call(a, b, c));
    }

    #[delayed::task]
    pub(crate) async fn moments(a: Timestamp, b: Option<SystemTime>) {
        saw(&(a, b), moments::call(a, b));
    }

    #[delayed::task]
    pub(crate) async fn all(#[task(variadic)] a: Vec<String>) {
        saw(&a, all::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn rest(a: u32, #[task(variadic)] b: Vec<i64>) {
        saw(&(a, &b), rest::call(a, b.clone()));
    }

    #[delayed::task]
    pub(crate) async fn anything(#[task(variadic)] a: Vec<serde_json::Value>) {
        saw(&a, anything::call(a.clone()));
    }

    #[delayed::task]
    pub(crate) async fn anything_more(a: String, #[task(variadic)] b: Vec<serde_json::Value>) {
        saw(&(&a, &b), anything_more::call(a.clone(), b.clone()));
    }

    #[delayed::task]
    pub(crate) async fn lists(a: u32, #[task(variadic)] b: Vec<Vec<i64>>) {
        saw(&(a, &b), lists::call(a, b.clone()));
    }
}

/// The tasks that are tried.
pub fn all_tasks() -> [&'static Registration; 15] {
    [
        tasks::nothing::registration(),
        tasks::number::registration(),
        tasks::list::registration(),
        tasks::bytes::registration(),
        tasks::maybe::registration(),
        tasks::json::registration(),
        tasks::several::registration(),
        tasks::defaults::registration(),
        tasks::composed::registration(),
        tasks::moments::registration(),
        tasks::all::registration(),
        tasks::rest::registration(),
        tasks::anything::registration(),
        tasks::anything_more::registration(),
        tasks::lists::registration(),
    ]
}

/// What a task was called with.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) values: String,
    /// A call with the same values.
    pub(crate) again: Vec<u8>,
}

thread_local! {
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

fn saw(values: &dyn Debug, again: Call) {
    let again = again.encode().expect("what was read can be written");
    SEEN.set(Some(Seen { values: format!("{values:?}"), again }));
}

/// Runs a task as a worker does. None: its handler refuses the arguments.
pub(crate) fn run(task: &'static Registration, message: &Message<'_>) -> Option<Seen> {
    let Handler::Async(start) = task.handler else { unreachable!("all of these are async") };
    let (queue, states, cancellation) = (QueueName::default(), States::new(), Cancellation::new());
    let mut future =
        start(message.arguments(), &Scope::new(task.name, &queue, &states, &cancellation)).ok()?;
    let ended = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(Ok(_))), "{ended:?}");
    SEEN.take()
}

/// The bytes are a payload, and what follows the path in Python's form. Gives the tasks that could read them.
pub fn read(bytes: &[u8]) -> Vec<&'static str> {
    let mut readers = Vec::new();
    for message in [go_task("t", bytes), [b"\x93\xa1t", bytes].concat()] {
        let Ok(message) = Message::decode(&message) else { continue };
        for task in all_tasks() {
            let Some(seen) = run(task, &message) else { continue };
            let again = Message::decode(&seen.again).expect("a call is a message");
            assert_eq!(run(task, &again).as_ref(), Some(&seen), "of {}", task.signature());
            readers.push(task.name);
        }
    }
    readers
}
