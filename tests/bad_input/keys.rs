//! Keys that hold something else, and names that are not allowed: the worker says so, stays, and goes on when the key
//! is mended.

use std::collections::BTreeMap;

use delayed::__private::protocol::encode::{Meta, native};
use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, mark, marks};
use crate::support::wait;

/// Makes `key` of another type while the worker runs or before, waits for its word, mends it, and sees all run.
#[track_caller]
fn lives_with(break_key: impl Fn(&mut redis::Connection), key: &str, running: bool) {
    let mut trial = Trial::new();
    let worker = running.then(|| trial.worker(&[]));
    break_key(&mut trial.redis);
    let mut worker = worker.unwrap_or_else(|| trial.worker(&[]));
    if key != QUEUE {
        // What others push all the same.
        let () = trial.redis.rpush(QUEUE, marks(10)).unwrap();
        if key != "q_noti" {
            let () = trial.redis.rpush("q_noti", vec!["1"; 10]).unwrap();
        }
    }
    let line = worker.wait_for_line("WRONGTYPE");
    assert!(line.contains("has the wrong type"), "expected advice: {line}");
    assert!(!worker.has_ended(), "expected the worker to stay: {}", worker.printed());
    let () = trial.redis.del(key).unwrap();
    trial.push(&[mark("after")]);
    if key == QUEUE {
        trial.push(&marks(10));
    }
    let mut names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    names.push("after".into());
    trial.wait_runs(11);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (11, 0), "{stopped}");
    trial.ledger.assert_each_once(names);
    trial.assert_only(&[]);
}

#[test]
fn the_queue_is_a_string() {
    lives_with(|redis| redis.set(QUEUE, "x").unwrap(), QUEUE, false);
    lives_with(|redis| redis.set(QUEUE, "x").unwrap(), QUEUE, true);
}

#[test]
fn the_notifications_are_a_hash() {
    lives_with(|redis| redis.hset("q_noti", "x", "y").unwrap(), "q_noti", false);
    lives_with(|redis| redis.hset("q_noti", "x", "y").unwrap(), "q_noti", true);
}

#[test]
fn the_owned_messages_are_a_string() {
    lives_with(|redis| redis.set("q_processing", "x").unwrap(), "q_processing", false);
    lives_with(|redis| redis.set("q_processing", "x").unwrap(), "q_processing", true);
}

/// A call that fails each time and is not tried again: it leaves `NAME 1`.
fn failing(name: &str) -> Vec<u8> {
    let payload = rmp_serde::to_vec(&(name, 99)).unwrap();
    native("trial.mark_or_retry", &payload, &Meta { retry: Some(0), ..Meta::default() })
}

#[test]
fn what_cannot_be_buried_keeps_its_slot_and_all_others_are_run() {
    let mut trial = Trial::new();
    let () = trial.redis.set("q_dead", "x").unwrap();
    let mut worker = trial.worker(&["--queue", "other", "--concurrency", "1"]);
    trial.push(&[failing("a"), mark(0), failing("b"), call("trial.unknown", &[]), mark(1), failing("c")]);
    trial.push_to("other", &marks(20)[2..]);
    trial.wait_runs(23);
    wait::until("all but the four to be gone", PATIENCE, || trial.left() == (0, 4));
    let line = worker.wait_for_line("rename or delete it");
    assert!(line.contains("\"q_dead\""), "expected the key in {line}");
    trial.push(&[mark(20)]);
    trial.wait_runs(24);
    assert_eq!(trial.redis.get::<_, String>("q_dead").unwrap(), "x", "expected it to be left as it was");

    let () = trial.redis.del("q_dead").unwrap();
    trial.wait_settled();
    worker.wait_for_line("dead letters can be written again");
    let reasons: Vec<String> = trial.reasons();
    assert_eq!(reasons, ["failed", "failed", "failed", "unknown"]);
    let stopped = trial.stop(&mut worker);
    let counts = ["succeeded", "buried", "lost", "put_back"].map(|name| count(&stopped, name));
    assert_eq!(counts, [21, 4, 0, 0], "{stopped}");
    let names = (0..=20).map(|n| n.to_string()).chain(["a 1", "b 1", "c 1"].map(Into::into));
    trial.ledger.assert_each_once(names);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_could_not_be_buried_is_put_back_when_the_worker_ends() {
    let mut trial = Trial::new();
    let () = trial.redis.set("q_dead", "x").unwrap();
    let mut worker = trial.worker(&["--concurrency", "4"]);
    let calls = [failing("a"), failing("b"), mark("c")];
    trial.push(&calls);
    trial.wait_runs(3);
    wait::until("the two to be aside", PATIENCE, || trial.left() == (0, 2));
    worker.wait_for_line("rename or delete it");
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "put_back"), count(&stopped, "lost")), (2, 0), "{stopped}");
    let () = trial.redis.del("q_dead").unwrap();
    let state = trial.state();
    let mut waiting = state.waiting;
    waiting.sort();
    assert_eq!((waiting, state.tokens), (calls[..2].to_vec(), 2), "expected them unchanged");
    assert!(state.deaths.is_empty(), "expected no death to be counted: {:?}", state.deaths);

    let mut worker = trial.worker(&[]);
    trial.wait_settled();
    assert_eq!(trial.reasons(), ["failed", "failed"]);
    trial.stop(&mut worker);
    let names: BTreeMap<String, u32> = trial.ledger.executions().into_iter().collect();
    let expected = [("a 1", 2), ("b 1", 2), ("c", 1)].map(|(name, runs)| (name.to_owned(), runs));
    assert_eq!(names, BTreeMap::from(expected), "expected what was put back to run once more");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_burst_goes_on_until_all_is_buried() {
    let mut trial = Trial::new();
    let () = trial.redis.set("q_dead", "x").unwrap();
    trial.push(&[failing("a"), mark("b"), failing("c")]);
    let mut worker = trial.worker(&["--burst", "--no-sweep", "--log-level", "delayed=debug"]);
    worker.wait_for_lines("dead letters cannot be written", 5);
    assert!(!worker.has_ended(), "expected it to go on: {}", worker.printed());
    assert_eq!(trial.left(), (0, 2), "expected it to own both still");
    let () = trial.redis.del("q_dead").unwrap();
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "put_back")), (2, 0), "{stopped}");
    assert_eq!(stopped["reason"], "Drained", "{stopped}");
    assert_eq!(trial.reasons(), ["failed", "failed"]);
    trial.ledger.assert_each_once(["a 1", "b", "c 1"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_sweep_brings_back_all_but_what_it_cannot_bury() {
    let mut trial = Trial::new();
    let () = trial.redis.set("q_dead", "x").unwrap();
    let digest = redis::Script::new("poison").get_hash().to_owned();
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    let runs = format!("=;{}:0!2", "a".repeat(16));
    let () = trial.redis.hset("q_deaths", digest, format!("2 {}000 {runs} q:w q:v", now - 60)).unwrap();
    let dead = |slot: u32| format!("q:{}:{slot}", "a".repeat(16));
    let () = trial.redis.hset("q_processing", dead(0), "poison").unwrap();
    let () = trial.redis.hset("q_processing", dead(1), mark("innocent")).unwrap();
    let mut worker = trial.worker(&[]);
    trial.wait_runs(1);
    let line = worker.wait_for_line("cannot be buried");
    assert!(line.contains("\"q_dead\"") && line.contains("rename or delete it"), "expected advice: {line}");
    wait::until("the innocent one to be gone", PATIENCE, || trial.left() == (0, 1));
    let owned: Vec<String> = trial.redis.hkeys("q_processing").unwrap();
    assert_eq!(owned, [dead(0)], "expected it to stay where it was");
    let () = trial.redis.del("q_dead").unwrap();
    trial.wait_settled();
    assert_eq!(trial.reasons(), ["lost"]);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["innocent"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_worker_whose_beats_are_refused_sweeps_all_the_same() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    let () = trial.redis.set("q_workers", "x").unwrap();
    worker.wait_for_line("\"request\":\"heartbeat\"");
    // The sweep that it begins with may find one of them.
    for n in 0..3 {
        let () = trial.redis.hset("q_processing", format!("gone{n}"), mark(n)).unwrap();
        trial.wait_runs(n + 1);
    }
    trial.wait_settled();
    let () = trial.redis.del("q_workers").unwrap();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..3);
    trial.assert_only(&[]);
}

#[test]
fn the_hand_is_a_string() {
    lives_with(|redis| redis.set("q_hand", "x").unwrap(), "q_hand", false);
    lives_with(|redis| redis.set("q_hand", "x").unwrap(), "q_hand", true);
}

/// Waits until a worker waits.
#[track_caller]
fn waits(trial: &mut Trial) {
    wait::until("a worker to wait", PATIENCE, || {
        let clients: String = redis::cmd("INFO").arg("clients").query(&mut trial.redis).unwrap();
        clients.contains("blocked_clients:1")
    });
}

#[test]
fn a_wait_names_the_key_that_is_no_list() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--queue", "other"]);
    // From then on it has nothing to claim.
    trial.push(&[mark("first")]);
    trial.wait_runs(1);
    trial.wait_settled();
    waits(&mut trial);
    let () = trial.redis.hset("q_noti", "x", "y").unwrap();
    // Ends the wait; the next one begins with the broken key.
    trial.push_to("other", &[mark(0)]);
    let line = worker.wait_for_line("\"request\":\"wait for notifications\"");
    assert!(line.contains("the key `q_noti` has the wrong type: rename or delete it"), "{line}");
    let () = trial.redis.del("q_noti").unwrap();
    trial.push(&[mark(1)]);
    trial.wait_runs(3);
    trial.wait_settled();
    trial.stop(&mut worker);

    // The list to which a token is moved, while there is a wait.
    let mut worker = trial.worker(&["--log-level", "delayed=debug"]);
    waits(&mut trial);
    let () = trial.redis.set("q_hand", "x").unwrap();
    trial.push(&[mark(2)]);
    let line = worker.wait_for_line("tokens cannot be moved");
    assert!(line.contains("the key `q_hand` has the wrong type: rename or delete it"), "{line}");
    let () = trial.redis.del("q_hand").unwrap();
    trial.wait_runs(4);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["first", "0", "1", "2"]);
}

#[test]
fn the_deaths_are_a_list() {
    lives_with(|redis| redis.rpush("q_deaths", "x").unwrap(), "q_deaths", true);
}

#[test]
fn a_client_is_told_and_nothing_is_applied() {
    let mut trial = Trial::new();
    let client = delayed::Client::connect_blocking(&trial.server.url()).unwrap();
    for (key, other) in [(QUEUE, "q_noti"), ("q_noti", QUEUE)] {
        let () = trial.redis.set(key, "x").unwrap();
        let error = client.enqueue_blocking(delayed::GoTask::new("a").queue(QUEUE)).unwrap_err();
        assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::WrongType), "{error}");
        assert!(!error.may_have_been_applied(), "{error}");
        assert!(!trial.redis.exists::<_, bool>(other).unwrap(), "expected nothing in {other}");
        let () = trial.redis.del(key).unwrap();
    }
    client.enqueue_blocking(delayed::GoTask::new("a").queue(QUEUE)).unwrap();
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn names_that_are_not_allowed_are_refused() {
    let mut trial = Trial::new();
    let url = trial.server.url();
    let client = delayed::Client::connect_blocking(&url).unwrap();
    let long = "x".repeat(201);
    for (name, word) in [
        ("", "empty"),
        ("a b", "space"),
        ("a\tb", "space"),
        ("a\nb", "space"),
        ("mail_noti", "_noti"),
        ("mail_processing", "_processing"),
        ("mail_hand", "_hand"),
        ("mail_paused", "_paused"),
        ("mail_finished", "_finished"),
        ("mail_scheduled", "_scheduled"),
        (&long, "201"),
    ] {
        let mut worker = trial.start_at(&url, &["--queue", name]);
        let code = worker.wait_exit(PATIENCE).code();
        assert!(matches!(code, Some(2 | 5)), "expected a code for {name:?}, got {code:?}");
        // What it printed is collected by a thread of its own.
        worker.wait_for_line(word);
        let mut command = trial.command(crate::support::trial::WORKER);
        command.args(["worker", "--redis", &url]).env("DELAYED_QUEUES", format!("ok,{name}"));
        if !name.is_empty() {
            let mut worker = crate::support::process::Program::spawn(&mut command);
            assert_eq!(worker.wait_exit(PATIENCE).code(), Some(5), "{name:?}: {}", worker.printed());
        }
        let mut sweeper = crate::support::process::Program::spawn(
            trial
                .command(crate::support::process::DELAYED)
                .args(["sweeper", "--redis", &url, "--queue", name]),
        );
        assert!(matches!(sweeper.wait_exit(PATIENCE).code(), Some(2 | 5)), "{name:?}: {}", sweeper.printed());
        let error = client.enqueue_blocking(delayed::GoTask::new("a").queue(name)).unwrap_err();
        assert!(matches!(error, delayed::Error::Name(_)), "{name:?}: {error:?}");
        assert!(error.to_string().contains(word), "expected {word} in {error}");
    }
    assert!(trial.state().keys.is_empty(), "expected nothing in Redis: {:?}", trial.state().keys);
}

#[test]
fn a_name_that_is_no_text_keeps_no_queue_from_being_swept() {
    let mut trial = Trial::new();
    let () = trial.redis.sadd("delayed_queues", b"\xff\xfe").unwrap();
    let () = trial.redis.hset("q_processing", "q:aaaaaaaaaaaaaaaa:1", mark("lost")).unwrap();
    let () = trial.redis.hset("q_processing", b"\xff", mark("of nobody")).unwrap();
    let () = trial.redis.zadd("q_workers", b"\xfe", 2e18).unwrap();
    let letter =
        redis::cmd("XADD").arg("q_dead").arg("1-0").arg("message").arg("x").arg(b"\xff").arg("y").to_owned();
    letter.exec(&mut trial.redis).unwrap();
    for (words, code) in
        [(&["queues"][..], 0), (&["workers"], 0), (&["doctor"], 0), (&["dead", "list", "--queue", QUEUE], 0)]
    {
        let mut tool =
            Program::spawn(trial.command(DELAYED).args(words).args(["--redis", &trial.server.url()]));
        assert_eq!(tool.wait_exit(PATIENCE).code(), Some(code), "{words:?}: {}", tool.printed());
    }
    let mut sweeper = trial.sweeper(&["--interval", "100ms"]);
    wait::until("both to be back", PATIENCE, || trial.left() == (2, 0));
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
}

#[test]
fn sweep_lock_without_expiry_is_ended_and_a_foreign_one_logged() {
    let mut trial = Trial::new();
    // One without an end, and one that was given before the clock was set back.
    let () = trial.redis.set("q_sweep", "b".repeat(16)).unwrap();
    let () = trial.redis.pset_ex("other_sweep", "b".repeat(16), 600_000).unwrap();
    let () = trial.redis.hset("other_processing", "other:aaaaaaaaaaaaaaaa:1", mark("other")).unwrap();
    let () = trial.redis.hset("q_processing", "q:aaaaaaaaaaaaaaaa:1", mark(0)).unwrap();
    let mut worker = trial.worker(&["--lease", "1s", "--queue", "other"]);
    trial.wait_runs(2);
    trial.wait_settled();
    let () = redis::pipe().del("q_sweep").hset("q_sweep", "x", "y").query(&mut trial.redis).unwrap();
    let () = trial.redis.hset("q_processing", "q:aaaaaaaaaaaaaaaa:1", mark(1)).unwrap();
    let line = worker.wait_for_line("\"request\":\"sweep\"");
    assert!(line.contains("the key `q_sweep` has the wrong type"), "{line}");
    let () = trial.redis.del("q_sweep").unwrap();
    trial.wait_runs(3);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["0", "1", "other"]);
}
