//! An idle worker asks for nothing and starts a task as soon as there is one.

use std::time::{Duration, Instant};

use redis::Commands;

use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, Trial, gated, mark, open};
use crate::support::wait;

#[test]
fn an_idle_worker_sends_nothing_but_signs_of_life_and_waits() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "24s", "--concurrency", "64"]);
    trial.push(&[mark("warm")]);
    trial.wait_runs(1);
    trial.wait_settled();
    // What the end of the task brings with it goes by.
    wait::pause(Duration::from_millis(500));
    trial.commands();
    let began = Instant::now();
    wait::pause(Duration::from_secs(7));
    let commands = trial.commands();
    let time = began.elapsed().as_secs_f64();
    println!("in {time:.1} s an idle worker sent {commands:?}");
    let of = |name: &str| commands.get(name).copied().unwrap_or(0);
    // A wait of 5 s with a claim behind it, beats of 6 s, and sweeps of 2 s, since that is shorter.
    assert!(of("blmove") <= (time / 5.0) as u64 + 1, "expected it to wait, not to ask: {commands:?}");
    let ours = ["blmove", "info", "config|resetstat"];
    let others: u64 =
        commands.iter().filter(|(name, _)| !ours.contains(&name.as_str())).map(|(_, n)| n).sum();
    assert!(others <= 150, "expected waits, beats and sweeps alone: {commands:?}");
    assert!(of("evalsha") <= 12, "expected beats and sweeps alone: {commands:?}");
    // A command of each; one of them may be under way.
    let (claims, beats, sweeps) = (of("hget"), of("zadd"), of("zrangebyscore"));
    // Each sweep asks for what is due, too.
    assert!(of("evalsha") <= claims + beats + 2 * sweeps + 1, "expected one script for each: {commands:?}");
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["warm"]);
    trial.assert_only(&[]);
}

#[test]
fn an_idle_worker_sweeps_nothing_while_its_beats_find_nothing() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.push(&[mark("warm")]);
    trial.wait_runs(1);
    trial.wait_settled();
    // Once in a lease, and four times while it owns, or a moment ago owned, something: then it sweeps too.
    let mut sent = |what: &str, expected: fn(u64, u64, u64) -> bool| {
        trial.commands();
        wait::until_ok(PATIENCE, || {
            wait::pause(Duration::from_secs(1));
            let commands = trial.commands();
            let of = |name: &str| commands.get(name).copied().unwrap_or(0);
            let is_so = expected(of("zadd"), of("set"), of("zrangebyscore"));
            if is_so { Ok(()) } else { Err(format!("{what}; it sent {commands:?}")) }
        });
    };
    sent("beats, and no turn and no sweep beside them", |beats, turns, sweeps| {
        (1..=2).contains(&beats) && turns + sweeps == 0
    });
    // Its connection is not forgotten by what lies between, and what no beat tells is seen all the same.
    sent("a sweep now and then", |_, turns, sweeps| turns == 1 && sweeps == 1);
    // What another left is found by the next beat.
    let () = trial.redis.hset("q_processing", "gone", mark("left")).unwrap();
    trial.wait_runs(2);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["warm", "left"]);
    trial.assert_only(&[]);
}

#[test]
fn an_idle_worker_is_known_to_live_between_its_beats() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.commands();
    let mut beats = 0;
    // Each leaves its lease for so long as it may take until the next.
    while beats < 4 {
        wait::pause(Duration::from_millis(20));
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("ZRANGE").arg(&["q_workers", "0", "-1", "WITHSCORES"]).cmd("TIME");
        let (ends, (seconds, micros)): (Vec<(String, u64)>, (u64, u64)) =
            pipe.query(&mut trial.redis).unwrap();
        let now = seconds * 1000 + micros / 1000;
        assert!(
            matches!(ends[..], [(_, end)] if end > now),
            "expected its lease to go on: {ends:?}, now {now}"
        );
        beats += trial.commands().get("zadd").copied().unwrap_or(0);
    }
    trial.stop(&mut worker);
    trial.assert_only(&[]);
}

/// How soon, `bench` measures.
#[test]
fn each_call_to_an_idle_worker_ends_its_wait() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--no-sweep"]);
    trial.commands();
    for n in 0..40 {
        wait_for_its_wait(&mut trial);
        trial.push(&[mark(n)]);
        trial.wait_runs(n + 1);
        trial.wait_settled();
    }
    // Behind its wait stands a pick-up, unless the worker was held up: then it claims.
    let commands = trial.commands();
    let count = |command| commands.get(command).copied().unwrap_or(0);
    assert!(count("blmove") >= 40, "expected a wait for each: {commands:?}");
    assert!(count("hsetnx") >= 20, "expected most to be picked up: {commands:?}");
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..40);
    trial.assert_only(&[]);
}

/// Waits until the only worker waits for a message.
fn wait_for_its_wait(trial: &mut Trial) {
    wait::until("it to wait", PATIENCE, || {
        let clients: String = redis::cmd("INFO").arg("clients").query(&mut trial.redis).unwrap();
        clients.contains("blocked_clients:1\r")
    });
}

#[test]
fn an_idle_worker_is_woken_at_whatever_address_redis_is() {
    let options = Options { tcp: true, password: Some("secret"), ..Options::default() };
    let mut trial = Trial::with(options);
    let port = trial.server.tcp_url();
    let named = port.replace("127.0.0.1", "localhost");
    for url in [trial.server.url(), format!("{port}/0?protocol=resp3"), named] {
        let mut worker = trial.worker_at(&url, &["--no-sweep"]);
        wait_for_its_wait(&mut trial);
        trial.commands();
        trial.push(&[mark(&url)]);
        trial.wait_settled();
        // By the pick-up behind its wait: a claim asks for several at once.
        let commands = trial.commands();
        assert_eq!(commands.get("hsetnx"), Some(&1), "{url}: {commands:?}");
        trial.stop(&mut worker);
    }
    assert_eq!(trial.ledger.total(), 3);
    trial.assert_only(&[]);
}

#[test]
fn full_worker_takes_the_next_call_as_soon_as_one_ends() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "1"]);
    let gate = trial.gate("gate");
    let held = gated("h", &gate);
    trial.push(&[held, mark("next")]);
    trial.wait_runs(1);
    open(&gate);
    trial.wait_runs(3);
    trial.wait_settled();
    trial.stop(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+h", "-h", "next"]);
    trial.assert_only(&[]);
}
