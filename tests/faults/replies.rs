//! Redis did what it was asked, and nobody was told: the worker finds out, and waits for no lease.

use std::time::{Duration, Instant};

use delayed::testing::{Fault, Requests, Side};
use nix::sys::signal::Signal;
use redis::Commands;

use crate::support::trial::{PATIENCE, Trial, call, count, gated, mark, marks, message, open};
use crate::support::wait;

/// No lease ends within a test.
const LEASE: [&str; 2] = ["--lease", "120s"];

/// Runs `messages` and loses what `script` has to say at its `nth` call. Gives the trial after a good end.
#[track_caller]
fn loses(lose: Side, script: &str, nth: u32, messages: &[Vec<u8>], runs: &[&str]) -> Trial {
    loses_of(&[], lose, script, nth, messages, runs)
}

/// The same, of a worker that was given more words.
#[track_caller]
fn loses_of(
    words: &[&str],
    lose: Side,
    script: &str,
    nth: u32,
    messages: &[Vec<u8>],
    runs: &[&str],
) -> Trial {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut words = [&LEASE[..], &["--concurrency", "4"], words].concat();
    // A token that was in hand for a claim that never arrived is the sweeper's to replace.
    words.extend((lose == Side::Reply).then_some("--no-sweep"));
    let mut worker = trial.worker_at(proxy.url(), &words);
    // All scripts are known to Redis from here on, and nothing is left of this.
    let trap = proxy.trap(lose, Requests::script(script).nth(nth), Fault::End);
    let began = Instant::now();
    trial.push(messages);
    trial.wait_runs(runs.len());
    trial.wait_settled();
    let took = began.elapsed();
    println!("{lose:?} of {script} number {nth}: all had run after {took:?}");
    // Redis may have done the last of it, and its answer be on the way still.
    wait::until(&format!("one {script} to be cut"), PATIENCE, || trap.struck() == 1);
    assert!(took < Duration::from_secs(20), "expected nothing to wait for a lease, it took {took:?}");
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    trial.ledger.assert_each_once(runs);
    trial
}

#[test]
fn what_a_claim_gave_runs_once() {
    for lose in [Side::Reply, Side::Request] {
        // The first claim is made at the start; one message is picked up, and later claims are for the others, and release.
        for (script, nth) in [("claim", 1), ("pick_up", 1), ("claim", 2), ("claim", 3)] {
            let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
            let runs: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut trial = loses(lose, script, nth, &marks(12), &runs);
            trial.assert_only(&[]);
        }
    }
}

#[test]
fn what_came_in_one_string_runs_once() {
    for lose in [Side::Reply, Side::Request] {
        // Claims of some twenty, whose messages come in one string.
        for nth in [2, 3] {
            let names: Vec<String> = (0..80).map(|n| n.to_string()).collect();
            let runs: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut trial = loses_of(&["--prefetch", "40"], lose, "claim", nth, &marks(80), &runs);
            trial.assert_only(&[]);
        }
    }
}

#[test]
fn what_a_claim_gave_is_ours_however_long_its_reply_takes() {
    for lost in [false, true] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let _sweeper = trial.sweeper(&["--interval", "50ms"]);
        trial.push(&marks(12));
        let claim = Requests::script("claim").nth(1);
        let held = if lost {
            proxy.trap(Side::Reply, claim, Fault::End);
            proxy.trap(Side::Request, Requests::script("reconcile").nth(1), Fault::Hold)
        } else {
            proxy.trap(Side::Reply, claim, Fault::Hold)
        };
        let words = ["--concurrency", "12", "--lease", "2s", "--no-sweep"];
        let mut worker = trial.worker_at(proxy.url(), &words);
        wait::until("the claim to be held", PATIENCE, || held.struck() == 1);
        assert_eq!(trial.left(), (0, 12), "expected them to be owned");
        // It beats all the while.
        wait::pause(Duration::from_secs(3));
        assert_eq!(trial.left(), (0, 12), "expected nobody else to have got them");
        held.release();
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (12, 0), "{stopped}");
        trial.ledger.assert_each_once(0..12);
        trial.assert_only(&[]);
    }
}

#[test]
fn success_clears_a_suspect_also_when_its_claim_was_in_doubt() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    // With a second queue no claim stands behind the wait: the one that is cut is made when the token has come.
    let words = [&LEASE[..], &["--no-sweep", "--queue", "other"]].concat();
    let mut worker = trial.worker_at(proxy.url(), &words);
    trial.push(&[mark("first")]);
    trial.wait_runs(1);
    trial.wait_settled();
    let suspect = mark("suspect");
    let died = redis::Script::new("redis.call('HSET', KEYS[1], redis.sha1hex(ARGV[1]), '1 1 somebody')");
    let () = died.key("q_deaths").arg(&suspect).invoke(&mut trial.redis).unwrap();
    let trap = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::End);
    trial.push(&[suspect]);
    trial.wait_runs(2);
    trial.wait_settled();
    assert_eq!(trap.struck(), 1, "expected the claim to be cut");
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["first", "suspect"]);
    trial.assert_only(&[]);
}

#[test]
fn what_was_retried_runs_once_more() {
    for lose in [Side::Reply, Side::Request] {
        let messages = [call("trial.flaky", &["a".into(), 2.into()]), mark("b")];
        let mut trial = loses(lose, "retry", 1, &messages, &["a 1", "a 2", "a 3", "b"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn retry_after_redis_forgot_the_worker_is_not_run_too_early() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut worker = trial.worker_at(proxy.url(), &[&LEASE[..], &["--no-sweep"]].concat());
    let lost = proxy.trap(Side::Request, Requests::script("retry").nth(1), Fault::End);
    let asked = proxy.trap(Side::Request, Requests::script("reconcile").nth(1), Fault::Hold);
    trial.push(&[call("trial.flaky", &["a".into(), 1.into()])]);
    wait::until("it to ask what became of the retry", PATIENCE, || asked.struck() == 1);
    assert_eq!((lost.struck(), trial.left()), (1, (0, 1)), "expected it to be owned still");
    let keys: Vec<String> = trial.redis.keys("q:*").unwrap();
    let hash = keys.iter().find(|key| key.matches(':').count() == 1).expect("the worker has a hash");
    let () = trial.redis.hdel(hash, "seq").unwrap();
    asked.release();
    trial.wait_runs(2);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "retried"), count(&stopped, "lost")), (1, 0), "{stopped}");
    trial.ledger.assert_each_once(["a 1", "a 2"]);
    trial.assert_only(&[]);
}

#[test]
fn what_was_buried_is_dead_once() {
    for lose in [Side::Reply, Side::Request] {
        let messages = [call("trial.shown", &["a".into()]), mark("b"), call("trial.shown", &["c".into()])];
        let mut trial = loses(lose, "bury", 1, &messages, &["a", "b", "c"]);
        assert_eq!(trial.dead(), 2, "{:#?}", trial.state().dead);
        trial.assert_only(&["q_dead"]);
    }
}

#[test]
fn what_could_not_be_buried_is_not_run_again() {
    for lose in [Side::Reply, Side::Request] {
        let mut trial = Trial::new();
        let () = trial.redis.set("q_dead", "x").unwrap();
        let proxy = trial.server.proxy();
        let mut worker = trial.worker_at(proxy.url(), &LEASE);
        let trap = proxy.trap(lose, Requests::script("bury").nth(1), Fault::End);
        trial.push(&[call("trial.shown", &["a".into()]), mark("b")]);
        worker.wait_for_line("rename or delete it");
        assert_eq!(trap.struck(), 1, "expected one bury to be cut");
        trial.wait_runs(2);
        let () = trial.redis.del("q_dead").unwrap();
        trial.wait_settled();
        assert_eq!(trial.dead(), 1, "{:#?}", trial.state().dead);
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(["a", "b"]);
        trial.assert_only(&["q_dead"]);
    }
}

#[test]
fn large_messages_of_a_claim_in_doubt_run_once() {
    // Of 30 MB in all: no reply of `reconcile` has so much.
    let length = |n: usize| (1 << 20) + n;
    let messages: Vec<Vec<u8>> = (0..30)
        .map(|n| {
            let mut payload = Vec::new();
            rmp::encode::write_bin(&mut payload, &vec![0; length(n)]).unwrap();
            message("trial.length", &payload)
        })
        .collect();
    let lengths: Vec<String> = (0..30).map(|n| length(n).to_string()).collect();
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let words = [&LEASE[..], &["--concurrency", "64", "--no-sweep"]].concat();
    // All wait when it claims: one claim takes them.
    trial.push(&messages);
    let trap = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::End);
    let mut worker = trial.worker_at(proxy.url(), &words);
    trial.wait_runs(30);
    trial.wait_settled();
    assert_eq!(trap.struck(), 1, "expected the claim to be cut");
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    trial.ledger.assert_each_once(lengths);
    trial.assert_only(&[]);
}

#[test]
fn what_is_put_back_at_the_end_is_there_once() {
    for lose in [Side::Reply, Side::Request] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let words = [&LEASE[..], &["--concurrency", "4", "--shutdown", "100ms"]].concat();
        let mut worker = trial.worker_at(proxy.url(), &words);
        let gate = trial.gate("gate");
        let held = |n: u32| gated(n, &gate);
        let messages: Vec<_> = (0..4).map(held).collect();
        trial.push(&messages);
        trial.wait_runs(4);
        let trap = proxy.trap(lose, Requests::script("put_back").nth(1), Fault::End);
        worker.signal(Signal::SIGTERM);
        let stopped = trial.ended(&mut worker);
        assert_eq!(trap.struck(), 1, "expected one put_back to be cut");
        let state = trial.state();
        assert_eq!(state.waiting.len(), 4, "{lose:?}: {state:#?}");
        assert!(messages.iter().all(|message| state.waiting.contains(message)), "{state:#?}");
        assert_eq!((count(&stopped, "put_back"), count(&stopped, "lost")), (4, 0), "{lose:?}: {stopped}");
        trial.assert_only(&["q", "q_noti"]);
        open(&gate);
    }
}

#[test]
fn what_is_put_back_for_other_workers_is_there_once() {
    const SLOTS: usize = 4;
    for lose in [Side::Reply, Side::Request] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        println!("{lose:?}");
        let foreign: Vec<_> = (0..SLOTS).map(|n| call("trial.of_others", &[n.into()])).collect();
        trial.push(&foreign);
        let trap = proxy.trap(lose, Requests::script("put_back").nth(1), Fault::End);
        let asked = proxy.trap(Side::Request, Requests::script("reconcile").nth(1), Fault::Hold);
        let slots = SLOTS.to_string();
        let words = ["--no-sweep", "--unknown", "requeue", "--prefetch", "0", "--concurrency", &slots];
        let mut worker = trial.worker_at(proxy.url(), &[&LEASE[..], &words].concat());
        wait::until("it to ask what became of them", PATIENCE, || asked.struck() == 1);
        let (state, all) = (trial.state(), foreign.len());
        let expected = if lose == Side::Reply { (all, all as u64, 0) } else { (0, 0, all) };
        assert_eq!(
            (state.waiting.len(), state.tokens, state.processing.len()),
            expected,
            "{lose:?}: {state:#?}"
        );
        assert_eq!(trap.struck(), 1, "expected one put_back to be cut");
        trial.commands();
        asked.release();
        worker.wait_for_line("requests reconciled");
        trial.stop_all_free(&mut worker, SLOTS, &foreign);
        assert!(!trial.commands().contains_key("lpush"), "expected them to go to the tail");
    }
}

#[test]
fn a_reply_that_is_lost_again_and_again() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let words = [&LEASE[..], &["--concurrency", "2"]].concat();
    let mut worker = trial.worker_at(proxy.url(), &words);
    trial.push(&[mark("first")]);
    trial.wait_runs(1);
    trial.wait_settled();
    let trap = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::End);
    trial.push(&marks(6));
    wait::until("a lost claim", PATIENCE, || trap.struck() == 1);
    let mut cuts = 1;
    for _ in 0..3 {
        // The answer of the reconciliation is lost too, or it had come already: then the next claim's.
        let trap = proxy.trap(Side::Reply, Requests::script("reconcile").nth(1), Fault::End);
        let done = || trial.ledger.lines().len() == 7;
        wait::until("a lost answer", PATIENCE, || trap.struck() == 1 || done());
        cuts += trap.struck();
    }
    trial.wait_runs(7);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    println!("{cuts} connections were cut");
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    trial.ledger.assert_each_once((0..6).map(|n| n.to_string()).chain(["first".to_owned()]));
    trial.assert_only(&[]);
}
