//! Do lists that are watched show what changes?

use redis::Commands;

use super::{DELAYED, command};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};

fn watch(redis: &TestRedis, words: &[&str]) -> Program {
    let mut command = command(DELAYED, redis.directory(), words);
    Program::spawn(command.env("DELAYED_REDIS_URL", redis.url()))
}

#[test]
fn lists_show_what_has_changed_and_outlive_redis() {
    let mut redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let queues = watch(&redis, &["queues", "--watch=100ms"]);
    let json = watch(&redis, &["queues", "--watch=100ms", "--json"]);
    let calls = watch(&redis, &["calls", "list", "--watch=100ms"]);
    let workers = watch(&redis, &["workers", "--watch=100ms"]);
    let dead = watch(&redis, &["dead", "list", "--watch=100ms"]);
    queues.wait_for_line("there are no queues");
    calls.wait_for_line("there are no such calls");
    workers.wait_for_line("no worker is visible");
    dead.wait_for_line("there are no dead letters here");
    let mut connection = redis.connection();
    let () = connection.sadd("delayed_queues", "mail").unwrap();
    let () = connection.rpush("mail", b"\x92\xa9mail.send\xc4\x01\x07").unwrap();
    let () = connection.rpush("mail_noti", "1").unwrap();
    let mut letter = redis::cmd("XADD");
    letter.arg("mail_dead").arg("*").arg("message").arg(b"\x92\xa9mail.late\xc4\x01\x07");
    let _: String = letter.arg(&["reason", "failed", "detail", "never"]).query(&mut connection).unwrap();
    queues.wait_for_line("mail");
    json.wait_for_line("\"queue\": \"mail\"");
    calls.wait_for_line("mail.send(7)");
    dead.wait_for_line("mail.late(7)");
    redis.kill();
    queues.wait_for_line("error: ");
    redis.restart();
    let shown = queues.printed().matches("mail ").count();
    queues.wait_for_lines("mail ", shown + 2);
    let moments =
        queues.printed().lines().filter(|line| line.starts_with("20") && line.ends_with('Z')).count();
    assert!(moments > 2, "expected a moment above each list:\n{}", queues.printed());
}
