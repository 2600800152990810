//! A call for a full queue takes the place of the oldest, which becomes a dead letter.

use delayed::inspect::Selection;
use delayed::{CallState, Error, GoTask, Inspector, Overflow, PyTask, WaitError};

use super::{Site, tasks};
use crate::support::trial::mark;

const BURY: Overflow = Overflow::BuryOldest;

#[test]
fn oldest_followed_call_is_dead_and_revived_runs() {
    let mut site = Site::new();
    let old = site.enqueue(tasks::charge::call(1));
    let error = site.try_enqueue(tasks::charge::call(2).max_len(1).overflow(Overflow::Reject)).unwrap_err();
    assert!(matches!(error, Error::QueueFull { waiting: 1, .. }), "{error}");
    let waiting = {
        let old = old.clone();
        site.runtime.spawn(async move { old.wait(crate::support::trial::PATIENCE).await })
    };
    site.wait_for_waiters(1);
    let new = site.enqueue(tasks::charge::call(2).max_len(1).overflow(BURY));
    let error = site.runtime.block_on(waiting).unwrap().unwrap_err();
    let WaitError::Dead { reason, error, letter } = error else { panic!("expected it dead: {error}") };
    assert_eq!((&*reason, &*error), ("overflow", "1 calls waited in its queue: a newer one took its place"));
    assert_eq!(site.state(&old), Some(CallState::Dead));
    let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
    let queue = "q".parse().unwrap();
    let which = Selection::Ids(vec![letter]);
    let mut ignored = |_, _| {};
    let revived = site.runtime.block_on(inspector.requeue_dead(&queue, &which, &mut ignored)).unwrap();
    assert_eq!(revived.done, 1);
    assert_eq!(site.state(&old), Some(CallState::Waiting));
    let mut worker = site.trial.worker(&[]);
    assert_eq!([site.wait(&old).unwrap().order, site.wait(&new).unwrap().order], [1, 2]);
    site.trial.stop(&mut worker);
}

#[test]
fn fifty_senders_leave_as_many_calls_as_may_wait() {
    let mut site = Site::new();
    let url = site.trial.server.url();
    let senders: Vec<_> = (0..50)
        .map(|n| {
            let client = delayed::Client::lazy(&url);
            let call: delayed::Call = match n % 3 {
                0 => GoTask::new("trial.mark").arg(n.to_string()).queue("q"),
                1 => PyTask::new("m:f").arg(n).queue("q"),
                _ => tasks::charge::call(n).untyped(),
            };
            site.runtime.spawn(async move { client.enqueue(call.max_len(10).overflow(BURY)).await })
        })
        .collect();
    for sender in senders {
        site.runtime.block_on(sender).unwrap().unwrap();
    }
    let state = site.trial.state();
    assert_eq!((state.waiting.len(), state.tokens, state.dead.len()), (10, 10, 40));
    let reasons: Vec<_> = state.dead.iter().map(|letter| &letter["reason"][..]).collect();
    assert_eq!(reasons, [b"overflow"; 40]);
}

#[test]
fn bulk_with_a_bound_keeps_the_last_calls() {
    let mut site = Site::new();
    site.trial.push(&[mark("old")]);
    let calls =
        (0..250).map(|n| GoTask::new("trial.mark").arg(n.to_string()).queue("q").max_len(3).overflow(BURY));
    assert_eq!(site.runtime.block_on(site.client.enqueue_many(calls)).unwrap(), 250);
    let state = site.trial.state();
    assert_eq!(state.waiting, [mark("247"), mark("248"), mark("249")]);
    assert_eq!((state.tokens, state.dead.len()), (3, 248));
}
