//! Do `queues pause` and `queues resume` say what they did, and others that a queue is paused?

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, Ended, WORKER, on, task};
use crate::support::redis::TestRedis;

fn queues(redis: &TestRedis, words: &[&str]) -> Ended {
    on(redis, DELAYED, &[&["queues"][..], words].concat())
}

fn with_a_call() -> TestRedis {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", &task("add"), "[1, 2]"]).expect(0);
    redis
}

#[test]
fn each_verb_says_what_it_did_and_may_be_repeated() {
    let redis = with_a_call();
    queues(&redis, &["resume", "default"]).expect(0).says("default is not paused");
    let paused = ["pause", "default", "--by", "anna"];
    queues(&redis, &paused).expect(0).says("paused default: `queues resume default` ends the pause");
    let again = queues(&redis, &["pause", "default", "--by", "berta"]).expect(0);
    again.says("default is already paused, by anna").says(" ago");
    queues(&redis, &["resume", "default"]).expect(0).says("resumed default, which was paused by anna");
    queues(&redis, &["resume", "default"]).expect(0).says("default is not paused");
    queues(&redis, &["pause", "defualt"]).expect(0).says("did you mean `default`?");
}

#[test]
fn json_tells_whether_anything_changed_and_who_paused() {
    let redis = with_a_call();
    let json = |words: &[&str]| queues(&redis, &[words, &["--json"]].concat()).json();
    let state = |json: &Value| (json["paused"].clone(), json["changed"].clone(), json["pause"]["by"].clone());
    let nobody = json(&["resume", "default"]);
    assert_eq!(state(&nobody), (false.into(), false.into(), Value::Null));
    assert_eq!((&nobody["queue"], &nobody["pause"]), (&"default".into(), &Value::Null));
    let first = json(&["pause", "default", "--by", "anna"]);
    assert_eq!(state(&first), (true.into(), true.into(), "anna".into()));
    let again = json(&["pause", "default", "--by", "berta"]);
    assert_eq!(state(&again), (true.into(), false.into(), "anna".into()));
    assert_eq!(again["pause"], first["pause"], "expected the first pause to hold");
    assert_eq!(json(&[])[0]["paused"], first["pause"]);
    let resumed = json(&["resume", "default"]);
    assert_eq!(state(&resumed), (false.into(), true.into(), "anna".into()));
    assert_eq!(resumed["pause"], first["pause"]);
    assert_eq!(json(&[])[0]["paused"], Value::Null);
}

#[test]
fn name_of_who_paused_does_nothing_to_a_terminal() {
    let redis = with_a_call();
    queues(&redis, &["pause", "default", "--by", "a\u{1b}[31m\u{202e}b"]).expect(0);
    let text: String = redis.connection().get("default_paused").unwrap();
    assert!(text.ends_with(" a [31m\u{202e}b"), "{text:?}");
    queues(&redis, &[]).expect(0).says("by a [31m\\u{202e}b");
    queues(&redis, &["pause", "default"]).expect(0).never_says("\u{202e}");
}

#[test]
fn queues_and_doctor_name_a_paused_queue() {
    let redis = with_a_call();
    queues(&redis, &[]).expect(0).never_says("pause");
    queues(&redis, &["pause", "default", "--by", "anna"]).expect(0);
    let shown = queues(&redis, &[]).expect(0);
    shown.says("default was paused").says("ago by anna: `queues resume default`");
    on(&redis, DELAYED, &["doctor"])
        .expect(0)
        .says("warning  paused: default: 1 message waits, and the queue was paused by anna")
        .says("→ `queues resume default`");
    let () = redis.connection().del(&["default", "default_noti"]).unwrap();
    on(&redis, DELAYED, &["doctor"]).expect(0).never_says("paused");
}

#[test]
fn key_of_another_program_is_neither_taken_nor_read() {
    let redis = with_a_call();
    let seeds: [fn(&mut redis::Connection); 2] = [
        |redis| redis.rpush("default_paused", "17 anna").unwrap(),
        |redis| redis.set("default_paused", "yes").unwrap(),
    ];
    for seed in seeds {
        let mut connection = redis.connection();
        let () = connection.del("default_paused").unwrap();
        seed(&mut connection);
        for verb in ["pause", "resume"] {
            queues(&redis, &[verb, "default"]).expect(4).says("has the wrong type");
        }
        assert_eq!(queues(&redis, &["--json"]).json()[0]["paused"], Value::Null);
        assert!(connection.exists::<_, bool>("default_paused").unwrap());
        on(&redis, WORKER, &["enqueue", &task("add"), "[1, 2]"]).expect(0);
        on(&redis, WORKER, &["worker", "--burst"]).expect(0).says("stopped");
        assert_eq!(connection.llen::<_, u64>("default").unwrap(), 0, "expected all calls to be run");
        on(&redis, DELAYED, &["doctor"]).says("`default_paused`");
    }
}

#[test]
fn words_that_are_not_understood_are_refused() {
    let redis = with_a_call();
    queues(&redis, &["pause"]).expect(2);
    queues(&redis, &["pause", "mail_paused"]).expect(2).says("_paused");
    queues(&redis, &["--scan", "pause", "default"]).expect(2);
    queues(&redis, &["stop", "default"]).expect(2);
    assert!(!redis.connection().exists::<_, bool>("default_paused").unwrap());
}

#[test]
fn rights_that_are_missing_are_named() {
    let redis = with_a_call();
    let mut connection = redis.connection();
    for right in ["-set", "-get", "-unlink"] {
        let rules = ["SETUSER", "poor", "reset", "on", ">word", "~*", "&*", "+@all", right];
        let () = redis::cmd("ACL").arg(&rules).query(&mut connection).unwrap();
        let url = format!("{}?user=poor&pass=word", redis.url());
        let verb = if right == "-unlink" { "resume" } else { "pause" };
        if verb == "resume" {
            queues(&redis, &["pause", "default"]).expect(0);
        }
        queues(&redis, &[verb, "default", "--redis", &url]).expect(4).says("grant it");
        assert_eq!(connection.exists::<_, bool>("default_paused").unwrap(), verb == "resume", "{right}");
    }
}
