//! Does the inspector page through calls, and hear of their ends?

use std::time::Duration;

use delayed::inspect::CallFilter;
use delayed::{CallState, Inspector, QueueName, Unique};

use super::{NOT_LONG, Site, tasks};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

fn inspector(site: &Site) -> (Inspector, QueueName) {
    let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
    (inspector, QueueName::parse("q").unwrap())
}

#[test]
fn calls_beyond_the_first_page_are_listed() {
    let site = Site::new();
    let (inspector, queue) = inspector(&site);
    let hours = |n: u64| Duration::from_secs(3600 * (n + 1));
    let many = (0..1100).map(|n| tasks::charge::call(n).after(hours(n)));
    site.runtime.block_on(site.client.enqueue_many(many)).unwrap();
    let list = |filter: CallFilter| site.runtime.block_on(inspector.calls(&queue, &filter)).unwrap();
    let texts = |filter| -> Vec<String> {
        list(filter).iter().map(|call| call.message.arguments_text.clone().unwrap()).collect()
    };
    let page = CallFilter { start: 998, count: 3, ..CallFilter::default() };
    assert_eq!(texts(page.clone()), ["(998)", "(999)", "(1000)"]);
    let none = CallFilter { states: vec![CallState::Waiting, CallState::Succeeded], ..page.clone() };
    assert_eq!(texts(none), Vec::<String>::new());
    let last = list(CallFilter { start: 1099, ..page }).pop().unwrap();
    assert_eq!((last.state, last.has_record), (CallState::Scheduled, true));
    let by_id = CallFilter { id_prefix: last.id.clone(), count: 1, ..CallFilter::default() };
    assert_eq!(list(by_id), [last]);
}

#[test]
fn wait_hears_the_end_although_its_connection_breaks() {
    let mut site = Site::new();
    let (inspector, queue) = inspector(&site);
    let gate = site.trial.gate("gate");
    let call = site.enqueue(tasks::gated::call(gate.clone()));
    let id = call.id().unwrap();
    let early = site.runtime.block_on(inspector.wait(&queue, id, NOT_LONG)).unwrap().unwrap();
    assert_eq!((early.state, early.result), (CallState::Waiting, None));
    site.wait_for_waiters(0);
    let waiting = site.runtime.spawn({
        let (inspector, queue) = (inspector.clone(), queue.clone());
        async move { inspector.wait(&queue, id, PATIENCE).await }
    });
    site.wait_for_waiters(1);
    let cut: u64 =
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut site.trial.redis).unwrap();
    assert_eq!(cut, 1);
    site.wait_for_waiters(1);
    open(&gate);
    let mut worker = site.trial.worker(&[]);
    let ended = site.runtime.block_on(waiting).unwrap().unwrap().unwrap();
    assert_eq!(ended.state, CallState::Succeeded);
    assert!(ended.result.is_some() && ended.queued_ms <= ended.ended_ms, "{ended:?}");
    site.trial.stop(&mut worker);
}

#[test]
fn wait_hears_the_end_of_a_call_that_is_unique_alone() {
    let mut site = Site::new();
    let (inspector, queue) = inspector(&site);
    let call = site.enqueue(tasks::once::call(1).unique(Unique::UntilDone));
    let id = call.id().unwrap();
    let waiting = site.runtime.spawn({
        let (inspector, queue) = (inspector.clone(), queue.clone());
        async move { inspector.wait(&queue, id, PATIENCE).await }
    });
    site.wait_for_waiters(1);
    let mut worker = site.trial.worker(&[]);
    let ended = site.runtime.block_on(waiting).unwrap().unwrap().unwrap();
    assert_eq!((ended.state, ended.result), (CallState::Succeeded, None));
    wait::until("the record to be gone", PATIENCE, || {
        site.runtime.block_on(inspector.call(&queue, id, 0)).unwrap().is_none()
    });
    site.trial.stop(&mut worker);
}
