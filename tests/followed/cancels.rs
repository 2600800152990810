//! Cancellation, whatever the state of the call.

use std::time::Duration;

use delayed::{CallId, CallState, Cancelled, WaitError};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::open;

const HOUR: Duration = Duration::from_secs(3600);

impl Site {
    fn cancel<R>(&self, handle: &delayed::Handle<R>) -> Cancelled {
        self.runtime.block_on(handle.cancel()).unwrap()
    }

    fn marks(&mut self) -> usize {
        self.trial.redis.zcard("q_cancelled").unwrap()
    }
}

fn is_cancelled<T: std::fmt::Debug>(result: Result<T, WaitError>) -> bool {
    matches!(result, Err(WaitError::Cancelled { .. }))
}

#[test]
fn scheduled_and_retrying_calls_are_removed() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let scheduled = site.enqueue(tasks::charge::call(1).after(HOUR));
    assert_eq!(site.cancel(&scheduled), Cancelled::Scheduled);
    assert!(is_cancelled(site.wait(&scheduled)));
    assert_eq!(site.cancel(&scheduled), Cancelled::Ended(CallState::Cancelled));
    let retrying = site.enqueue(tasks::later::call());
    site.wait_state(&retrying, CallState::Retrying);
    assert_eq!(site.cancel(&retrying), Cancelled::Retrying);
    assert!(is_cancelled(site.wait(&retrying)));
    assert_eq!((site.trial.state().later.len(), site.marks()), (0, 0));
    site.trial.stop(&mut worker);
}

#[test]
fn waiting_call_is_dropped_by_the_worker_that_claims_it() {
    let mut site = Site::new();
    let handles: Vec<_> = (0..40).map(|n| site.enqueue(tasks::charge::call(n))).collect();
    let plain = site.enqueue(tasks::once::call(1).unique(delayed::Unique::UntilDone));
    for handle in handles.iter().step_by(2) {
        assert_eq!(site.cancel(handle), Cancelled::Waiting);
    }
    assert_eq!(site.cancel(&plain), Cancelled::Waiting);
    assert_eq!(site.marks(), 21);
    let mut worker = site.trial.worker(&[]);
    for (place, handle) in handles.iter().enumerate() {
        let result = site.wait(handle);
        match place % 2 {
            0 => assert!(is_cancelled(result)),
            _ => assert_eq!(result.unwrap().order, place as u64),
        }
    }
    site.trial.wait_settled();
    assert_eq!(site.marks(), 0);
    // Picked up alone, behind a wait.
    let mut stopped = site.trial.stop(&mut worker);
    assert_eq!(stopped["cancelled"].take(), 21);
    assert_eq!(site.trial.dead(), 0);
}

#[test]
fn running_call_is_asked_to_end_or_killed() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&["--lease", "1s"]);
    let gate = site.trial.gate("gate");
    let asked = site.enqueue(tasks::gated::call(gate.clone()).retry(5));
    let killed = site.enqueue(tasks::endless::call().retry(5));
    site.wait_state(&asked, CallState::Running);
    site.wait_state(&killed, CallState::Running);
    assert_eq!(site.cancel(&asked), Cancelled::Running);
    assert_eq!(site.cancel(&killed), Cancelled::Running);
    assert!(is_cancelled(site.wait(&asked)) && is_cancelled(site.wait(&killed)));
    site.trial.wait_settled();
    assert_eq!((site.trial.dead(), site.marks(), site.trial.state().later.len()), (0, 0, 0));
    assert!(site.enqueue(tasks::gated::call(gate.clone())).is_new(), "expected the lock to be free");
    open(&gate);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
}

#[test]
fn call_that_has_ended_or_never_was_is_told_apart() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let handle = site.enqueue(tasks::charge::call(1));
    site.wait(&handle).unwrap();
    assert_eq!(site.cancel(&handle), Cancelled::Ended(CallState::Succeeded));
    let dead = site.enqueue(tasks::fail::call("no".into()));
    site.wait(&dead).unwrap_err();
    assert_eq!(site.cancel(&dead), Cancelled::Ended(CallState::Dead));
    let queue = "q".parse().unwrap();
    let unknown = site.client.handle_of::<()>(&queue, CallId::new());
    assert_eq!(site.cancel(&unknown), Cancelled::NotFound);
    assert_eq!(site.marks(), 0);
    site.trial.stop(&mut worker);
}

#[test]
fn call_with_an_id_alone_can_be_cancelled_too() {
    let mut site = Site::new();
    let call = delayed_mark("a");
    site.trial.push(&[call.1]);
    let queue = "q".parse().unwrap();
    let handle = site.client.handle_of::<()>(&queue, call.0);
    assert_eq!(site.cancel(&handle), Cancelled::Waiting);
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert_eq!(site.marks(), 0);
    site.trial.ledger.assert_each_once(Vec::<String>::new());
}

#[test]
fn cancelling_many_calls_searches_the_queue_once() {
    let mut site = Site::new();
    let calls: Vec<_> = (0..2000).map(|n| delayed_mark(&n.to_string())).collect();
    let messages: Vec<_> = calls.iter().map(|(_, message)| message.clone()).collect();
    site.trial.push(&messages);
    let mut ids: Vec<CallId> = calls.iter().map(|(id, _)| *id).collect();
    ids.extend([ids[0], CallId::new()]);
    let inspector = site.runtime.block_on(delayed::Inspector::connect(&site.trial.server.url())).unwrap();
    site.trial.commands();
    let found = site.runtime.block_on(inspector.cancel(&"q".parse().unwrap(), &ids, "anna")).unwrap();
    let sent = site.trial.commands();
    assert!(found[..2001].iter().all(|found| *found == Cancelled::Waiting), "{found:?}");
    assert_eq!((found[2001], found.len(), site.marks()), (Cancelled::NotFound, 2002, 2000));
    for command in ["lrange", "hscan", "evalsha"] {
        let sent = sent.get(command).copied().unwrap_or(0);
        assert!(sent <= 12, "expected few of {command}: {sent}");
    }
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert_eq!(site.marks(), 0);
    site.trial.ledger.assert_each_once(Vec::<String>::new());
}

fn delayed_mark(n: &str) -> (CallId, Vec<u8>) {
    use delayed::__private::protocol::encode::{Meta, native};
    let id = CallId::new();
    let mut payload = Vec::new();
    rmp_serde::encode::write(&mut payload, n).unwrap();
    (id, native("trial.mark", &payload, &Meta { id: Some(id), ..Meta::default() }))
}
