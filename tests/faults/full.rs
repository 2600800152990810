//! What must go on while Redis is full, and what must not get lost on the way to a run.

use std::time::Duration;

use redis::Commands;

use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, gated, mark, marks, open};
use crate::support::wait;

const SOON: Duration = Duration::from_secs(10);

fn fill(trial: &mut Trial) {
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").query(&mut trial.redis).unwrap();
}

#[test]
fn a_signal_is_heard_as_soon_as_a_worker_serves() {
    let trial = Trial::new();
    for start in 0..100 {
        let mut worker = trial.start(&[]);
        worker.wait_for_line("\"serving\"");
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        let code = worker.wait_exit(PATIENCE).code();
        assert_eq!(code, Some(0), "start {start}: it was killed by a signal that it should obey");
    }
}

#[test]
fn a_worker_that_starts_at_a_full_redis_drains_it() {
    let mut trial = Trial::new();
    trial.worker(&[]).kill9();
    trial.push(&marks(50));
    fill(&mut trial);
    let mut worker = trial.start(&[]);
    wait::until("the calls to run, or the worker to end", SOON, || {
        worker.has_ended() || trial.ledger.lines().len() == 50
    });
    assert!(!worker.has_ended(), "{}", worker.printed());
}

#[test]
fn a_message_without_a_token_runs_at_a_full_redis() {
    let mut trial = Trial::new();
    let worker = trial.worker(&[]);
    // In one go: it is full before a sweeper comes.
    let mut pipe = redis::pipe();
    pipe.atomic().rpush(QUEUE, mark("alone")).cmd("CONFIG").arg("SET").arg("maxmemory").arg("1");
    let () = pipe.query(&mut trial.redis).unwrap();
    wait::until("it to run", SOON, || trial.ledger.lines().len() == 1);
    drop(worker);
}

#[test]
fn what_a_dead_worker_owned_comes_back_at_a_full_redis() {
    let mut trial = Trial::new();
    let other = trial.worker(&["--lease", "1s"]);
    let mut worker = trial.worker(&["--lease", "1s"]);
    let gate = trial.gate("gate");
    let held = |n: u32| gated(n, &gate);
    trial.push(&(0..20).map(held).collect::<Vec<_>>());
    trial.wait_runs(20);
    fill(&mut trial);
    worker.kill9();
    open(&gate);
    wait::until("all to have run to their ends", SOON, || {
        trial.ledger.lines().iter().filter(|line| line.starts_with('-')).count() == 20
    });
    drop(other);
}

#[test]
fn a_sweeper_balances_a_full_redis() {
    let mut trial = Trial::new();
    let () = trial.redis.rpush(QUEUE, marks(5)).unwrap();
    fill(&mut trial);
    let sweeper = trial.sweeper(&["--queue", QUEUE, "--interval", "100ms"]);
    wait::until("five tokens", SOON, || trial.redis.llen::<_, u64>("q_noti").unwrap() == 5);
    drop(sweeper);
}

#[test]
fn weights_share_the_slots() {
    for slots in ["1", "8", "64"] {
        let mut trial = Trial::new();
        for queue in ["a", "b"] {
            let mark = |n: u32| call("trial.mark", &[format!("{queue}{n}").into()]);
            trial.push_to(queue, &(0..3000).map(mark).collect::<Vec<_>>());
        }
        let words = ["--queue", "a=3", "--queue", "b=1", "--concurrency", slots, "--burst"];
        let mut worker = trial.start_at(&trial.server.url(), &words);
        assert_eq!(count(&trial.ended(&mut worker), "succeeded"), 6000);
        let lines = trial.ledger.lines();
        let share = lines[..2000].iter().filter(|line| line.starts_with('a')).count();
        println!("{slots} slots: {share} of the first 2000 runs are of the queue of weight 3 of 4");
        assert!(
            (1300..=1700).contains(&share),
            "expected about 1500 of 2000 with {slots} slots, got {share}"
        );
    }
}
