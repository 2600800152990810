//! Does `doctor` find what is wrong, and say nothing of what is right?

use redis::Commands;
use serde_json::Value;

use super::{DELAYED, PATIENCE, on, start};
use crate::support::redis::{Options, TestRedis, everything, read};
use crate::support::wait;

fn found(redis: &TestRedis, code: i32) -> Vec<(String, String)> {
    found_at(redis, &redis.url(), code)
}

fn found_at(redis: &TestRedis, url: &str, code: i32) -> Vec<(String, String)> {
    let ended = on(redis, DELAYED, &["doctor", "--json", "--redis", url]).expect(code);
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
        .says("a round trip takes")
        .says("ok       writes: taken");
}

/// What is found on a server that was well before.
fn found_after(spoil: impl Fn(&mut redis::Connection)) -> Vec<(String, String)> {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    on(&redis, DELAYED, &["enqueue", "a", "[1]", "--queue", "q"]).expect(0);
    let () = connection.del(&["q", "q_noti"]).unwrap();
    spoil(&mut connection);
    let before = everything(&mut connection);
    let found = found(&redis, 1);
    assert_eq!(everything(&mut connection), before, "expected nothing to be changed");
    found
}

fn problem(check: &str) -> Vec<(String, String)> {
    vec![("problem".into(), check.into())]
}

#[test]
fn a_server_that_takes_no_writes_is_a_problem() {
    let told = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        move |connection: &mut redis::Connection| read(connection, &command)
    };
    assert_eq!(found_after(told(&["REPLICAOF", "127.0.0.1", "1"])), problem("writes"));
    assert_eq!(found_after(told(&["CONFIG", "SET", "min-replicas-to-write", "1"])), problem("writes"));
    let full = found_after(told(&["CONFIG", "SET", "maxmemory", "1"]));
    assert_eq!(full, [vec![("warning".into(), "memory".into())], problem("writes")].concat());
    // Nothing of this kind is there to be written over.
    let empty = TestRedis::with(Options { append_only: true, ..Options::default() });
    found(&empty, 0);
    assert_eq!(empty.connection().keys::<_, Vec<String>>("*").unwrap(), Vec::<String>::new());
}

#[test]
fn a_server_that_cannot_save_its_data_is_a_problem() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    // The snapshot cannot take the place of a directory.
    std::fs::create_dir(redis.directory().join("dump.rdb")).unwrap();
    let () = read(&mut connection, redis::cmd("CONFIG").arg("SET").arg("save").arg("3600 1"));
    let () = read(&mut connection, &redis::cmd("BGSAVE"));
    wait::until("the snapshot to fail", PATIENCE, || {
        let info: String = read(&mut connection, redis::cmd("INFO").arg("persistence"));
        info.contains("rdb_last_bgsave_status:err")
    });
    assert_eq!(found(&redis, 1), [problem("persistence"), problem("writes")].concat());
}

#[test]
fn keys_of_the_wrong_type_and_missing_rights_are_findings() {
    let found = found_after(|connection| {
        let () = connection.del("delayed_queues").unwrap();
        let () = connection.set("delayed_queues", "not ours").unwrap();
    });
    assert_eq!(found, problem("keys"));

    let redis = TestRedis::with(Options { append_only: true, tcp: true, ..Options::default() });
    let mut connection = redis.connection();
    let url = |user: &str| redis.tcp_url().replacen("redis://", &format!("redis://{user}:x@"), 1);
    for (user, rights) in [("blind", "+ping"), ("reader", "-setrange")] {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(user).arg(&["on", ">x", "~*"]);
        let () =
            read(&mut connection, command.arg(if user == "reader" { "+@all" } else { "-@all" }).arg(rights));
    }
    assert_eq!(found_at(&redis, &url("blind"), 1), problem("access"));
    assert_eq!(found_at(&redis, &url("reader"), 0), [("warning".into(), "writes".into())]);
    on(&redis, DELAYED, &["doctor", "--redis", &url("blind")])
        .expect(1)
        .says("PROBLEM  access: ")
        .says("→ the Redis user lacks a permission: grant it (ACL SETUSER)");
}

#[test]
fn a_server_that_loads_its_data_is_a_finding() {
    let mut redis = TestRedis::with(Options {
        append_only: true,
        extra: ["--key-load-delay", "300"].map(Into::into).into(),
        ..Options::default()
    });
    for n in 0..6_000 {
        let () = redis.connection().set("fill", n).unwrap();
    }
    redis.restart_unready();
    let asked = on(&redis, DELAYED, &["doctor", "--json"]);
    let asked = asked.expect(1).says("is loading the dataset").says("try again later");
    let findings: Value = serde_json::from_str(&asked.out).unwrap();
    assert_eq!(findings[0]["check"], "access");
    assert_eq!(asked.out.matches("is loading").count(), 1, "expected it once: {asked:?}");
}

#[test]
fn a_list_of_messages_that_no_sweeper_finds_is_named() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    let () = connection.rpush("lone", &[b"\x91\xa1f", b"\x91\xa1g"]).unwrap();
    // Other programs' lists.
    let () = connection.rpush("texts", &["a", r#"{"a": 1}"#, "[1]"]).unwrap();
    let () = connection.rpush("numbers", &[1, 2]).unwrap();
    let before = everything(&mut connection);
    assert_eq!(found(&redis, 0), [("warning".into(), "unfound".into())]);
    on(&redis, DELAYED, &["doctor"])
        .expect(0)
        .says("unfound: lone: this list begins with a message (2 in all)")
        .says("`sweeper --queue 'lone'`");
    assert_eq!(everything(&mut connection), before, "expected nothing to be changed");
    // The fix.
    let sweeper = start(&redis, &["sweeper", "--queue", "lone", "--interval", "20ms"]);
    wait::until("its tokens", PATIENCE, || connection.llen::<_, u64>("lone_noti").unwrap() == 2);
    drop(sweeper);
    assert_eq!(found(&redis, 0), [("warning".into(), "workers".into())]);
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
        .says("PROBLEM  keys: types: the key `types_dead` is a string, but should be a stream")
        .says("→ redis-cli CONFIG SET maxmemory-policy noeviction")
        .says("tokens: gap: 1 message waits without a notification, so no worker is woken")
        .says("workers: gap: 1 message waits, and no worker is visible")
        .says("live_keys: eternal: 1 live key never expires, such as `eternal:aaaaaaaaaaaaaaaa:0`")
        .says("dead: eternal: 1 dead letter\n")
        .says("owners: lost: 1 message is owned by dead Python or Go workers");
    let () = connection.rpush("gap", "\u{7}").unwrap();
    let () = connection.hset("lost_processing", "4712", "\u{7}").unwrap();
    on(&redis, DELAYED, &["doctor"])
        .expect(1)
        .says("tokens: gap: 2 messages wait without")
        .says("owners: lost: 2 messages are owned by dead Python or Go workers");
    on(&redis, DELAYED, &["queues"])
        .expect(0)
        .says("unreadable")
        .says("types: the key `types_dead` has the wrong type");
    on(&redis, DELAYED, &["dead", "list", "--queue", "types"])
        .expect(4)
        .says("error: the key `types_dead` has the wrong type: rename or delete it");
    on(&redis, DELAYED, &["dead", "requeue", "--all", "--queue", "types"])
        .expect(4)
        .says("the key `types_dead`");
    let () = connection.set("types_noti", "x").unwrap();
    on(&redis, DELAYED, &["enqueue", "f", "--queue", "types"])
        .expect(4)
        .says("error: the key `types_noti` has the wrong type: rename or delete it");
}

#[test]
fn deliveries_that_nobody_carries_out_are_found() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    let () = connection.sadd("delayed_queues", "q").unwrap();
    let outbox = "q_outbox";
    let (now, _): (u64, u64) = read(&mut connection, &redis::cmd("TIME"));
    // To open the first node of a flow; in vain, since no such flow is known.
    let to_do = |flow: u8| [&[flow; 16][..], b"o", &[0; 4]].concat();
    let () = connection.hset(outbox, to_do(1), now * 1000).unwrap();
    assert_eq!(found(&redis, 0), [], "expected a delivery that is on its way to be well");
    let () = connection.hset(outbox, to_do(2), now * 1000 - 61_000).unwrap();
    let before = everything(&mut connection);
    assert_eq!(found(&redis, 0), [("warning".into(), "outbox".into())]);
    on(&redis, DELAYED, &["doctor"])
        .expect(0)
        .says("outbox: q: 1 delivery to a flow is older than a minute, and no Rust worker is visible")
        .says("→ run `worker` with this queue, or `sweeper`");
    assert_eq!(everything(&mut connection), before, "expected nothing to be changed");
    // The fix.
    let sweeper = start(&redis, &["sweeper", "--queue", "q", "--interval", "20ms"]);
    wait::until("the delivery", PATIENCE, || !connection.hexists::<_, _, bool>(outbox, to_do(2)).unwrap());
    drop(sweeper);
    let () = connection.del(outbox).unwrap();
    assert_eq!(found(&redis, 0), []);
    let () = connection.set(outbox, "x").unwrap();
    on(&redis, DELAYED, &["doctor"])
        .expect(1)
        .says("PROBLEM  keys: q: the key `q_outbox` is a string, but should be a hash");
}

#[test]
fn foreign_worker_on_a_queue_with_call_options_is_a_problem() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    let options = |redis: &TestRedis, code| {
        found(redis, code).into_iter().filter(|(_, check)| check == "options").count()
    };
    for (id, told) in [
        ("0123456789abcdef0123456789abcdef", "a Go worker serves this queue: it runs a call without its id"),
        ("4711", "a Python worker serves this queue: it drops a call with options"),
    ] {
        on(&redis, DELAYED, &["enqueue", "a", "[1]"]).expect(0);
        let () = connection.hset("default_processing", id, b"\x92\xa1f\x91\x01").unwrap();
        let () = connection.set_ex(id, 1, 60).unwrap();
        assert_eq!(options(&redis, 0), 0, "expected calls without options to be fine");
        on(&redis, DELAYED, &["enqueue", "a", "[1]", "--retry", "3"]).expect(0);
        on(&redis, DELAYED, &["doctor"]).expect(1).says("PROBLEM  options: default: 1 call has").says(told);
        let () = connection.hset("default_processing", id, b"\x93\xa1f\xc4\x01\x01\x81\xa1r\x02").unwrap();
        on(&redis, DELAYED, &["doctor"]).expect(1).says("PROBLEM  options: default: 2 calls have");
        let () = connection.del(id).unwrap();
        assert_eq!(options(&redis, 0), 0, "expected no foreign worker to be seen");
        let () = connection.flushall().unwrap();
    }
}

#[test]
fn locks_of_ended_calls_are_told_and_eternal_ones_warned_of() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    let locks = |code| {
        let findings: Value =
            serde_json::from_str(&on(&redis, DELAYED, &["doctor", "--json"]).expect(code).out).unwrap();
        let of_locks = findings.as_array().unwrap().iter().filter(|finding| finding["check"] == "locks");
        of_locks.map(|finding| (finding["level"].clone(), finding["text"].clone())).collect::<Vec<_>>()
    };
    let unique = |words: &[&str]| {
        on(&redis, DELAYED, &[&["enqueue", "f"], words].concat()).expect(0);
    };
    unique(&["[1]", "--unique", "until-done"]);
    unique(&["[2]", "--unique", "replace", "--after", "1h", "--queue", "q"]);
    assert_eq!(locks(0), [], "expected locks of living calls to be well");
    unique(&[
        "[3]",
        "--unique",
        "1h",
        "--keep=1h",
        "--id=018bcfe5-687b-7b5c-8a3e-0123456789ab",
        "--after=1h",
    ]);
    on(&redis, DELAYED, &["calls", "cancel", "018bcfe5-687b-7b5c-8a3e-0123456789ab"]).expect(0);
    let ended = "1 unique lock is held by calls that have ended, until the lock expires or the next call takes it over";
    assert_eq!(locks(0), [("ok".into(), ended.into())]);
    // Of a call without a record, nothing is known.
    let records: Vec<String> = connection.keys("default:c:*").unwrap();
    assert_eq!(records.len(), 2, "{records:?}");
    let () = connection.del(&records).unwrap();
    let unknown =
        "2 unique locks are held by calls without a record, which may have ended: each expires by itself";
    assert_eq!(locks(0), [("ok".into(), unknown.into())]);
    let keys: Vec<String> = connection.keys("q:u:*").unwrap();
    let () = connection.persist(&keys[0]).unwrap();
    let () = connection.set_ex(format!("q:u:{}", "0".repeat(32)), "x", 60).unwrap();
    on(&redis, DELAYED, &["doctor"])
        .expect(0)
        .says(&format!("locks: q: 1 lock never expires, such as `{}`", keys[0]))
        .says(&format!("→ redis-cli EXPIRE '{}' 86400", keys[0]))
        .says("should hold the id of a call, but holds something else");
}

#[test]
fn lock_of_a_call_without_a_message_is_warned_of_and_freed() {
    let redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let mut connection = redis.connection();
    let enqueue = |words: &[&str]| on(&redis, DELAYED, &[&["enqueue", "f", "[1]"], words].concat());
    let unique = |id: &str| enqueue(&["--unique", "until-done", "--id", id]);
    unique("order:7").expect(0);
    enqueue(&["--id", "order:8", "--keep", "1h"]).expect(0);
    let message: Vec<u8> = connection.lindex("default", 0).unwrap();
    let is_well = |why: &str| {
        let found: Vec<_> = found(&redis, 0).into_iter().filter(|(_, check)| check == "locks").collect();
        assert_eq!(found, [], "expected the message to be found {why}");
    };
    is_well("in the queue");
    let () = connection.lpop("default", None).unwrap();
    let () = connection.hset("default_processing", "default:abcdefghijklmn27:0", &message).unwrap();
    is_well("in a slot");
    let () = connection.del("default_processing").unwrap();
    let () = connection.rpush("default:l:few", &message).unwrap();
    let () = connection.sadd("default_parked", "few").unwrap();
    is_well("at a limit");
    let () = connection.del(&["default:l:few", "default_parked"]).unwrap();
    let id = "33fe6d75-c3fc-59bb-bf42-d06fc16bdf64";
    let digits = id.replace('-', "");
    let bytes: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
    let () = connection.hset("default_later", &bytes, &message).unwrap();
    is_well("in the timetable");
    let () = connection.del("default_later").unwrap();
    let flow = format!("default:f:{digits}");
    let () = connection.hset(&flow, "state", "running").unwrap();
    is_well("of a flow, which has none");
    let () = connection.del(&flow).unwrap();

    let key = connection.keys::<_, Vec<String>>("default:u:*").unwrap().remove(0);
    let warning = format!(
        "locks: default: 1 unique lock is held by calls whose messages are lost, such as `{key}` by the call {id}, which is \
         waiting according to its record"
    );
    let fix = format!("redis-cli DEL '{key}'");
    on(&redis, DELAYED, &["doctor"]).expect(0).says(&warning).says(&fix);
    unique("order:9").expect(0).says("not enqueued");
    let () = connection.del(&key).unwrap();
    unique("order:9").expect(0).says("enqueued f(1)");
    is_well("of the next call");
}

#[test]
fn lists_of_ended_calls_with_a_wrong_type_are_problems() {
    for suffix in ["done", "cancelled"] {
        let found = found_after(|connection| {
            let () = connection.set(format!("q_{suffix}"), "x").unwrap();
        });
        assert_eq!(found, problem("keys"), "{suffix}");
    }
}
