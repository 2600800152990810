//! What a role does not need is refused.

use redis::Connection;

use super::{Site, connect};
use crate::support::process::DELAYED;
use crate::support::trial::{PATIENCE, WORKER, mark};

const ROLES: [&str; 5] = ["producer", "worker", "sweeper", "operator", "dashboard"];

/// What no role may do: to the server, to keys of other programs, and to those of another queue.
const NEVER: [&str; 29] = [
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG SET maxmemory 1",
    "CONFIG GET requirepass",
    "KEYS *",
    "ACL LIST",
    "ACL SETUSER x on nopass",
    "MONITOR",
    "SHUTDOWN",
    "REPLICAOF NO ONE",
    "SCRIPT FLUSH",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "EVAL return 0",
    "GET foreign",
    "SET foreign x",
    "HGETALL other",
    "LRANGE mailbox 0 -1",
    "LLEN q2",
    "LLEN q2_noti",
    "HGETALL q2:c:00000000000000000000000000000000",
    "XRANGE q2_dead - +",
    "XDEL q2_dead 1-1",
    "SUBSCRIBE q2:c:00000000000000000000000000000000",
    "PUBLISH q2:due 0",
    "RPUSH q2 x",
    "SORT q",
    "MIGRATE h 1 q 0 1",
    "SUBSCRIBE __keyspace@0__:q",
];

/// What some roles may do: a command, and the roles.
const SOMETIMES: [(&str, &[&str]); 16] = [
    ("LRANGE q 0 -1", &["producer", "worker", "sweeper", "operator", "dashboard"]),
    ("RPUSH q x", &["producer", "worker", "sweeper", "operator"]),
    ("HSET q_processing q:a:0 x", &["producer", "worker", "sweeper", "operator"]),
    ("BLMOVE q_noti q_hand LEFT RIGHT 1", &["worker"]),
    ("LLEN q_hand", &["worker", "sweeper", "operator", "dashboard"]),
    ("ZADD q_workers 0 x", &["worker", "sweeper", "operator"]),
    ("SET q_paused x", &["worker", "operator"]),
    ("XDEL q_dead 1-1", &["operator"]),
    ("XREVRANGE q_finished + -", &["operator", "dashboard"]),
    ("HGETALL q:c:00000000000000000000000000000000", &["producer", "worker", "operator", "dashboard"]),
    ("SUBSCRIBE q:paused", &["worker", "operator"]),
    ("SUBSCRIBE q:c:00000000000000000000000000000000", &["producer", "worker", "sweeper", "operator"]),
    ("HGETALL delayed_tokens", &["operator"]),
    ("HGETALL delayed_tasks", &["worker", "operator", "dashboard"]),
    ("XADD delayed_audit * by x", &["operator"]),
    ("SMEMBERS delayed_queues", &["producer", "sweeper", "operator", "dashboard"]),
];

/// Whether the user may not run the command.
fn is_refused(connection: &mut Connection, line: &str) -> bool {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    match command.arg(words.collect::<Vec<_>>()).query::<redis::Value>(connection) {
        Ok(_) => false,
        Err(error) => error.code() == Some("NOPERM") || error.to_string().contains("NoPerm"),
    }
}

#[test]
fn commands_and_keys_of_others_are_refused() {
    let mut site = Site::new();
    for role in ROLES {
        let url = site.user(role, &["--queue", "q"]);
        for line in NEVER {
            assert!(is_refused(&mut connect(&url), line), "expected {role} to be refused {line}");
        }
        for (line, roles) in SOMETIMES {
            let is_refused = is_refused(&mut connect(&url), line);
            assert_eq!(
                is_refused,
                !roles.contains(&role),
                "expected only {roles:?} to be allowed {line}: {role}"
            );
        }
    }
}

#[test]
fn redis_7_lets_a_dashboard_write_nothing() {
    let mut site = Site::new();
    let version: String = redis::cmd("INFO").arg("server").query(&mut site.trial.redis).unwrap();
    if version.contains("redis_version:6.") {
        let refused = site.try_user("dashboard", &["--queue", "q", "--redis-7"]);
        assert!(
            refused.is_err_and(|error| error.contains("Syntax error")),
            "expected Redis 6 not to know it"
        );
        return;
    }
    let url = site.user("dashboard", &["--queue", "q", "--redis-7"]);
    let () = redis::cmd("SET").arg(&["q_paused", "1 ann"]).query(&mut site.trial.redis).unwrap();
    assert!(is_refused(&mut connect(&url), "SETRANGE q_paused 0 x"));
    assert!(!is_refused(&mut connect(&url), "GET q_paused"));
    site.run(&url, DELAYED, &["doctor"]);
    let log = site.refused();
    assert!(log.len() == 1 && log[0].ends_with(" q_paused"), "{log:?}");
}

#[test]
fn permission_that_a_transaction_lacks_is_named() {
    let mut site = Site::new();
    let url = site.user("operator", &["--queue", "q"]);
    let () = redis::cmd("ACL").arg(&["SETUSER", "operator", "-hset"]).query(&mut site.trial.redis).unwrap();
    let output = site.try_run(&url, DELAYED, &["limits", "set", "few", "--concurrency", "1"]);
    let printed = super::text(&output);
    assert_eq!(output.status.code(), Some(4), "{printed}");
    assert!(printed.contains("lacks a permission") && printed.contains("'hset'"), "{printed}");
}

#[test]
fn programs_do_not_do_what_other_roles_do() {
    let mut site = Site::new();
    site.trial.push(&[mark(1)]);
    let [producer, dashboard] = ["producer", "dashboard"].map(|role| site.user(role, &["--queue", "q"]));
    let mut worker = site.trial.start_at(&producer, &["--queue", "q"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(4), "{}", worker.printed());
    for (url, words) in [
        (&producer, &["dead", "delete", "--all", "--yes", "--queue", "q"][..]),
        (&producer, &["calls", "list", "--queue", "other"]),
        (&dashboard, &["purge", "q", "--yes"]),
        (&dashboard, &["enqueue", "trial.mark", "[\"2\"]", "--queue", "q"]),
        (&dashboard, &["queues", "pause", "q"]),
    ] {
        let output = site.try_run(url, WORKER, words);
        let printed = super::text(&output);
        assert_eq!(output.status.code(), Some(4), "{words:?}: {printed}");
        assert!(printed.contains("`acl` prints what each role needs"), "{words:?}: {printed}");
    }
    assert_eq!(site.trial.state().waiting, [mark(1)], "expected nothing to be changed");
}
