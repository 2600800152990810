//! Keys that hold something else, and names that are not allowed: the worker says so, stays, and goes on when the key
//! is mended.

use redis::Commands;

use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, mark, marks};

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
    if key == "q_dead" {
        trial.push(&[call("trial.pair", &[])]);
    }
    let line = worker.wait_for_line("WRONGTYPE");
    assert!(line.contains("holds another type"), "expected advice: {line}");
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
    trial.assert_only(if key == "q_dead" { &["q_dead"] } else { &[] });
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

#[test]
fn the_dead_letters_are_a_list() {
    lives_with(|redis| redis.rpush("q_dead", "x").unwrap(), "q_dead", false);
    lives_with(|redis| redis.rpush("q_dead", "x").unwrap(), "q_dead", true);
}

#[test]
fn the_hand_is_a_string() {
    lives_with(|redis| redis.set("q_hand", "x").unwrap(), "q_hand", false);
    lives_with(|redis| redis.set("q_hand", "x").unwrap(), "q_hand", true);
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
