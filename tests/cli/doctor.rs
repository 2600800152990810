//! Does `doctor` find what is wrong, and say nothing of what is right?

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, on};
use crate::support::redis::{Options, TestRedis, read};

fn found(redis: &TestRedis, code: i32) -> Vec<(String, String)> {
    let ended = on(redis, DELAYED, &["doctor", "--json"]).expect(code);
    let findings: Value = serde_json::from_str(&ended.out).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let bad = findings.as_array().unwrap().iter().filter(|finding| finding["level"] != "ok");
    bad.map(|finding| {
        assert!(finding["fix"].is_string(), "expected a fix: {finding:#}");
        (text(&finding["level"]), text(&finding["check"]))
    })
    .collect()
}

#[test]
fn a_server_that_keeps_its_data_is_well() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    assert_eq!(found(&redis, 0), []);
    on(&redis, DELAYED, &["doctor"])
        .expect(0)
        .says("ok       eviction: noeviction")
        .says("a round trip takes");
}

#[test]
fn every_kind_of_trouble_is_found() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let () =
        read(&mut connection, redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("allkeys-lru"));
    let () = connection.sadd("delayed_queues", &["gap", "types", "lost", "eternal"]).unwrap();
    let () = connection.rpush("gap", "\u{7}").unwrap();
    let () = connection.set("types_dead", "x").unwrap();
    let () = connection.hset("lost_processing", "4711", "\u{7}").unwrap();
    let () = connection.hset("lost_processing", "lost:aaaaaaaaaaaaaaaa:0", "\u{7}").unwrap();
    let () = connection.set("eternal:aaaaaaaaaaaaaaaa:0", "1").unwrap();
    let _: String =
        read(&mut connection, redis::cmd("XADD").arg("eternal_dead").arg("*").arg("message").arg("\u{7}"));
    let pair = |level: &str, check: &str| (level.to_owned(), check.to_owned());
    let expected = [
        pair("problem", "eviction"),
        pair("warning", "persistence"),
        pair("problem", "live_keys"),
        pair("warning", "dead"),
        pair("warning", "tokens"),
        pair("warning", "workers"),
        pair("warning", "owners"),
        pair("warning", "owners"),
        pair("problem", "keys"),
    ];
    assert_eq!(found(&redis, 1), expected);
    on(&redis, DELAYED, &["doctor"])
        .expect(1)
        .says("PROBLEM  keys: types: the key `types_dead` is a string and should be a stream")
        .says("→ redis-cli CONFIG SET maxmemory-policy noeviction")
        .says("1 messages are owned by dead workers of Python or Go");
    on(&redis, DELAYED, &["queues"]).expect(0).says("a key of this queue holds another type");
    on(&redis, DELAYED, &["dead", "list", "--queue", "types"]).expect(4).says("holds another type");
}
