//! Redis is killed and comes back, or stops answering: work goes on, nothing is lost.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, Trial, alone, at_gate, call, count, gated, mark, marks, open, ready};
use crate::support::wait;

fn durable() -> Options {
    Options {
        append_only: true,
        extra: ["--appendfsync", "always"].map(Into::into).into(),
        ..Options::default()
    }
}

#[test]
fn redis_is_killed_in_the_middle_of_20_000_tasks() {
    const CALLS: usize = 20_000;
    const SLOTS: u32 = 16;
    let _alone = alone();
    let mut trial = Trial::with(durable());
    trial.push(&marks(CALLS));
    let mut worker = trial.worker(&["--concurrency", "16"]);
    for kill in 1..=2 {
        wait::until("some runs", PATIENCE, || trial.ledger.lines().len() >= kill * 6_000);
        trial.server.kill();
        trial.server.restart();
        let (began, runs) = (Instant::now(), trial.ledger.lines().len());
        wait::until("runs to go on", PATIENCE, || trial.ledger.lines().len() > runs + 100);
        let took = began.elapsed();
        println!("work went on {took:?} after Redis answered again");
        assert!(took <= Duration::from_secs(5), "expected at most 5 s, it took {took:?}");
    }
    trial.redis = trial.server.connection();
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    println!("{} runs of {CALLS} calls", trial.ledger.total());
    assert!(count(&stopped, "lost") <= u64::from(2 * SLOTS), "{stopped}");
    trial.ledger.assert_each_at_least_once(0..CALLS, 2 * SLOTS);
    trial.assert_only(&[]);
}

#[test]
fn runs_that_end_during_an_outage_are_settled_after_it() {
    let mut trial = Trial::with(durable());
    let gate = trial.gate("gate");
    let held = |task: &str, n: u32| at_gate(task, n, &gate);
    let mut worker = trial.worker(&["--concurrency", "3"]);
    let flaky = call("trial.flaky", &["again".into(), 1.into()]);
    trial.push(&[held("trial.gated", 0), held("trial.gated_blocking", 1)]);
    trial.wait_runs(2);
    trial.server.kill();
    open(&gate);
    trial.wait_runs(4);
    trial.server.restart();
    trial.redis = trial.server.connection();
    trial.push(&[flaky, mark("after")]);
    trial.wait_runs(7);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (4, 0), "{stopped}");
    trial.ledger.assert_each_once(["+0", "-0", "+1", "-1", "again 1", "again 2", "after"]);
    trial.assert_only(&[]);
}

#[test]
fn redis_is_away_until_the_pauses_of_its_worker_are_long() {
    let mut trial = Trial::with(durable());
    let gate = trial.gate("gate");
    let words = ["--concurrency", "1", "--lease", "60s", "--log-level", "delayed=debug"];
    let mut worker = trial.worker(&words);
    trial.push(&[gated("held", &gate)]);
    trial.wait_runs(1);
    trial.server.kill();
    open(&gate);
    // A pause that went on doubling would be 12 s by then.
    worker.wait_for_lines("request failed; retrying", 10);
    trial.server.restart();
    let began = Instant::now();
    trial.redis = trial.server.connection();
    trial.push(&[mark("after")]);
    trial.wait_runs(3);
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(5), "expected at most 5 s, it took {took:?}");
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+held", "-held", "after"]);
    trial.assert_only(&[]);
}

#[test]
fn redis_stops_for_eight_seconds() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "4", "--lease", "20s"]);
    let held = |n: u32| gated(n, &gate);
    trial.push(&[held(0), held(1), held(2), held(3)]);
    trial.push(&marks(50));
    trial.wait_runs(4);
    trial.server.pause();
    open(&gate);
    wait::pause(Duration::from_secs(8));
    trial.server.resume();
    let began = Instant::now();
    trial.wait_runs(58);
    trial.wait_settled();
    println!("all was settled {:?} after Redis went on", began.elapsed());
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (54, 0), "{stopped}");
    let both = (0..4).flat_map(|n| [format!("+{n}"), format!("-{n}")]);
    trial.ledger.assert_each_once(both.chain((0..50).map(|n| n.to_string())));
    trial.assert_only(&[]);
}

#[test]
fn redis_stops_for_longer_than_the_lease_of_an_idle_worker() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.push(&[mark("before")]);
    trial.wait_runs(1);
    trial.wait_settled();
    trial.server.pause();
    wait::pause(Duration::from_millis(5500));
    trial.server.resume();
    trial.push(&marks(20));
    trial.wait_runs(21);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    trial.ledger.assert_each_once((0..20).map(|n| n.to_string()).chain(["before".to_owned()]));
    trial.assert_only(&[]);
}

#[test]
fn a_worker_of_many_queues_asks_a_silent_redis_once_and_ends() {
    const QUEUES: usize = 20;
    let trial = Trial::new();
    let names: Vec<String> = (0..QUEUES).map(|n| format!("q{n}")).collect();
    let words: Vec<&str> = names.iter().flat_map(|name| ["--queue", name]).collect();
    let mut worker = trial.start_at(&trial.server.url(), &words);
    ready(&worker);
    trial.server.pause();
    let asked = Instant::now();
    worker.signal(Signal::SIGTERM);
    worker.signal(Signal::SIGTERM);
    // For each queue it would wait for a reply for 5 s, and for a beat as well.
    let status = worker.wait_exit(Duration::from_secs(40));
    println!("ended after {:?}", asked.elapsed());
    trial.server.resume();
    assert!(status.success(), "expected a good end: {}", worker.printed());
}
