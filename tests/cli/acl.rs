//! Does `acl` print what Redis takes, and refuse what it cannot print?

use redis::Commands;

use super::{DELAYED, on};
use crate::support::redis::TestRedis;

/// The SHA-256 of `word`.
const HASH: &str = "98c1eb4ee93476743763878fcb96a25fbc9a175074d64004779ecb5242f645e6";

#[test]
fn line_is_taken_by_a_file_and_keeps_the_passwords_of_a_user() {
    let redis = TestRedis::start();
    let words = ["acl", "--role", "worker", "--role", "producer", "--queue", "mail", "--user", "shop"];
    let first = on(&redis, DELAYED, &[&words[..], &["--password-hash", HASH]].concat()).expect(0);
    assert_eq!(first.err, "", "expected nothing to be added");
    let path = redis.directory().join("users.acl");
    std::fs::write(&path, &first.out).unwrap();
    let server = TestRedis::with(crate::support::redis::Options {
        extra: vec!["--aclfile".into(), path.to_str().unwrap().into()],
        ..Default::default()
    });
    let url = format!("{}?user=shop&pass=word", server.url());
    let connect = || redis::Client::open(&*url).unwrap().get_connection();
    assert_eq!(connect().unwrap().llen::<_, u64>("mail").unwrap(), 0);

    let again =
        on(&redis, DELAYED, &["acl", "--role", "producer", "--queue", "reports", "--user", "shop"]).expect(0);
    let again = again.says("the passwords of `shop` stay as they are");
    assert!(!again.out.contains("pass"), "{again:?}");
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(again.out.split_whitespace().skip(1).collect::<Vec<_>>());
    let () = command.query(&mut server.connection()).unwrap();
    assert_eq!(connect().unwrap().llen::<_, u64>("reports").unwrap(), 0);
    connect().unwrap().llen::<_, u64>("mail").expect_err("the other queue is not its own any more");
}

#[test]
fn each_part_is_in_the_json_and_wide_patterns_are_noted() {
    let redis = TestRedis::start();
    let json =
        on(&redis, DELAYED, &["acl", "--role", "dashboard,sweeper", "--queue", "mail:?,a", "--json"]).json();
    assert_eq!(
        (&json["user"], &json["roles"][1], &json["queues"][0]),
        (&"dashboard".into(), &"sweeper".into(), &"mail:?".into())
    );
    let line = json["line"].as_str().unwrap();
    for part in ["keys", "channels", "commands"] {
        for rule in json[part].as_array().unwrap() {
            assert!(line.split(' ').any(|word| word == rule.as_str().unwrap()), "expected {rule} in {line}");
        }
    }
    on(&redis, DELAYED, &["acl", "--role", "worker", "--queue", "mail*"])
        .expect(0)
        .says("note: `mail*` matches");
    on(&redis, DELAYED, &["acl", "--role", "worker"]).expect(0).says("every key of the server").says(" ~* ");
    on(&redis, DELAYED, &["acl", "--role", "worker", "--shared", "--queue", "a"]).expect(0).says(" ~[0-9]* ");
}

#[test]
fn roles_patterns_and_hashes_that_cannot_be_are_refused() {
    let redis = TestRedis::start();
    for (words, told) in [
        (&["--role", "admin"][..], "[possible values: producer, worker, sweeper, operator, dashboard]"),
        (&[], "--role <ROLE>"),
        (&["--role", "worker", "--queue", ""], "must not be empty: use `*` for all queues"),
        (&["--role", "worker", "--queue", "a b"], "contains ' '"),
        (&["--role", "worker", "--queue", "a\u{200b}"], "contains '\\u{200b}'"),
        (&["--role", "worker", "--user", "a b"], "no blanks"),
        (&["--role", "worker", "--password-hash", "word"], "64 hexadecimal digits"),
    ] {
        on(&redis, DELAYED, &[&["acl"], words].concat()).expect(2).says(told);
    }
}
