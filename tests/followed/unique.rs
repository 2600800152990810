//! Unique calls: who gets the lock, and when it is free again.

use std::time::Duration;

use delayed::{CallState, Conflict, Unique};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::open;
use crate::support::wait;

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than a machine stalls.
const LONG: Duration = Duration::from_secs(10);

impl Site {
    fn locks(&mut self) -> usize {
        self.trial.redis.keys::<_, Vec<String>>("q:u:*").unwrap().len()
    }
}

#[test]
fn second_call_gets_the_handle_of_the_first_until_that_is_done() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let first = site.enqueue(tasks::gated::call(gate.clone()));
    assert!(first.is_new());
    let second = site.enqueue(tasks::gated::call(gate.clone()));
    assert_eq!(
        (second.id(), second.conflict()),
        (first.id(), Some(&Conflict::Held(Some(CallState::Waiting))))
    );
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&first, CallState::Running);
    let third = site.enqueue(tasks::gated::call(gate.clone()));
    assert_eq!(third.conflict(), Some(&Conflict::Held(Some(CallState::Running))));
    let other = site.enqueue(tasks::gated::call(site.trial.gate("other")));
    assert!(other.is_new(), "expected other arguments to be another call");
    open(&gate);
    assert_eq!(site.wait(&third).unwrap(), "opened");
    assert!(site.enqueue(tasks::gated::call(gate.clone())).is_new());
    open(&site.trial.gate("other"));
    site.trial.wait_settled();
    assert_eq!(site.locks(), 0);
    site.trial.stop(&mut worker);
}

#[test]
fn key_counts_instead_of_the_arguments() {
    let mut site = Site::new();
    let first = site.enqueue(tasks::charge::call(1).unique_key("order:7"));
    let second = site.enqueue(tasks::charge::call(2).unique_key("order:7"));
    assert_eq!((second.id(), second.is_new()), (first.id(), false));
    assert!(site.enqueue(tasks::charge::call(1).unique_key("order:8")).is_new());
    assert!(site.enqueue(tasks::charge_blocking::call(1).unique_key("order:7")).is_new());
    assert_eq!((site.locks(), site.trial.state().waiting.len()), (3, 3));
}

#[test]
fn lock_until_started_is_free_while_the_call_runs() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let call = || tasks::gated::call(gate.clone()).unique(Unique::UntilStarted);
    let first = site.enqueue(call());
    assert!(!site.enqueue(call()).is_new());
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&first, CallState::Running);
    assert!(site.enqueue(call()).is_new());
    open(&gate);
    site.trial.wait_settled();
    assert_eq!(site.locks(), 0);
    site.trial.stop(&mut worker);
}

#[test]
fn lock_for_a_time_outlives_its_call() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let call = || tasks::charge::call(1).unique(Unique::For(HOUR));
    let first = site.enqueue(call());
    site.wait(&first).unwrap();
    let second = site.enqueue(call());
    assert_eq!(second.conflict(), Some(&Conflict::Held(Some(CallState::Succeeded))));
    let keys: Vec<String> = site.trial.redis.keys("q:u:*").unwrap();
    let left: i64 = site.trial.redis.pttl(&keys[0]).unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "expected an hour: {left}");
    site.trial.stop(&mut worker);
}

#[test]
fn newer_call_replaces_a_scheduled_one_and_keeps_its_id() {
    let mut site = Site::new();
    let call = |order| tasks::charge::call(order).unique_key("k").unique(Unique::Replace).after(HOUR);
    let first = site.enqueue(call(1));
    let second = site.enqueue(call(2).after(Duration::from_millis(1)));
    assert_eq!((second.id(), second.conflict()), (first.id(), Some(&Conflict::Replaced)));
    assert_eq!(site.trial.state().later.len(), 1);
    let mut worker = site.trial.worker(&[]);
    assert_eq!(site.wait(&first).unwrap().order, 2);
    site.trial.wait_settled();
    assert!(site.enqueue(call(3)).is_new());
    site.trial.stop(&mut worker);
}

#[test]
fn every_end_of_a_call_frees_its_lock() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let dead = site.enqueue(tasks::fail::call("no".into()).unique(Unique::UntilDone));
    site.wait(&dead).unwrap_err();
    let expired = tasks::charge::call(1).unique(Unique::UntilDone);
    let expired = site.enqueue(expired.expires_at(std::time::SystemTime::UNIX_EPOCH));
    site.wait(&expired).unwrap_err();
    let scheduled = site.enqueue(tasks::charge::call(2).unique(Unique::UntilDone).after(HOUR));
    assert_eq!(site.locks(), 1);
    site.runtime.block_on(scheduled.cancel()).unwrap();
    let retrying = site.enqueue(tasks::later::call().unique(Unique::UntilDone));
    site.wait_state(&retrying, CallState::Retrying);
    assert_eq!(site.locks(), 1, "expected a retried call to keep its lock");
    site.runtime.block_on(retrying.cancel()).unwrap();
    assert_eq!(site.locks(), 0);
    // One without a record for others to see tells of its end all the same.
    let once = site.enqueue(tasks::once::call(1).unique(Unique::UntilDone));
    wait::until("the lock to be free", crate::support::trial::PATIENCE, || site.locks() == 0);
    assert_eq!(site.state(&once), None);
    site.trial.stop(&mut worker);
}

#[test]
fn lock_of_a_call_that_is_nowhere_is_taken_over() {
    let mut site = Site::new();
    let first = site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone));
    // A worker of another kind has taken it, and a cleaner its record.
    let () = site.trial.redis.del(&["q", "q_noti"]).unwrap();
    let record = format!("q:c:{}", first.id().unwrap().to_string().replace('-', ""));
    let () = site.trial.redis.del(record).unwrap();
    let second = site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone));
    assert!(second.is_new() && second.id() != first.id());
}

#[test]
fn dead_call_comes_back_with_its_lock_or_stays_dead() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let call = call_again;
    let first = site.enqueue(call());
    site.wait(&first).unwrap_err();
    site.trial.stop(&mut worker);
    let holder = site.enqueue(call());
    assert!(holder.is_new());
    let requeue = |site: &Site| {
        let url = site.trial.server.url();
        let mut command = site.trial.command(crate::support::process::DELAYED);
        let output = command.args(["dead", "requeue", "--all", "--redis", &url]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let says = requeue(&site);
    let (id, other) = (first.id().unwrap(), holder.id().unwrap());
    let refused = format!("{id} stays dead: it is unique, and {other} holds its lock until it has ended");
    assert!(says.contains("requeued 0 dead letters") && says.contains(&refused), "{says}");
    assert_eq!(site.runtime.block_on(holder.cancel()).unwrap(), delayed::Cancelled::Waiting);
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert!(requeue(&site).contains("requeued 1 dead letter"));
    assert_eq!((site.state(&first), site.locks()), (Some(CallState::Waiting), 1));
    assert!(!site.enqueue(call_again()).is_new(), "expected it to have its lock again");
}

fn call_again() -> delayed::Call<u8> {
    tasks::fail::call("no".into()).unique(Unique::UntilDone)
}

#[test]
fn purge_ends_the_calls_that_it_drops() {
    let mut site = Site::new();
    let calls: Vec<_> =
        (0..150).map(|n| site.enqueue(tasks::charge::call(n).unique(Unique::UntilDone))).collect();
    let url = site.trial.server.url();
    let mut command = site.trial.command(crate::support::process::DELAYED);
    let output = command.args(["purge", "q", "--yes", "--redis", &url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for call in [&calls[0], &calls[149]] {
        let error = site.wait(call).unwrap_err();
        assert!(matches!(&error, delayed::WaitError::Cancelled { by } if by == "purge"), "{error:?}");
    }
    assert_eq!(site.locks(), 0);
}

#[test]
fn end_of_a_call_that_is_not_kept_is_heard() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let mut unheard = 0;
    for n in 0..20 {
        site.wait_for_waiters(0);
        let gate = site.trial.gate(&n.to_string());
        let call = tasks::stubborn::call(n.to_string(), gate.clone()).unique(Unique::UntilDone);
        let call = site.enqueue(call);
        let waits = site.runtime.spawn(async move { call.wait(LONG).await });
        // The call cannot end before.
        site.wait_for_waiters(1);
        open(&gate);
        match site.runtime.block_on(waits).unwrap() {
            Ok(()) => {}
            Err(delayed::WaitError::NotFound) => unheard += 1,
            Err(error) => panic!("expected its end: {error}"),
        }
        // Whoever listens reads the record next. On a machine that stalls in between, it may be gone by then.
        assert!(
            unheard <= 5,
            "expected at least 15 of 20 ends to be heard: call {n} is the sixth that is not"
        );
    }
    site.trial.stop(&mut worker);
}

#[test]
fn wait_that_begins_when_its_call_ends_comes_back() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for n in 0..100 {
        let once = site.enqueue(tasks::once::call(n));
        match site.wait(&once) {
            Ok(()) => {}
            // It had ended before the wait began.
            Err(delayed::WaitError::NotFound) => assert_eq!(site.state(&once), None),
            Err(error) => panic!("expected its end: {error}"),
        }
    }
    site.trial.stop(&mut worker);
}

/// Enqueues calls from as many tasks at a time.
fn enqueue_at_once(
    site: &Site,
    keys: impl Iterator<Item = String>,
) -> Vec<Result<delayed::Handle, delayed::Error>> {
    let enqueued = keys.map(|key| {
        let client = site.client.clone();
        site.runtime
            .spawn(async move { client.enqueue(tasks::charge::call(1).unique_key(key).untyped()).await })
    });
    let enqueued: Vec<_> = enqueued.collect();
    site.runtime.block_on(async {
        let mut results = Vec::new();
        for call in enqueued {
            results.push(call.await.unwrap());
        }
        results
    })
}

#[test]
fn calls_enqueued_at_once_share_script_calls() {
    let mut site = Site::new();
    site.enqueue(tasks::charge::call(1));
    site.trial.commands();
    // Each key twice, one after the other.
    let handles = enqueue_at_once(&site, (0..2_000).map(|number| (number / 2).to_string()));
    let handles: Vec<_> = handles.into_iter().map(Result::unwrap).collect();
    let scripts = site.trial.commands()["evalsha"];
    assert!(scripts < 500, "expected few script calls for 2000 calls, not {scripts}");
    assert_eq!(handles.iter().filter(|handle| handle.is_new()).count(), 1_000);
    for pair in handles.chunks(2) {
        assert_eq!(pair[0].id(), pair[1].id());
        assert_ne!(pair[0].is_new(), pair[1].is_new());
    }
    assert_eq!(site.trial.state().waiting.len(), 1_001);
}

#[test]
fn call_with_a_foreign_lock_fails_alone() {
    let mut site = Site::new();
    site.enqueue(tasks::charge::call(1).unique_key("bad"));
    let [lock] = &site.trial.redis.keys::<_, Vec<String>>("q:u:*").unwrap()[..] else { panic!("one lock") };
    let () = site.trial.redis.del(lock).unwrap();
    let () = site.trial.redis.rpush(lock, "of another program").unwrap();
    let bad = |number: usize| number.is_multiple_of(50);
    let key = |number| if bad(number) { "bad".to_owned() } else { number.to_string() };
    let results = enqueue_at_once(&site, (0..500).map(key));
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.is_err(), bad(number), "call {number}: {result:?}");
    }
    assert_eq!(site.trial.state().waiting.len(), 491);
}
