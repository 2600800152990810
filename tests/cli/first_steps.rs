//! Mistakes of first-time users are pointed out by name: wrong queues, misspelled settings, another variable for Redis.

use nix::sys::signal::Signal;
use redis::Commands;

use super::{DELAYED, PATIENCE, WORKER, command, ended, on, start, task};
use crate::support;
use crate::support::redis::{TestRedis, snapshot};
use crate::support::wait;

#[test]
fn worker_warns_of_tasks_on_queues_it_does_not_serve() {
    let redis = TestRedis::start();
    let on_default = on(&redis, WORKER, &["worker", "--burst"]).expect(0);
    on_default.says("queues of some tasks are not served").says("--queue reports").says("batches.collect");
    let everything = ["worker", "--burst", "--queue", "default,reports,q,other,nightly,ticks"];
    on(&redis, WORKER, &everything).expect(0).never_says("queues of some tasks are not served");
}

#[test]
fn queues_are_split_at_commas_and_a_colon_is_no_weight() {
    let directory = support::directory();
    let config = |queues: &str| {
        ended(&mut command(DELAYED, directory.path(), &["config", "--json", "--queue", queues]))
    };
    let settings = config("mail=3,reports=1").json();
    let queues = settings.as_array().unwrap().iter().find(|setting| setting["key"] == "worker.queues");
    assert_eq!(queues.unwrap()["value"], serde_json::json!(["mail=3", "reports=1"]));
    config("mail:3").expect(2).says("a weight is written `mail=3`");
    config("mail:3=1").expect(0);
    let mut variable = command(DELAYED, directory.path(), &["config"]);
    ended(variable.env("DELAYED_QUEUES", "mail:3")).expect(5).says("a weight is written `mail=3`");
}

#[test]
fn misspelled_setting_is_named_with_the_one_that_was_meant() {
    let redis = TestRedis::start();
    for (words, meant) in [
        (&["queues"][..], "did you mean DELAYED_CONCURRENCY?"),
        (&["worker", "--burst"], "did_you_mean=DELAYED_CONCURRENCY"),
    ] {
        let mut command = command(WORKER, redis.directory(), words);
        command.env("DELAYED_REDIS_URL", redis.url()).env("DELAYED_CONCURENCY", "5");
        ended(command.env("DELAYED_TEST_OF_MINE", "5"))
            .expect(0)
            .says("DELAYED_CONCURENCY")
            .says(meant)
            .never_says("DELAYED_TEST_OF_MINE");
    }
    std::fs::write(redis.directory().join("delayed.toml"), "[worker]\nconcurency = 5\n").unwrap();
    on(&redis, DELAYED, &["config"]).expect(5).says("did you mean `concurrency`?");
}

#[test]
fn redis_url_holds_unless_delayed_redis_url_is_set() {
    let redis = TestRedis::start();
    let mut config = command(DELAYED, redis.directory(), &["config", "--json"]);
    config.env("REDIS_URL", redis.url());
    let origin = |settings: &serde_json::Value| settings[0]["origin"].as_str().unwrap().to_owned();
    assert_eq!(origin(&ended(&mut config).json()), "REDIS_URL");
    config.env("DELAYED_REDIS_URL", "redis://other");
    assert_eq!(origin(&ended(&mut config).json()), "DELAYED_REDIS_URL");
    let mut enqueue = command(DELAYED, redis.directory(), &["enqueue", "f", "--queue", "q"]);
    ended(enqueue.env("REDIS_URL", redis.url())).expect(0);
    assert_eq!(snapshot(&mut redis.connection(), "q").waiting.len(), 1);
}

#[test]
fn call_killed_by_hand_is_not_logged_as_a_timeout() {
    let redis = TestRedis::start();
    let mut worker = start(&redis, &["worker", "--shutdown", "1ms"]);
    on(
        &redis,
        WORKER,
        &["enqueue", &task("never_ends_blocking"), "--id=018bcfe5-687b-7b5c-8a3e-0123456789ab"],
    )
    .expect(0);
    wait::until("the call to run", PATIENCE, || {
        snapshot(&mut redis.connection(), "default").processing.len() == 1
    });
    on(&redis, DELAYED, &["tasks", "kill", "018bcfe5-687b-7b5c-8a3e-0123456789ab"]).expect(1);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    let log = worker.printed();
    assert!(log.contains("killed run continues and keeps its slot"), "{log}");
    assert!(!log.contains("timed-out run"), "{log}");
}

/// A dead letter in each of these queues.
fn buried(letters: &[(&str, &str)]) -> TestRedis {
    let redis = TestRedis::start();
    for (queue, id) in letters {
        let mut letter = redis::cmd("XADD");
        letter.arg(format!("{queue}_dead")).arg(id).arg("message").arg(b"\x92\xa1f\xc4\x01\x05");
        let () = letter.query(&mut redis.connection()).unwrap();
    }
    redis
}

#[test]
fn dead_letters_are_found_in_any_queue() {
    let redis = buried(&[("b", "1-0"), ("a", "2-0"), ("b", "3-0"), ("a", "4-0"), ("b", "4-0")]);
    let list = |words: &[&str]| {
        let letters = on(&redis, DELAYED, &[&["dead", "list", "--json"], words].concat()).json();
        let place = |letter: &serde_json::Value| {
            format!("{}:{}", letter["queue"].as_str().unwrap(), letter["id"].as_str().unwrap())
        };
        letters.as_array().unwrap().iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), ["b:1-0", "a:2-0", "b:3-0", "a:4-0", "b:4-0"]);
    assert_eq!(list(&["--count", "1"]), ["b:1-0"]);
    assert_eq!(list(&["--count", "2", "--after", "2-0"]), ["b:3-0", "a:4-0", "b:4-0"]);
    assert_eq!(list(&["--queue", "a"]), ["a:2-0", "a:4-0"]);
    on(&redis, DELAYED, &["dead", "show", "2-0"]).expect(0).says("queue      a");
    on(&redis, DELAYED, &["dead", "show", "4-0"]).expect(2).says("a and b both have a dead letter 4-0");
    on(&redis, DELAYED, &["dead", "requeue", "3-0", "2-0"]).expect(0).says("requeued 2 dead letters of a, b");
    on(&redis, DELAYED, &["dead", "delete", "1-0"]).expect(0).says("deleted 1 dead letter of b");
    assert_eq!(list(&[]), ["a:4-0", "b:4-0"]);
}

#[test]
fn delete_all_without_a_terminal_needs_yes() {
    let redis = buried(&[("a", "1-0"), ("b", "1-0")]);
    on(&redis, DELAYED, &["dead", "delete", "--all"])
        .expect(2)
        .says("2 dead letters of all queues would be deleted for good: confirm with --yes");
    on(&redis, DELAYED, &["dead", "delete", "--all", "--queue", "a"])
        .expect(2)
        .says("1 dead letter of a would");
    on(&redis, DELAYED, &["dead", "delete", "--all", "--yes"])
        .expect(0)
        .says("deleted 2 dead letters of a, b");
}

#[test]
fn requeue_of_a_task_that_matches_nothing_is_not_found() {
    let redis = buried(&[("a", "1-0")]);
    on(&redis, DELAYED, &["dead", "requeue", "--task", "g"])
        .expect(6)
        .says("no dead letter belongs to the task `g`");
    on(&redis, DELAYED, &["dead", "requeue", "--task", "f"]).expect(0).says("requeued 1 dead letter of a");
}

#[test]
fn misspelled_task_is_named_with_the_one_that_was_meant() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", &task("recrod"), "[1]"])
        .expect(6)
        .says(&format!("did you mean `{}`?", task("record")));
}

#[test]
fn purge_says_what_running_workers_still_own() {
    let redis = TestRedis::start();
    let () = redis.connection().rpush("q", "\u{7}").unwrap();
    on(&redis, DELAYED, &["purge", "q"]).expect(2).says("1 message waits in q and would be dropped");
    on(&redis, DELAYED, &["purge", "q", "--yes"])
        .expect(0)
        .says("dropped 1 message of q")
        .never_says("workers still own");
    let () = redis.connection().hset("q_processing", "4711", b"\x91\xa1f").unwrap();
    on(&redis, DELAYED, &["purge", "q", "--yes"])
        .expect(0)
        .says("dropped 0 messages of q")
        .says("workers still own 1 message");
    assert_eq!(on(&redis, DELAYED, &["purge", "q", "--yes", "--json"]).json()["owned"], 1);
}

#[test]
fn help_of_queues_explains_tokens_and_suspects() {
    let directory = support::directory();
    let help = ended(&mut command(DELAYED, directory.path(), &["queues", "--help"])).expect(0);
    help.says("TOKENS are notifications").says("SUSPECTS are messages");
}
