//! Calls with options that are on their way while Redis is full: scheduled, retried, kept, unique and limited ones, a flow and
//! a batch.

use std::time::Duration;

use delayed::{BrokerErrorKind, Client, Inspector, IntoCall, Limit, chain, group};
use redis::Commands;
use tokio::runtime::Runtime;

use crate::batches::tasks::collect;
use crate::flows::tasks as flows;
use crate::followed::tasks as followed;
use crate::limited::tasks as limited;
use crate::support::trial::{PATIENCE, QUEUE, Trial, count, open};
use crate::support::wait;

const SOON: Duration = Duration::from_millis(1500);

fn set_memory(trial: &mut Trial, bytes: u64) {
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut trial.redis).unwrap();
}

/// A full Redis refuses the call, and keeps nothing of it.
#[track_caller]
fn assert_refused<C: IntoCall>(runtime: &Runtime, client: &Client, call: C, id: &str) {
    let call = call.into_call().id(id);
    let refused = runtime.block_on(client.enqueue(call)).map(drop).unwrap_err();
    assert_eq!(refused.broker_kind(), Some(BrokerErrorKind::Full), "{id}: {refused}");
    assert!(!refused.may_have_been_applied(), "{id}: {refused}");
}

#[test]
fn calls_with_options_outlast_a_full_redis() {
    let mut trial = Trial::new();
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(Client::connect(&trial.server.url())).unwrap();
    let inspector = runtime.block_on(Inspector::connect(&trial.server.url())).unwrap();
    runtime.block_on(client.set_limit("few", Limit::concurrent(1))).unwrap();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--lease", "2s", "--concurrency", "16"]);

    // Each of these runs, or waits for its limit, when Redis becomes full.
    let unique = runtime.block_on(client.enqueue(followed::gated::call(gate.clone()))).unwrap();
    for n in ["a", "b"] {
        runtime.block_on(client.enqueue(limited::gated::call(n.into(), gate.clone()))).unwrap();
    }
    let members = group(["x", "y"].map(|n| flows::gated::call(n.into(), gate.clone())));
    let flow = chain(members).then(flows::end::step("joined".into()));
    let flow = runtime.block_on(client.enqueue_flow(flow)).unwrap();
    // These are in the timetable, or in a batch that fills.
    runtime.block_on(client.enqueue(followed::noted::call("scheduled".into()).after(SOON))).unwrap();
    runtime.block_on(client.enqueue_many((0..3).map(|n| collect::call(format!("ok:{n}"))))).unwrap();
    runtime.block_on(client.enqueue(limited::free_flaky::call("retried".into()))).unwrap();
    let has_run = |trial: &Trial, line: &str| trial.ledger.lines().iter().any(|other| other == line);
    wait::until("all to be on their way", PATIENCE, || {
        let parked: u64 = trial.redis.llen("q:l:few").unwrap();
        let state = runtime.block_on(unique.state()).unwrap();
        parked == 1
            && state == Some(delayed::CallState::Running)
            && ["+x", "+y", "retried 1"].iter().all(|line| has_run(&trial, line))
    });
    set_memory(&mut trial, 1);

    let other = trial.gate("other");
    assert_refused(&runtime, &client, followed::gated::call(other.clone()), "unique");
    assert_refused(&runtime, &client, followed::charge::call(7), "kept");
    assert_refused(&runtime, &client, followed::noted::call("later".into()).after(SOON), "later");
    assert_refused(&runtime, &client, limited::plain::call("limited".into()).limit("few"), "limited");
    assert_refused(&runtime, &client, limited::plain::call("first".into()).ordered("key"), "ordered");
    for id in ["unique", "kept", "later", "limited", "ordered"] {
        let found = runtime.block_on(inspector.call(&QUEUE.parse().unwrap(), id.into(), 0)).unwrap();
        assert_eq!(found, None, "expected nothing to be left of the call that was refused");
    }

    // What Redis has already goes on while it is full.
    open(&gate);
    assert_eq!(runtime.block_on(unique.wait(PATIENCE)).unwrap(), "opened");
    let ran = ["-a", "-b", "-x", "-y", "scheduled", "retried 2", "ok:0 ok:1 ok:2"];
    wait::until_ok(PATIENCE, || match ran.iter().find(|line| !has_run(&trial, line)) {
        None => Ok(()),
        Some(line) => Err(format!("`{line}` to run, not only {:?}", trial.ledger.lines())),
    });
    set_memory(&mut trial, 0);

    // And what it refused is as if it had never been sent.
    assert_eq!(runtime.block_on(flow.wait(PATIENCE)).unwrap(), "joined");
    open(&other);
    let again = runtime.block_on(client.enqueue(followed::gated::call(other).id("unique"))).unwrap();
    assert!(again.is_new(), "expected the lock of the refused call to be free");
    runtime.block_on(again.wait(PATIENCE)).unwrap();
    wait::until("nothing to be left", PATIENCE, || {
        let [due, line, holders]: [u64; 3] = [
            trial.redis.zcard("q_due").unwrap(),
            trial.redis.llen("{delayed:few}:line").unwrap(),
            trial.redis.zcard("{delayed:few}:holders").unwrap(),
        ];
        let flows: u64 = trial.redis.hlen("q_outbox").unwrap();
        (due, line, holders, flows, trial.left()) == (0, 0, 0, 0, (0, 0))
    });
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "lost")), (0, 0), "{stopped}");
    let begun = ["+a", "+b", "+x", "+y", "retried 1", "joined 2"];
    trial.ledger.assert_each_once(begun.iter().chain(&ran).map(|line| (*line).to_owned()));
    assert_eq!(trial.redis.keys::<_, Vec<String>>("q:u:*").unwrap(), [""; 0], "expected no lock to be left");
    assert_eq!(trial.dead(), 0);
}
