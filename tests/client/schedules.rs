//! Calls that a client schedules: one by one, in bulk, for workers of other languages.

use std::time::{Duration, SystemTime};

use delayed::__private::protocol::message::Message;
use delayed::CallId;
use delayed::{Cancelled, Client, Error, Fate, PyTask};

use super::{marking, native};
use crate::support::trial::{QUEUE, Trial, mark};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn scheduled_call_waits_in_the_timetable_under_its_id() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let enqueued = client.enqueue_blocking(marking(0).after(HOUR)).unwrap();
    let id = enqueued.id().expect("expected a scheduled call to have an id");
    let python = PyTask::new("mails.tasks:send").arg("ann").queue(QUEUE);
    let same = python.encode().unwrap();
    let moment = SystemTime::now() + HOUR;
    let other = client.enqueue_blocking(python.at(moment)).unwrap().id().unwrap();
    let state = trial.state();
    assert!(state.waiting.is_empty(), "{state:#?}");
    assert_eq!(state.later[&id.as_bytes().to_vec()], mark(0), "expected exactly the bytes of Go");
    assert_eq!(state.later[&other.as_bytes().to_vec()], same, "expected exactly the bytes of Python");
}

#[test]
fn cancel_says_what_the_call_was_found_to_be() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let [first, second] = [0, 1].map(|n| client.enqueue_blocking(marking(n).after(HOUR)).unwrap());
    assert_eq!(client.cancel_blocking(&first).unwrap(), Cancelled::Scheduled);
    assert_eq!(client.cancel_blocking(&first).unwrap(), Cancelled::NotFound, "expected it to be gone");
    let waits = client.enqueue_blocking(native(2).id(CallId::new())).unwrap();
    assert_eq!(client.cancel_blocking(&waits).unwrap(), Cancelled::Waiting);
    let plain = client.enqueue_blocking(marking(3)).unwrap();
    assert_eq!(client.cancel_blocking(&plain).unwrap(), Cancelled::NotFound, "expected it to have no id");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(client.cancel(&second)).unwrap(), Cancelled::Scheduled);
    let state = trial.state();
    assert_eq!((state.later.len(), state.waiting.len()), (0, 2), "{state:#?}");
    let () = redis::Commands::set(&mut trial.redis, "q_later", "text").unwrap();
    let error = client.cancel_blocking(&first).unwrap_err();
    assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::WrongType), "{error}");
}

#[test]
fn call_with_an_id_that_is_scheduled_is_refused() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let id = CallId::new();
    client.enqueue_blocking(native(0).id(id).after(HOUR)).unwrap();
    let error = client.enqueue_blocking(native(1).id(id).after(HOUR)).unwrap_err();
    assert!(matches!(error, Error::AlreadyScheduled { id: known, .. } if known == id), "{error}");
    assert!(!error.may_have_been_applied());
    assert_eq!(trial.state().later.len(), 1);
    let error = client.enqueue_blocking(marking(2).after(HOUR * 24 * 365 * 200)).unwrap_err();
    let says = std::error::Error::source(&error).expect("expected a source").to_string();
    assert_eq!(says, "a call can be scheduled for at most a hundred years from now");
}

#[test]
fn foreign_call_is_scheduled_under_the_id_of_a_text() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let call = || PyTask::new("mails.tasks:send").queue(QUEUE).id("mail:7");
    let handle = client.enqueue_blocking(call().after(HOUR)).unwrap();
    assert_eq!(handle.id(), Some("mail:7".into()));
    let error = client.enqueue_blocking(call().after(HOUR)).unwrap_err();
    assert!(matches!(error, Error::AlreadyScheduled { .. }), "{error}");
    let waits = client.enqueue_blocking(call()).unwrap();
    assert_eq!(waits.id(), None, "expected no id that its message does not have");
    let found = client.handle_of::<()>(handle.queue(), "mail:7");
    assert_eq!(client.cancel_blocking(&found).unwrap(), Cancelled::Scheduled);
    let state = trial.state();
    assert_eq!((state.later.len(), state.waiting.len()), (0, 1), "{state:#?}");
}

#[test]
fn call_for_1969_is_due_now_and_for_the_year_10000_refused() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let past = SystemTime::UNIX_EPOCH - HOUR * 24 * 30;
    client.enqueue_blocking(marking(0).at(past)).unwrap();
    let mut worker = trial.worker(&[]);
    trial.wait_runs(1);
    trial.wait_settled();
    trial.ledger.assert_each_once(["0"]);
    trial.stop(&mut worker);
    let year_10000 = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
    let error = client.enqueue_blocking(marking(1).at(year_10000)).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("a hundred years"), "{error}");
    let century = SystemTime::now() + HOUR * 24 * 36_524;
    client.enqueue_blocking(marking(2).at(century)).unwrap();
    assert_eq!(trial.state().later.len(), 1);
}

#[test]
fn bulk_schedules_what_is_to_run_later_and_tells_of_each() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let calls = (0..1_200).map(|n| match n % 2 {
        0 => marking(n),
        _ => marking(n).after(HOUR),
    });
    assert_eq!(client.enqueue_many_blocking(calls).unwrap(), 1_200);
    let state = trial.state();
    assert_eq!((state.waiting.len(), state.later.len()), (600, 600));

    let id = CallId::new();
    client.enqueue_blocking(native(0).id(id).after(HOUR)).unwrap();
    let calls = [marking(1), native(2).id(id).after(HOUR), marking(3).after(HOUR), marking(4)];
    let error = client.enqueue_many_blocking(calls).unwrap_err();
    assert!(matches!(error.error(), Error::AlreadyScheduled { .. }), "{error}");
    assert_eq!(error.fates(), [Fate::Applied, Fate::NotApplied, Fate::Applied, Fate::Applied]);
}

#[test]
fn hundred_thousand_calls_are_scheduled_in_one_bulk() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let calls = (0..100_000).map(|n| native(n).after(HOUR));
    assert_eq!(client.enqueue_many_blocking(calls).unwrap(), 100_000);
    let later = trial.state().later;
    assert_eq!(later.len(), 100_000);
    let (id, message) = later.first_key_value().unwrap();
    assert_eq!(Message::decode(message).unwrap().id().unwrap().as_bytes().to_vec(), *id);
}
