//! A message that takes its worker down, beside others that do not.

use delayed::testing::{Fault, Proxy, Requests, Side, Trap};
use redis::Commands;

use crate::support::process::Program;
use crate::support::redis::snapshot;
use crate::support::trial::{PATIENCE, Trial, at_gate, call, count, gated, mark, open};
use crate::support::wait;

/// Nobody but the worker brings anything back, and it tells soon and often that it lives.
const ALONE: [&str; 3] = ["--no-sweep", "--lease", "1s"];
/// So many slots that a second claim is made beside one that is under way, when half of them are free.
const SLOTS: usize = 18;

/// A call that waits at a gate of that name.
fn at_own_gate(trial: &Trial, name: &str) -> Vec<u8> {
    gated(name, &trial.gate(name))
}

/// Notes that two processes died while they owned this message, a minute ago, and two more while they ran it alone: it is
/// buried when that happens once more.
fn two_died_of(trial: &mut Trial, message: &[u8]) {
    let died = redis::Script::new(
        "local at = redis.call('TIME')[1] - 60
        redis.call('HSET', KEYS[1], redis.sha1hex(ARGV[1]), '2 ' .. at .. '000 =2 this that')",
    );
    let () = died.key("q_deaths").arg(message).invoke(&mut trial.redis).unwrap();
}

/// Waits until the worker has given `count` more signs of life.
fn beats(trial: &mut Trial, count: usize) {
    let mut last = trial.redis.zrange_withscores::<_, Vec<(String, u64)>>("q_workers", 0, -1).unwrap();
    for _ in 0..count {
        wait::until("a sign of life", PATIENCE, || {
            let now = trial.redis.zrange_withscores("q_workers", 0, -1).unwrap();
            std::mem::replace(&mut last, now) != last
        });
    }
}

#[test]
fn look_alikes_that_only_stood_by_are_forgiven() {
    let mut trial = Trial::new();
    let poison = call("trial.double_panic", &["poison".into()]);
    let gate = trial.gate("gate");
    let alike = gated("alike", &gate);
    // All alike to the byte, and owned by a process that dies of something else.
    trial.push(&vec![alike; 20]);
    let mut worker = trial.worker(&["--concurrency", "21", "--lease", "1s"]);
    trial.wait_runs(20);
    trial.push(&[&poison]);
    assert!(!worker.wait_exit(PATIENCE).success(), "expected it to die");
    open(&gate);
    // From here on one at a time: each death is that of the poison alone.
    let mut deaths = 1;
    let mut worker = loop {
        let mut worker = trial.worker(&["--concurrency", "1", "--lease", "1s"]);
        crate::support::wait::until("a death, or the end of all", PATIENCE, || {
            worker.has_ended() || trial.dead() > 0
        });
        if !worker.has_ended() {
            break worker;
        }
        deaths += 1;
        assert!(deaths <= 5, "expected the poison to be dead after five: {}", worker.printed());
    };
    trial.push(&[mark("after")]);
    trial.wait_settled();
    trial.stop(&mut worker);
    let state = trial.state();
    let dead: Vec<_> = state.dead.iter().map(|letter| letter["message"].clone()).collect();
    assert_eq!(dead, [poison], "expected the poison and nothing else: {state:#?}");
    let executions = trial.ledger.executions();
    assert_eq!(
        (executions["poison"], executions["after"], executions["-alike"]),
        (5, 1, 20),
        "{executions:?}"
    );
    assert!(state.deaths.is_empty(), "expected success to forgive them: {state:#?}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_is_found_after_a_broken_connection_runs_alone_too() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let (one, other) = (at_own_gate(&trial, "one"), mark("other"));
    two_died_of(&mut trial, &one);
    two_died_of(&mut trial, &other);
    trial.push(&[one, other.clone()]);
    // Its first.
    let trap = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::End);
    let mut worker = trial.worker_at(proxy.url(), &[&ALONE[..], &["--concurrency", "2"]].concat());
    trial.wait_runs(1);
    assert_eq!(trap.struck(), 1, "expected the claim to be cut");
    beats(&mut trial, 3);
    assert_eq!(trial.state().waiting, [other], "expected nothing to be claimed beside it");
    open(&trial.gate("one"));
    trial.wait_settled();
    trial.stop(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+one", "-one", "other"]);
    trial.assert_only(&[]);
}

/// What keeps the worker busy until its gate is opened.
fn busy() -> impl Iterator<Item = String> {
    (0..SLOTS).map(|n| format!("busy {n}"))
}

/// A worker that has claimed these two by two claims that were under way together, and has not heard of either.
/// Two processes died of each. When the first reply is let go, it is `told` of the other too, or its connection breaks.
fn claims_both(trial: &mut Trial, proxy: &Proxy, one: &[u8], other: &[u8], told: bool) -> (Program, Trap) {
    let slots = SLOTS.to_string();
    let worker = trial.worker_at(proxy.url(), &[&ALONE[..], &["--concurrency", &slots]].concat());
    let calls: Vec<_> = busy().map(|name| at_own_gate(trial, &name)).collect();
    trial.push(&calls);
    trial.wait_runs(SLOTS);
    let held = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::Hold);
    if !told {
        proxy.trap(Side::Reply, Requests::script("claim").nth(2), Fault::End);
    }
    two_died_of(trial, one);
    two_died_of(trial, other);
    trial.push(&[one, other]);
    let mut gates = busy();
    for (count, message) in [(1, one), (SLOTS - 1, other)] {
        gates.by_ref().take(count).for_each(|gate| open(&trial.gate(&gate)));
        wait::until("it to be claimed", PATIENCE, || owned(trial).iter().any(|owned| owned == message));
    }
    (worker, held)
}

/// The lines that those who kept the worker busy leave.
fn begun_and_ended() -> impl Iterator<Item = String> {
    busy().flat_map(|name| [format!("+{name}"), format!("-{name}")])
}

fn owned(trial: &mut Trial) -> Vec<Vec<u8>> {
    trial.state().processing.into_values().collect()
}

#[test]
fn of_two_that_are_to_run_alone_one_is_put_back() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let (one, other) = (at_own_gate(&trial, "one"), mark("other"));
    let (mut worker, held) = claims_both(&mut trial, &proxy, &one, &other, true);
    held.release();
    trial.wait_runs(2 * SLOTS + 1);
    beats(&mut trial, 3);
    assert_eq!(trial.state().waiting, [other], "expected nothing to be claimed beside the one");
    assert_eq!(owned(&mut trial), [one], "expected the one to go on");
    open(&trial.gate("one"));
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(begun_and_ended().chain(["+one", "-one", "other"].map(String::from)));
    assert_eq!(trial.ledger.lines().last().unwrap(), "other", "expected it to run after the one");
    trial.assert_only(&[]);
}

#[test]
fn a_poison_begins_when_the_other_has_been_put_back() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let (poison, other) = (call("trial.double_panic", &["poison".into()]), mark("other"));
    let (mut worker, held) = claims_both(&mut trial, &proxy, &poison, &other, false);
    // It hears of the poison, and of the other only when it asks.
    held.release();
    assert!(!worker.wait_exit(PATIENCE).success(), "expected it to die");
    assert_eq!(
        owned(&mut trial),
        std::slice::from_ref(&poison),
        "expected it to own nothing else when it died"
    );
    assert_eq!(trial.state().waiting, [other], "expected the other to wait");
    let mut second = trial.worker(&["--lease", "1s"]);
    wait::until("the third death to be counted", PATIENCE, || trial.dead() > 0);
    trial.wait_settled();
    trial.stop(&mut second);
    let dead: Vec<_> = trial.state().dead.into_iter().map(|letter| letter["message"].clone()).collect();
    assert_eq!(dead, [poison], "expected the poison alone");
    trial.ledger.assert_each_once(begun_and_ended().chain(["poison", "other"].map(String::from)));
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_suspect_that_wakes_a_worker_runs_alone() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let suspect = at_own_gate(&trial, "suspect");
    two_died_of(&mut trial, &suspect);
    let picked_up = proxy.trap(Side::Reply, Requests::script("pick_up").nth(1), Fault::Hold);
    let mut worker = trial.worker_at(proxy.url(), &[&ALONE[..], &["--concurrency", "2"]].concat());
    wait::until("a claim to stand behind the wait", PATIENCE, || picked_up.met() == 1);
    trial.push(&[suspect.clone(), mark("behind")]);
    wait::until("it to be picked up", PATIENCE, || picked_up.struck() == 1);
    picked_up.release();
    trial.wait_runs(1);
    beats(&mut trial, 2);
    assert_eq!(owned(&mut trial), [suspect], "expected it to be alone");
    open(&trial.gate("suspect"));
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (2, 0), "{stopped}");
    assert_eq!(trial.ledger.lines(), ["+suspect", "-suspect", "behind"]);
}

#[test]
fn a_poison_begins_when_what_has_ended_is_released() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let (poison, held) = (call("trial.double_panic", &["poison".into()]), at_own_gate(&trial, "held"));
    let mut worker = trial.worker_at(proxy.url(), &[&ALONE[..], &["--concurrency", "2"]].concat());
    trial.push(&[held]);
    trial.wait_runs(1);
    let claim = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::Hold);
    two_died_of(&mut trial, &poison);
    trial.push(&[&poison]);
    wait::until("it to be claimed", PATIENCE, || claim.struck() == 1);
    // This one ends while the worker has not heard of the poison, and half of its slots are too few for another claim.
    open(&trial.gate("held"));
    trial.wait_runs(2);
    beats(&mut trial, 2);
    assert_eq!(owned(&mut trial).len(), 2, "expected neither to be released");
    let release = proxy.trap(Side::Request, Requests::script("claim").nth(1), Fault::Hold);
    claim.release();
    wait::until("the release to be asked for", PATIENCE, || release.struck() == 1 || worker.has_ended());
    beats(&mut trial, 2);
    assert_eq!(trial.ledger.total(), 2, "expected the poison to wait for the answer");
    release.release();
    assert!(!worker.wait_exit(PATIENCE).success(), "expected it to die");
    assert_eq!(owned(&mut trial), [poison], "expected it to own nothing else when it died");
    assert_eq!(trial.ledger.lines(), ["+held", "-held", "poison"]);
}

/// A worker that has not heard yet of a poison that it has claimed, and asks for the retry of what failed meanwhile: the
/// traps that hold the one's reply, and the other's request.
fn fails_beside(trial: &mut Trial, proxy: &Proxy, poison: &[u8]) -> (Program, Trap, Trap) {
    let gate = trial.gate("held");
    let failing = at_gate("trial.gated_failing", "held", &gate);
    let worker = trial.worker_at(proxy.url(), &[&ALONE[..], &["--concurrency", "2"]].concat());
    trial.push(&[failing]);
    trial.wait_runs(1);
    let claim = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::Hold);
    let retry = proxy.trap(Side::Request, Requests::script("retry").nth(1), Fault::Hold);
    two_died_of(trial, poison);
    trial.push(&[poison]);
    wait::until("it to be claimed", PATIENCE, || claim.struck() == 1);
    open(&gate);
    wait::until("the retry to be asked for", PATIENCE, || retry.struck() == 1);
    (worker, claim, retry)
}

/// The retry waits, and the poison alone was owned when it took its worker down.
#[track_caller]
fn died_of_it_alone(trial: &mut Trial, worker: &mut Program, poison: &[u8]) {
    assert!(!worker.wait_exit(PATIENCE).success(), "expected it to die");
    assert_eq!(owned(trial), [poison], "expected it to own nothing else when it died");
    assert_eq!(trial.left(), (1, 1), "expected the retry to wait");
    assert_eq!(trial.ledger.lines(), ["+held", "-held", "poison"]);
}

#[test]
fn a_poison_begins_when_a_retry_that_was_refused_is_done() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let poison = call("trial.double_panic", &["poison".into()]);
    let (mut worker, claim, retry) = fails_beside(&mut trial, &proxy, &poison);
    let replica_of = |trial: &mut Trial, host: &str, port: &str| {
        let () = redis::cmd("REPLICAOF").arg(host).arg(port).query(&mut trial.redis).unwrap();
    };
    // It rejects writes.
    replica_of(&mut trial, "127.0.0.1", "1");
    let again = proxy.trap(Side::Request, Requests::script("retry").nth(u32::MAX), Fault::Drop);
    claim.release();
    retry.release();
    wait::until("the retry to be refused", PATIENCE, || again.met() >= 3 || worker.has_ended());
    assert_eq!(trial.ledger.total(), 2, "expected the poison to wait for the retry");
    assert_eq!(owned(&mut trial).len(), 2, "expected neither to be settled");
    replica_of(&mut trial, "NO", "ONE");
    died_of_it_alone(&mut trial, &mut worker, &poison);
}

#[test]
fn a_poison_begins_when_it_is_known_what_became_of_a_retry() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let poison = call("trial.double_panic", &["poison".into()]);
    let (mut worker, claim, _) = fails_beside(&mut trial, &proxy, &poison);
    claim.release();
    // It hears of the poison meanwhile.
    beats(&mut trial, 2);
    let asked = proxy.trap(Side::Request, Requests::script("reconcile").nth(1), Fault::Hold);
    proxy.cut();
    wait::until("it to ask", PATIENCE, || asked.struck() == 1 || worker.has_ended());
    assert_eq!(trial.ledger.total(), 2, "expected the poison to wait for the answer");
    assert_eq!(owned(&mut trial).len(), 2, "expected neither to be settled");
    asked.release();
    died_of_it_alone(&mut trial, &mut worker, &poison);
}

/// A suspect runs while another queue of its worker refuses what has ended there, until that is mended.
#[track_caller]
fn runs_beside_a_refusal(
    refuse: impl FnOnce(&mut redis::Connection),
    mend: impl FnOnce(&mut redis::Connection),
) {
    let mut trial = Trial::new();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">secret", "~*", "&*", "+@all"]);
    let () = user.query(&mut trial.redis).unwrap();
    let url = format!("{}?user=poor&pass=secret", trial.server.url());
    let gate = trial.gate("gate");
    let failing = |name: &str| at_gate("trial.gated_failing", name, &gate);
    let mut worker = trial.worker_at(
        &url,
        &[&ALONE[..], &["--queue", "other", "--concurrency", "4", "--log-level", "delayed=debug"]].concat(),
    );
    trial.push_to("other", &[failing("a"), failing("b")]);
    trial.wait_runs(2);
    refuse(&mut trial.redis);
    open(&gate);
    worker.wait_for_lines("request failed; retrying", 2);
    let suspect = mark("suspect");
    two_died_of(&mut trial, &suspect);
    trial.push(&[suspect, mark("behind")]);
    // Each of the two has begun and ended.
    trial.wait_runs(6);
    assert_eq!(trial.redis.hlen::<_, u64>("other_processing").unwrap(), 2, "expected both to be owned still");
    mend(&mut trial.redis);
    // Each has three retries.
    wait::until("both to be dead", PATIENCE, || snapshot(&mut trial.redis, "other").dead.len() == 2);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "retried"), count(&stopped, "lost")), (6, 0), "{stopped}");
    assert_eq!(trial.ledger.executions()["suspect"], 1);
}

#[test]
fn refusal_in_one_queue_keeps_no_suspect_of_another() {
    let refuse = |redis: &mut redis::Connection| {
        let () = redis.del("other_noti").unwrap();
        let () = redis.set("other_noti", "x").unwrap();
    };
    runs_beside_a_refusal(refuse, |redis| redis.del("other_noti").unwrap());
}

#[test]
fn missing_right_in_a_script_keeps_no_suspect_of_another_queue() {
    let rule = |redis: &mut redis::Connection, rule: &str| {
        let () = redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rule).query(redis).unwrap();
    };
    // A retry asks whether the slot owns something; a claim does not.
    runs_beside_a_refusal(|redis| rule(redis, "-hexists"), |redis| rule(redis, "+hexists"));
}

#[test]
fn innocents_beside_a_poison_are_not_buried_with_it() {
    for alike in [false, true] {
        let mut trial = Trial::new();
        let poison = call("trial.double_panic", &["poison".into()]);
        let innocent = |n: usize| mark(if alike { 0 } else { n });
        let mut messages: Vec<_> = (0..40).map(innocent).collect();
        messages.insert(20, poison.clone());
        trial.push(&messages);
        loop {
            let mut worker = trial.worker(&["--concurrency", "8", "--lease", "1s"]);
            wait::until("a death, or the end of all", PATIENCE, || {
                worker.has_ended() || trial.left() == (0, 0)
            });
            if !worker.has_ended() {
                break;
            }
        }
        let dead: Vec<_> = trial.state().dead.into_iter().map(|letter| letter["message"].clone()).collect();
        assert_eq!(dead, [poison], "expected the poison alone, alike: {alike}");
    }
}

#[test]
fn prefetched_suspect_does_not_run_beside_a_full_worker() {
    let mut trial = Trial::new();
    let (held, suspect) = (at_own_gate(&trial, "held"), mark("suspect"));
    let mut worker = trial.worker(&[&ALONE[..], &["--concurrency", "1", "--prefetch", "8"]].concat());
    trial.push(&[held]);
    trial.wait_runs(1);
    two_died_of(&mut trial, &suspect);
    trial.push(&[suspect]);
    // Not what there was since the last look: it may come between that and the reset.
    wait::until("it to be put back", PATIENCE, || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut trial.redis).unwrap();
        stats.contains("cmdstat_lpush:") && trial.left() == (1, 1)
    });
    trial.commands();
    beats(&mut trial, 4);
    assert_eq!(trial.left(), (1, 1), "expected it to stay there");
    assert!(!trial.commands().contains_key("lpush"), "expected it not to be claimed again");
    open(&trial.gate("held"));
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "put_back")), (2, 1), "{stopped}");
    assert_eq!(trial.ledger.lines(), ["+held", "-held", "suspect"]);
}
