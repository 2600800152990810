//! Another program's data under the names of our keys: it stays as it is, and what is ours is run beside it.

use std::collections::BTreeMap;

use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::{everything, read};
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, mark, marks};
use crate::support::wait;

/// A queue of another program's: its messages, and tokens for them.
fn other_queue(trial: &mut Trial, name: &str) -> Vec<Vec<u8>> {
    let calls: Vec<Vec<u8>> = (0..100).map(|n| call("demo_tasks.add", &[n.into(), 1.into()])).collect();
    trial.push_to(name, &calls);
    calls
}

fn list(trial: &mut Trial, key: &str) -> Vec<Vec<u8>> {
    trial.redis.lrange(key, 0, -1).unwrap()
}

/// Sees so many sweeps bring something back, whoever sweeps.
#[track_caller]
fn swept(trial: &mut Trial, times: usize) {
    for n in 0..times {
        let () = trial.redis.hset("q_processing", format!("gone{n}"), mark(format!("swept{n}"))).unwrap();
        wait::until("a sweep", PATIENCE, || {
            !trial.redis.hexists::<_, _, bool>("q_processing", format!("gone{n}")).unwrap()
        });
    }
}

#[test]
fn sweeper_leaves_a_queue_alone_that_is_named_like_a_hand() {
    let mut trial = Trial::new();
    let calls = other_queue(&mut trial, "q_hand");
    trial.push(&marks(5));
    let mut sweeper = trial.sweeper(&["--interval", "50ms"]);
    swept(&mut trial, 3);
    // With nothing that waits, what is in the hand would be dropped.
    let () = redis::pipe().del(QUEUE).del("q_noti").query(&mut trial.redis).unwrap();
    swept(&mut trial, 3);
    assert_eq!(list(&mut trial, "q_hand"), calls, "expected all of its calls");
    assert_eq!(trial.redis.llen::<_, usize>("q_hand_noti").unwrap(), 100);
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
}

#[test]
fn worker_runs_calls_beside_a_queue_that_is_named_like_its_hand() {
    let mut trial = Trial::new();
    let calls = other_queue(&mut trial, "q_hand");
    let mut worker = trial.worker(&["--lease", "1s"]);
    worker.wait_for_line("list contains no notifications");
    for n in 0..20 {
        trial.push(&[mark(n)]);
        trial.wait_runs(n + 1);
    }
    swept(&mut trial, 2);
    trial.wait_runs(22);
    trial.wait_settled();
    assert_eq!(list(&mut trial, "q_hand"), calls, "expected all of its calls, and no token among them");
    // When it is gone, tokens are moved as ever.
    let () = redis::pipe().del("q_hand").del("q_hand_noti").query(&mut trial.redis).unwrap();
    worker.wait_for_line("list contains notifications again");
    trial.push(&[mark("last")]);
    trial.wait_runs(23);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (23, 0), "{stopped}");
    trial.assert_only(&[]);
}

#[test]
fn a_queue_that_comes_under_the_name_of_a_hand_loses_nothing() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "24h", "--no-sweep"]);
    trial.push(&[mark("before")]);
    trial.wait_runs(1);
    let calls = other_queue(&mut trial, "q_hand");
    // Before any beat has seen it, tokens go to its end, and are taken from there.
    for n in 0..20 {
        trial.push(&[mark(n)]);
        trial.wait_runs(n + 2);
    }
    trial.wait_settled();
    assert_eq!(list(&mut trial, "q_hand"), calls);
    trial.stop(&mut worker);
    assert_eq!(list(&mut trial, "q_hand"), calls);
}

#[test]
fn foreign_notifications_stay_and_calls_are_run() {
    let mut trial = Trial::new();
    let texts: Vec<Vec<u8>> = (0..10).map(|n| format!("note {n}").into_bytes()).collect();
    let () = trial.redis.rpush("q_noti", &texts).unwrap();
    for words in [&["--lease", "1s"][..], &["--lease", "1s", "--queue", "other"]] {
        let mut worker = trial.worker(words);
        worker.wait_for_line("list contains no notifications");
        let before = trial.ledger.lines().len();
        // Their tokens come behind what is there.
        trial.push(&marks(3));
        trial.wait_runs(before + 3);
        trial.wait_settled();
        let mut left = list(&mut trial, "q_noti");
        left.retain(|element| element != b"1");
        assert_eq!(left, texts, "{words:?}: expected all of it, in its order");
        trial.stop(&mut worker);
    }
    let mut left = list(&mut trial, "q_noti");
    left.retain(|element| element != b"1");
    assert_eq!(left, texts);
}

/// What another program keeps under the names of all keys of `q` but the lists.
fn spoil(redis: &mut redis::Connection) {
    let () = redis.zadd_multiple("q_workers", &[(1, "anna"), (2, "bert")]).unwrap();
    let () = redis.hset_multiple("q_deaths", &[("anna", "1 2 3"), ("bert", "x")]).unwrap();
    let () = redis.set("q_sweep", "the kitchen").unwrap();
    let mut command = redis::cmd("XADD");
    let _: String = read(redis, command.arg("q_dead").arg("1-0").arg("temperature").arg("21"));
}

#[test]
fn foreign_keys_beside_a_queue_are_not_touched_by_sweeps() {
    let mut trial = Trial::new();
    spoil(&mut trial.redis);
    let before = everything(&mut trial.redis);
    let mut worker = trial.worker(&["--lease", "1s"]);
    swept(&mut trial, 3);
    trial.wait_runs(3);
    trial.wait_settled();
    trial.stop(&mut worker);
    let after = everything(&mut trial.redis);
    for key in ["q_sweep", "q_dead"] {
        assert_eq!(after[key], before[key], "expected {key} to stay as it was");
    }
    let members: BTreeMap<String, f64> = trial
        .redis
        .zrange_withscores::<_, Vec<(String, f64)>>("q_workers", 0, -1)
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["anna", "bert"], "expected it to lose no member");
    let fields: BTreeMap<String, String> = trial.redis.hgetall("q_deaths").unwrap();
    assert!(
        fields.contains_key("anna") && fields.contains_key("bert"),
        "expected it to lose no field: {fields:?}"
    );
    assert_eq!(trial.redis.pttl::<_, i64>("q_deaths").unwrap(), -1, "expected it not to expire");
}

#[test]
fn sweeper_leaves_keys_alone_that_only_look_like_a_queue() {
    let mut trial = Trial::new();
    let () = trial
        .redis
        .hset_multiple("orders_processing", &[("4711", r#"{"sum": 12}"#), ("4712", "{}")])
        .unwrap();
    let () = trial.redis.rpush("user_noti", &["you have mail", "1"]).unwrap();
    let before = everything(&mut trial.redis);
    // One that is a queue, to see that it has swept.
    let () = trial.redis.hset("found_processing", "4711", mark(0)).unwrap();
    let mut sweeper = trial.sweeper(&["--interval", "50ms"]);
    wait::until("what is a queue to be swept", PATIENCE, || {
        trial.redis.llen::<_, u64>("found").unwrap() == 1
    });
    for key in ["orders_processing", "user_noti"] {
        sweeper.wait_for_line(&format!("\"key\":\"{key}\""));
    }
    swept(&mut trial, 0);
    let () = trial.redis.del(&["found", "found_noti"]).unwrap();
    let after = everything(&mut trial.redis);
    for key in ["orders_processing", "user_noti"] {
        assert_eq!(after[key], before[key], "expected {key} to stay as it was");
    }
    assert!(!after.contains_key("orders") && !after.contains_key("user"), "{:?}", after.keys());
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
}

#[test]
fn the_doctor_names_what_is_another_programs() {
    let mut trial = Trial::new();
    let () = trial.redis.sadd("delayed_queues", QUEUE).unwrap();
    spoil(&mut trial.redis);
    other_queue(&mut trial, "q_hand");
    let () = trial.redis.rpush("q_noti", "you have mail").unwrap();
    let () = trial.redis.rpush("user_noti", "you have mail").unwrap();
    let mut doctor = Program::spawn(trial.command(DELAYED).args(["doctor", "--redis", &trial.server.url()]));
    assert_eq!(doctor.wait_exit(PATIENCE).code(), Some(1), "{}", doctor.printed());
    let said = doctor.last_words();
    for expected in [
        "PROBLEM  foreign: q: the key `q_hand` should hold notifications, but holds something else",
        "PROBLEM  foreign: q: the key `q_noti` should hold notifications",
        "PROBLEM  foreign: q: the key `q_dead` should hold dead letters",
        "foreign: q: the key `q_workers` should hold the ids of workers",
        "foreign: q: the key `q_deaths` should hold counts of deaths",
        "foreign: q: the key `q_sweep` should hold the id of a worker",
        "names: `q_hand` looks like a queue",
        "foreign: the key `user_noti` has the name of a key of a queue, but holds something else",
    ] {
        assert!(said.contains(expected), "expected {expected:?} in:\n{said}");
    }
}
