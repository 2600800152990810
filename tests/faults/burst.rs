//! A burst that begins after a death: it ends only when a sweep of its own has found nothing.

use std::time::Duration;

use redis::Commands;

use crate::support::trial::{PATIENCE, QUEUE, Trial, count, gated, mark, marks, open};
use crate::support::wait;

/// A wire id of a worker of ours.
fn slot_of(letter: char, slot: u32) -> String {
    format!("{QUEUE}:{}:{slot}", letter.to_string().repeat(16))
}

#[test]
fn a_burst_runs_what_its_own_sweep_brings_back() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut victim = trial.worker(&["--lease", "1s"]);
    trial.push(&[gated("a", &gate)]);
    trial.wait_runs(1);
    victim.kill9();
    open(&gate);
    // Its lease ends.
    let owner: String = trial.redis.hkeys::<_, Vec<String>>("q_processing").unwrap().remove(0);
    wait::until("its lease to end", PATIENCE, || !trial.redis.exists::<_, bool>(&owner).unwrap());
    let mut burst = trial.start(&["--burst"]);
    let stopped = trial.ended(&mut burst);
    assert_eq!((count(&stopped, "succeeded"), &stopped["reason"]), (1, &"Drained".into()), "{stopped}");
    assert_eq!(trial.left(), (0, 0));
}

#[test]
fn a_burst_sweeps_also_when_it_is_anothers_turn() {
    let mut trial = Trial::new();
    for n in 0..300 {
        let () = trial.redis.hset("q_processing", slot_of('b', n), mark(n)).unwrap();
    }
    let () = trial.redis.hset("other_processing", "gone", mark("other")).unwrap();
    for queue in ["q", "other"] {
        let () = trial.redis.pset_ex(format!("{queue}_sweep"), "c".repeat(16), 60_000).unwrap();
    }
    trial.push(&[mark("waits")]);
    let mut burst = trial.start(&["--queue", "other", "--burst", "--lease", "24h"]);
    let stopped = trial.ended(&mut burst);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (302, 0), "{stopped}");
    trial.ledger.assert_each_once((0..300).map(|n| n.to_string()).chain(["waits".into(), "other".into()]));
    assert_eq!(trial.left(), (0, 0));
}

#[test]
fn a_burst_does_not_wait_for_what_a_worker_with_a_lease_owns() {
    let mut trial = Trial::new();
    let () = trial.redis.hset("q_processing", slot_of('b', 0), mark("owned")).unwrap();
    let () = trial.redis.pset_ex(slot_of('b', 0), "1", 600_000).unwrap();
    let mut burst = trial.start(&["--burst"]);
    let stopped = trial.ended(&mut burst);
    assert_eq!(count(&stopped, "succeeded"), 0, "{stopped}");
    assert_eq!(trial.left(), (0, 1), "expected it to stay with its owner");
}

#[test]
fn burst_without_sweeps_ends_when_its_queue_is_empty() {
    let mut trial = Trial::new();
    let () = trial.redis.hset("q_processing", slot_of('b', 0), mark("lost")).unwrap();
    trial.push(&marks(3));
    let mut burst = trial.start(&["--burst", "--no-sweep"]);
    assert_eq!(count(&trial.ended(&mut burst), "succeeded"), 3);
    assert_eq!(trial.left(), (0, 1));

    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">word", "~*", "&*", "+@all", "-zrangebyscore"]);
    let () = user.query(&mut trial.redis).unwrap();
    let url = format!("{}?user=poor&pass=word", trial.server.url());
    let mut burst = trial.start_at(&url, &["--queue", QUEUE, "--burst"]);
    let stopped = trial.ended(&mut burst);
    assert_eq!(stopped["reason"], "Drained", "{stopped}");
    burst.wait_for_line("last sweep rejected");
}

#[test]
fn a_burst_that_finds_nothing_ends_at_once() {
    let mut trial = Trial::new();
    trial.commands();
    let mut burst = trial.start(&["--burst"]);
    trial.ended(&mut burst);
    let commands = trial.commands();
    let of = |name: &str| commands.get(name).copied().unwrap_or(0);
    // One by its turn at the start, and one before the end.
    assert!((1..=2).contains(&of("zrangebyscore")), "expected a sweep or two: {commands:?}");
    assert!(of("llen") <= 14, "expected no gap to be watched: {commands:?}");
    let took = burst.wait_exit(Duration::ZERO);
    assert_eq!(took.code(), Some(0));
}
