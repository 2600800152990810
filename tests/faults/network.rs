//! Connections are cut at random moments: nothing is lost and nothing runs twice.

use std::time::Duration;

use delayed::testing::{Fault, Mode, Proxy, Requests, Side};
use redis::Commands;
use serde_json::json;

use crate::support::redis::Options;
use crate::support::trial::{Dice, PATIENCE, Trial, alone, at_gate, call, count, gated, mark, marks, open};
use crate::support::wait;

#[test]
fn cut_connection_with_many_requests_is_one_failure() {
    const RETRIES: usize = 20;
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let gate = trial.gate("gate");
    let failing = |n: usize| at_gate("trial.gated_failing", n, &gate);
    let words = ["--concurrency", "20", "--lease", "60s", "--no-sweep", "--log-level", "info,delayed=debug"];
    let mut worker = trial.worker_at(proxy.url(), &words);
    trial.push(&(0..RETRIES).map(failing).collect::<Vec<_>>());
    trial.wait_runs(RETRIES);
    // Replies come in order: all the others stand behind the first.
    let retry = || Requests::script("retry");
    let asked = proxy.trap(Side::Request, retry().nth(u32::MAX), Fault::Drop);
    proxy.trap(Side::Reply, retry().nth(1), Fault::Hold);
    open(&gate);
    wait::until("the retries to be asked for", PATIENCE, || asked.met() as usize == RETRIES);
    proxy.cut();
    wait::until("all to be dead", PATIENCE, || trial.dead() == RETRIES);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "retried"), count(&stopped, "lost")), (3 * RETRIES as u64, 0), "{stopped}");
    let said = worker.wait_for_lines("request failed; retrying", 1);
    // What it asks next may find the same end of the connection.
    assert!(said.len() <= 3, "expected few pauses: {said:#?}");
}

#[test]
fn cut_connections_lose_nothing_and_repeat_nothing() {
    const CALLS: usize = 6_000;
    let _alone = alone();
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut dice = Dice(0xc07_0001);
    let mut calls = Vec::new();
    for n in 0..CALLS {
        let name = n.to_string();
        calls.push(match n % 50 {
            7 => call("trial.flaky", &[name.into(), 1.into()]),
            13 => call("trial.shown", &[name.into()]),
            21 => call("trial.mark_blocking", &[name.into()]),
            33 => call("trial.pair", &[json!(name)]),
            _ => call("trial.mark", &[name.into()]),
        });
    }
    trial.push(&calls);
    let mut worker = trial.worker_at(proxy.url(), &["--concurrency", "16", "--lease", "20s"]);
    // A reply takes its time, so that something is under way whenever it is cut.
    proxy.set(Mode::Delay(Duration::from_micros(500)));
    let (mut cuts, mut runs) = (0, 0);
    while runs < CALLS * 9 / 10 {
        let next = runs + 20 + dice.roll(200);
        wait::until("some more runs", PATIENCE, || {
            runs = trial.ledger.lines().len();
            runs >= next.min(CALLS * 9 / 10)
        });
        wait::pause(Duration::from_micros(dice.roll(3000) as u64));
        proxy.cut();
        cuts += 1;
    }
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    println!(
        "{cuts} cuts; the worker reconciled {} times",
        worker.printed().matches("requests reconciled").count()
    );
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    let names = (0..CALLS).filter(|n| n % 50 != 33).flat_map(|n| match n % 50 {
        7 => vec![format!("{n} 1"), format!("{n} 2")],
        _ => vec![n.to_string()],
    });
    trial.ledger.assert_each_once(names);
    assert_eq!(trial.dead(), CALLS / 50 * 2, "expected each failure to be dead, once");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn connections_that_are_refused_for_a_while_and_slow_ones() {
    let mut trial = Trial::with(Options { tcp: true, ..Options::default() });
    let proxy = Proxy::to(&trial.server.tcp_url()).unwrap();
    let mut worker = trial.worker_at(proxy.url(), &["--concurrency", "4", "--lease", "20s"]);
    trial.push(&marks(100));
    trial.wait_runs(20);
    proxy.set(Mode::Refuse);
    proxy.cut();
    worker.wait_for_line("failed; retrying");
    wait::pause(Duration::from_millis(700));
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    trial.wait_runs(100);
    trial.wait_settled();
    proxy.set(Mode::Pass);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (100, 0), "{stopped}");
    trial.ledger.assert_each_once(0..100);
    trial.assert_only(&[]);
}

#[test]
fn a_network_that_holds_everything_for_longer_than_the_time_out() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut worker = trial.worker_at(proxy.url(), &["--concurrency", "4", "--lease", "30s"]);
    let gate = trial.gate("gate");
    let held = |n: u32| gated(n, &gate);
    trial.push(&[held(0), held(1)]);
    trial.push(&marks(20));
    trial.wait_runs(22);
    proxy.set(Mode::Hold);
    open(&gate);
    worker.wait_for_line("failed; retrying");
    proxy.set(Mode::Pass);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (22, 0), "{stopped}");
    let both = (0..2).flat_map(|n| [format!("+{n}"), format!("-{n}")]);
    trial.ledger.assert_each_once(both.chain((2..20).map(|n| n.to_string())).chain(["0".into(), "1".into()]));
    trial.assert_only(&[]);
}

#[test]
fn a_worker_with_a_short_lease_starts_over_a_slow_network() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    // There and back it takes longer than a beat may later on, which is a quarter of the lease.
    proxy.set(Mode::Delay(Duration::from_millis(200)));
    let mut worker = trial.worker_at(proxy.url(), &["--lease", "1s"]);
    proxy.set(Mode::Pass);
    trial.push(&marks(3));
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..3);
    trial.assert_only(&[]);
}

#[test]
fn worker_whose_heartbeats_alone_are_lost_works_and_sweeps() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let mut worker = trial.worker_at(proxy.url(), &["--lease", "1s"]);
    let beats = proxy.trap(Side::Request, Requests::script("beat"), Fault::End);
    worker.wait_for_line("\"request\":\"heartbeat\"");
    // While it owns nothing, nobody can run what it owns.
    assert!(!worker.printed().contains("lease ended"), "{}", worker.printed());
    // The sweep that it begins with may find one of them.
    for n in 0..3 {
        let () = trial.redis.hset("q_processing", format!("gone{n}"), mark(n)).unwrap();
        trial.wait_runs(n + 1);
    }
    trial.push(&[mark(3)]);
    trial.wait_runs(4);
    trial.wait_settled();
    beats.release();
    trial.stop(&mut worker);
    assert!(!worker.printed().contains("lease ended"), "{}", worker.printed());
    trial.ledger.assert_each_once(0..4);
    trial.assert_only(&[]);
}
