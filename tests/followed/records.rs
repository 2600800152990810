//! What a caller learns of a call that keeps a record.

use std::time::{Duration, SystemTime};

use delayed::{CallId, CallState, Error, Fate, WaitError};
use redis::Commands;

use super::tasks::{self, Receipt};
use super::{NOT_LONG, Site};
use crate::support::trial::{PATIENCE, mark, open};
use crate::support::wait;

#[test]
fn result_is_that_of_the_task_wherever_it_runs() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let paid = |order: u64, paid: Option<&str>| Receipt { order, paid: paid.map(str::to_owned) };
    let handle = site.enqueue(tasks::charge::call(7));
    assert_eq!(site.wait(&handle).unwrap(), paid(7, Some("7 EUR")));
    assert_eq!(site.state(&handle), Some(CallState::Succeeded));
    assert_eq!(site.wait(&handle).unwrap(), paid(7, Some("7 EUR")), "expected it to stay");
    assert_eq!(site.wait(&site.enqueue(tasks::charge_blocking::call(8))).unwrap(), paid(8, None));
    assert_eq!(site.wait(&site.enqueue(tasks::charge_apart::call(9))).unwrap(), paid(9, None));
    let untyped = site.runtime.block_on(handle.wait_as::<serde_json::Value>(PATIENCE)).unwrap();
    assert_eq!(untyped, serde_json::json!({"order": 7, "paid": "7 EUR"}));
    site.trial.stop(&mut worker);
}

#[test]
fn long_result_comes_whole_and_a_too_large_one_is_told() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for length in [0, 100_000, (1 << 20) - 5] {
        assert_eq!(site.wait(&site.enqueue(tasks::text::call(length))).unwrap().len(), length);
        assert_eq!(site.wait(&site.enqueue(tasks::text_apart::call(length))).unwrap().len(), length);
    }
    for handle in [site.enqueue(tasks::text::call(1 << 20)), site.enqueue(tasks::text_apart::call(1 << 20))] {
        let error = site.wait(&handle).unwrap_err();
        assert!(matches!(error, WaitError::TooLarge { bytes: 1_048_581 }), "{error:?}");
        assert_eq!(site.state(&handle), Some(CallState::Succeeded));
    }
    site.trial.stop(&mut worker);
}

#[test]
fn states_follow_the_life_of_a_call() {
    let mut site = Site::new();
    let scheduled = site.enqueue(tasks::charge::call(1).after(Duration::from_secs(3600)));
    assert_eq!(site.state(&scheduled), Some(CallState::Scheduled));
    let gate = site.trial.gate("gate");
    let gated = site.enqueue(tasks::gated::call(gate.clone()));
    assert_eq!(site.state(&gated), Some(CallState::Waiting));
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&gated, CallState::Running);
    let later = site.enqueue(tasks::later::call());
    site.wait_state(&later, CallState::Retrying);
    let error = site.runtime.block_on(gated.wait(NOT_LONG)).unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { state: CallState::Running }), "{error:?}");
    crate::support::trial::open(&gate);
    site.wait_state(&gated, CallState::Succeeded);
    let record: std::collections::BTreeMap<String, Vec<u8>> =
        site.trial.redis.hgetall(key(gated.id().unwrap())).unwrap();
    let names: Vec<&str> = record.keys().map(String::as_str).collect();
    assert_eq!(names, ["attempt", "began", "ended", "queued", "result", "slot", "state", "task"]);
    let number = |name: &str| String::from_utf8(record[name].clone()).unwrap().parse::<u64>().unwrap();
    assert!(number("queued") <= number("began") && number("began") <= number("ended"), "{record:?}");
    site.trial.stop(&mut worker);
}

#[test]
fn waiter_is_told_why_there_is_no_result() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let error = site.wait(&site.enqueue(tasks::fail::call("no money".into()))).unwrap_err();
    let WaitError::Dead { reason, error, letter } = &error else { panic!("expected it dead: {error:?}") };
    assert_eq!((reason.as_str(), error.as_str()), ("failed", "no money"));
    let letters: Vec<(String, redis::Value)> =
        redis::cmd("XRANGE").arg(&["q_dead", "-", "+"]).query(&mut site.trial.redis).unwrap();
    assert_eq!(letters.first().map(|(id, _)| id), Some(letter));
    let past = SystemTime::now() - Duration::from_secs(1);
    let error = site.wait(&site.enqueue(tasks::charge::call(1).expires_at(past))).unwrap_err();
    assert!(matches!(error, WaitError::Expired), "{error:?}");
    let unknown = site.client.handle_of::<u8>(&"q".parse().unwrap(), CallId::new());
    assert!(matches!(site.wait(&unknown).unwrap_err(), WaitError::NotFound));
    let plain = site.enqueue(delayed::GoTask::new("trial.mark").arg("x").queue("q"));
    assert!(matches!(site.wait(&plain).unwrap_err(), WaitError::NotFound));
    let charged = site.enqueue(tasks::charge::call(1));
    let error = site.runtime.block_on(charged.wait_as::<u8>(PATIENCE)).unwrap_err();
    assert!(error.to_string().contains("cannot be read as u8"), "{error}");
    site.trial.stop(&mut worker);
}

#[test]
fn wait_goes_on_when_its_connection_breaks() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    let waiting = {
        let handle = handle.clone();
        site.runtime.spawn(async move { handle.wait(PATIENCE).await })
    };
    site.wait_for_waiters(1);
    let mut worker = site.trial.worker(&[]);
    for _ in 0..3 {
        let () = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "pubsub"])
            .query(&mut site.trial.redis)
            .map(|_: i64| ())
            .unwrap();
        site.wait_for_waiters(1);
    }
    crate::support::trial::open(&gate);
    assert_eq!(site.runtime.block_on(waiting).unwrap().unwrap(), "opened");
    site.wait_for_waiters(0);
    site.trial.stop(&mut worker);
}

#[test]
fn two_waiters_of_one_call_and_many_calls_at_once_all_hear() {
    let mut site = Site::new();
    let handles: Vec<_> = (0..200).map(|n| site.enqueue(tasks::charge::call(n))).collect();
    let waits: Vec<_> = handles
        .iter()
        .chain(&handles)
        .cloned()
        .map(|handle| site.runtime.spawn(async move { handle.wait(PATIENCE).await }))
        .collect();
    site.wait_for_waiters(200);
    let mut worker = site.trial.worker(&[]);
    for (place, wait) in waits.into_iter().enumerate() {
        assert_eq!(site.runtime.block_on(wait).unwrap().unwrap().order, place as u64 % 200);
    }
    site.wait_for_waiters(0);
    site.trial.stop(&mut worker);
}

#[test]
fn same_id_enqueued_by_fifty_senders_is_taken_once() {
    let mut site = Site::new();
    let id = CallId::from("order:7");
    // Each with a connection of its own, so that no two share a script call.
    let url = site.trial.server.url();
    let connects = (0..50).map(|_| delayed::Client::connect(&url));
    let clients = site.runtime.block_on(futures_util::future::try_join_all(connects)).unwrap();
    let senders: Vec<_> = (0..)
        .zip(clients)
        .map(|(n, client)| {
            site.runtime.spawn(async move { client.enqueue(tasks::charge::call(n).id("order:7")).await })
        })
        .collect();
    let mut taken = 0;
    for sender in senders {
        match site.runtime.block_on(sender).unwrap() {
            Ok(_) => taken += 1,
            Err(Error::Exists { id: known, state, .. }) => assert_eq!((known, &*state), (id, "waiting")),
            Err(error) => panic!("expected it to exist: {error}"),
        }
    }
    assert_eq!((taken, site.trial.state().waiting.len()), (1, 1));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    let error = site.try_enqueue(tasks::charge::call(0).id(id)).unwrap_err();
    assert!(matches!(&error, Error::Exists { state, .. } if state == "succeeded"), "{error}");
    let handle = site.client.handle_of::<Receipt>(&"q".parse().unwrap(), "order:7");
    assert_eq!((handle.id(), site.state(&handle)), (Some(id), Some(CallState::Succeeded)));
    site.trial.stop(&mut worker);
}

#[test]
fn given_id_is_refused_until_its_call_has_ended() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let call = || tasks::stubborn::call("7".into(), gate.clone()).id("order:7");
    let refused = |site: &Site, expected: &str| match site.try_enqueue(call()).unwrap_err() {
        Error::Exists { id, state, .. } => assert_eq!((id, &*state), ("order:7".into(), expected)),
        error => panic!("expected it to exist: {error}"),
    };
    let handle = site.enqueue(call());
    refused(&site, "waiting");
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&handle, CallState::Running);
    refused(&site, "running");
    let many =
        site.runtime.block_on(site.client.enqueue_many([call().untyped(), call().with_id().untyped()]));
    assert_eq!(many.unwrap_err().fates(), [Fate::NotApplied, Fate::Applied], "expected a new id to be taken");
    open(&gate);
    site.trial.wait_settled();
    let left: Vec<String> = site.trial.redis.keys("q:c:*").unwrap();
    assert_eq!(left, Vec::<String>::new(), "expected no record to stay");
    let again = site.enqueue(call());
    assert_eq!((again.is_new(), again.id()), (true, handle.id()));
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
}

#[test]
fn call_of_a_dead_worker_waits_again() {
    let site = Site::new();
    let gate = site.trial.gate("gate");
    let mut first = site.trial.worker(&["--lease", "1s"]);
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    site.wait_state(&handle, CallState::Running);
    first.kill9();
    let mut sweeper = site.trial.sweeper(&[]);
    site.wait_state(&handle, CallState::Waiting);
    crate::support::trial::open(&gate);
    let mut second = site.trial.worker(&[]);
    assert_eq!(site.wait(&handle).unwrap(), "opened");
    site.trial.stop(&mut second);
    sweeper.kill9();
}

#[test]
fn front_call_runs_first_and_a_full_queue_refuses_others() {
    let mut site = Site::new();
    site.trial.push(&[mark(1)]);
    site.enqueue(tasks::once::call(1).max_len(2).unique(delayed::Unique::UntilDone));
    site.enqueue(delayed::GoTask::new("trial.mark").arg("first").queue("q").front());
    let error = site.try_enqueue(tasks::charge::call(1).max_len(3)).unwrap_err();
    assert!(matches!(error, Error::QueueFull { waiting: 3, .. }), "{error}");
    let state = site.trial.state();
    assert_eq!((state.waiting[0].clone(), state.tokens), (mark("first"), 3), "{state:#?}");
    assert!(site.trial.redis.keys::<_, Vec<String>>("q:c:*").unwrap().len() == 1);
}

#[test]
fn progress_and_log_are_read_while_the_call_runs() {
    let site = Site::new();
    let mut worker = site.trial.worker(&["--concurrency", "4"]);
    let (gate, other) = (site.trial.gate("gate"), site.trial.gate("other"));
    let inline = site.enqueue(tasks::steps::call(gate.clone()));
    let apart = site.enqueue(tasks::steps_apart::call(gate.clone()));
    let progress = |handle: &delayed::Handle| site.runtime.block_on(handle.progress()).unwrap().unwrap();
    for handle in [&inline, &apart] {
        wait::until_ok(PATIENCE, || match progress(handle) {
            said if said.share == Some(0.4) && said.text == "reading" && said.log.len() == 2 => Ok(()),
            said => Err(format!("the first steps: {said:?}")),
        });
        assert_eq!(progress(handle).log, ["opened the book", "two lines"]);
    }
    // What a child that is killed has said stays.
    let killed = site.enqueue(tasks::steps_apart::call(other));
    wait::until("it to say something", PATIENCE, || progress(&killed).share.is_some());
    assert_eq!(site.runtime.block_on(killed.cancel()).unwrap(), delayed::Cancelled::Running);
    site.wait_state(&killed, CallState::Cancelled);
    assert_eq!(progress(&killed).text, "reading");
    crate::support::trial::open(&gate);
    site.wait(&inline).unwrap();
    site.wait(&apart).unwrap();
    // What they said last is written before the worker ends.
    site.trial.stop(&mut worker);
    for handle in [&inline, &apart] {
        assert_eq!((progress(handle).share, &*progress(handle).text), (Some(1.0), "done"));
    }
}

/// What the run said of itself until its process died, and of the run after that.
#[test]
fn progress_outlives_the_worker_that_wrote_it() {
    let site = Site::new();
    let progress = |handle: &delayed::Handle| site.runtime.block_on(handle.progress()).unwrap().unwrap();
    for apart in [false, true] {
        let gate = site.trial.gate(&format!("gate-{apart}"));
        let mut first = site.trial.worker(&["--lease", "1s"]);
        let handle = match apart {
            true => site.enqueue(tasks::steps_apart::call(gate.clone())),
            false => site.enqueue(tasks::steps::call(gate.clone())),
        };
        wait::until("it to say something", PATIENCE, || progress(&handle).share.is_some());
        first.kill9();
        assert_eq!((progress(&handle).share, &*progress(&handle).text), (Some(0.4), "reading"));
        let mut sweeper = site.trial.sweeper(&["--interval", "100ms"]);
        site.wait_state(&handle, CallState::Waiting);
        assert_eq!(&*progress(&handle).text, "reading", "expected it to stay while the call waits");
        let mut second = site.trial.worker(&[]);
        site.wait_state(&handle, CallState::Running);
        crate::support::trial::open(&gate);
        site.wait(&handle).unwrap();
        wait::until("the end to be said", PATIENCE, || progress(&handle).share == Some(1.0));
        site.trial.stop(&mut second);
        sweeper.kill9();
    }
}

#[test]
fn last_words_of_a_short_run_are_kept() {
    let site = Site::new();
    let gate = site.trial.gate("gate");
    crate::support::trial::open(&gate);
    let mut worker = site.trial.worker(&[]);
    let calls: Vec<_> = (0..50).map(|_| site.enqueue(tasks::steps::call(gate.clone()))).collect();
    calls.iter().for_each(|handle| site.wait(handle).unwrap());
    site.trial.stop(&mut worker);
    for handle in &calls {
        let said = site.runtime.block_on(handle.progress()).unwrap().unwrap();
        assert_eq!((said.share, &*said.text, said.log.len()), (Some(1.0), "done", 2));
    }
}

fn key(id: CallId) -> String {
    format!("q:c:{}", id.to_string().replace('-', ""))
}
