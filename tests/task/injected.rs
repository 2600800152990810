//! Do `Context` and `State` reach the function?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delayed::__private::Handler;
use delayed::__private::{Cancellation, Scope};
use delayed::QueueName;
use delayed::{CallId, Context, State, Task};
use delayed::{Registry, RegistryError, States};

use crate::run::{Given, payload};

/// What the tasks of this file share.
pub(crate) struct Sum(AtomicU64);

/// Never given.
pub(crate) struct Missing;

mod tasks {
    use super::*;

    #[delayed::task]
    pub(super) fn add(sum: State<Sum>, number: u64, _again: State<Sum>) {
        sum.0.fetch_add(number, Ordering::Relaxed);
    }

    #[delayed::task(name = "describe")]
    pub(super) async fn describe(context: Context, what: delayed::State<Arc<std::sync::Mutex<String>>>) {
        *what.lock().unwrap() = format!(
            "{} {} {} {:?} {}",
            context.task(),
            context.queue(),
            context.attempt(),
            context.id().is_some(),
            context.is_cancelled()
        );
    }

    #[delayed::task]
    pub(super) async fn until_cancelled(context: Context) -> Result<(), String> {
        context.cancelled().await;
        Err(format!("cancelled, deadline known: {}", context.deadline().is_some()))
    }

    #[delayed::task]
    pub(super) fn asks_for_missing(_missing: State<Missing>) {}
}

#[test]
fn a_state_is_shared_by_all_runs() {
    let mut given = Given::default();
    given.states.insert(Sum(AtomicU64::new(0)));
    for _ in 0..3 {
        assert_eq!(given.run::<tasks::add>(&tasks::add::call(5).encode().unwrap()), Ok(Ok(())));
    }
    assert_eq!(given.states.get::<Sum>().unwrap().0.load(Ordering::Relaxed), 15);
    assert!(given.states.get::<Missing>().is_none());
}

#[test]
fn a_context_knows_its_run() {
    let text = Arc::new(std::sync::Mutex::new(String::new()));
    let mut given = Given {
        queue: QueueName::parse("mail").unwrap(),
        attempt: 3,
        id: Some(CallId::new()),
        ..Given::default()
    };
    given.states.insert(Arc::clone(&text));
    given.cancellation.cancel();
    assert_eq!(given.run::<tasks::describe>(&tasks::describe::call().encode().unwrap()), Ok(Ok(())));
    assert_eq!(*text.lock().unwrap(), "describe mail 3 true true");
}

#[tokio::test]
async fn a_run_can_wait_for_its_end() {
    let (queue, states, cancellation) = (QueueName::default(), States::new(), Cancellation::new());
    let task = tasks::until_cancelled::registration();
    let Handler::Async(start) = task.handler else { panic!("it is async") };
    let message = tasks::until_cancelled::call().encode().unwrap();
    let message = delayed::__private::protocol::message::Message::decode(&message).unwrap();
    let scope = Scope::new(task.name, &queue, &states, &cancellation);
    let mut run = start(message.arguments(), &scope).unwrap();
    let early = tokio::time::timeout(Duration::from_millis(20), &mut run).await;
    assert!(early.is_err(), "it does not wait");
    cancellation.set_deadline(Instant::now());
    cancellation.cancel();
    assert_eq!(run.await.unwrap_err().to_string(), "cancelled, deadline known: true");
}

#[test]
fn a_state_that_is_missing_is_found_before_a_task_runs() {
    let registry = Registry::new().with::<tasks::asks_for_missing>().unwrap().with::<tasks::add>().unwrap();
    let mut states = States::new();
    let error = registry.check_states(&states).unwrap_err();
    let RegistryError::MissingStates(missing) = &error else { panic!("{error}") };
    assert_eq!(missing.iter().map(|missing| missing.ty).collect::<Vec<_>>(), ["Sum", "Missing"]);
    let text = error.to_string();
    let line = text.lines().last().unwrap();
    assert!(line.contains("::tasks::asks_for_missing` (tests/task/injected.rs:"), "{line}");
    assert!(line.ends_with("needs State<Missing>: add a `Missing` with `App::state`"), "{line}");

    states.insert(Sum(AtomicU64::new(0)));
    states.insert(Missing);
    assert_eq!(registry.check_states(&states), Ok(()));
}

#[test]
#[should_panic = "needs State<task::injected::Missing>: add one with App::state"]
fn a_state_that_is_missing_is_named_when_nobody_checked() {
    let _ = payload::<tasks::asks_for_missing>(&[]);
}
