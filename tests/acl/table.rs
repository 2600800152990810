//! The table of permissions is that of the scripts and of the broker.

use std::collections::BTreeSet;

use delayed::__private::{Rights, Role, script_text};

use crate::architecture::files;
use crate::support::redis::TestRedis;
use crate::support::root;

const ROLES: [Role; 5] = [Role::Producer, Role::Worker, Role::Sweeper, Role::Operator, Role::Dashboard];

/// Commands that a script has and nobody is allowed: the script, the command, why.
const WITHOUT: [(&str, &str, &str); 1] = [(
    "submit",
    "xdel",
    "it takes a dead letter back if the user may not shorten the queue, and a producer may",
)];

/// Words of the broker that are the name of a command, and no permission: the word, why.
const NOT_SENT: [(&str, &str); 3] = [
    ("config", "its reply contains the passwords of the server; `doctor` goes without it"),
    ("incr", "an option of `ZADD`"),
    ("readonly", "an error of a replica"),
];

/// What the library for Redis sends by itself, or for a method of its own.
const OF_LIBRARY: [&str; 8] =
    ["exec", "multi", "ping", "psubscribe", "select", "subscribe", "unsubscribe", "evalsha"];

/// Methods of a pipeline, and the command that each sends. All other methods are of other types.
const METHODS: [(&str, &str); 7] = [
    ("del", "del"),
    ("hdel", "hdel"),
    ("hget", "hget"),
    ("hset", "hset"),
    ("hset_multiple", "hmset"),
    ("llen", "llen"),
    ("zcard", "zcard"),
];

/// All entries of the table.
fn table() -> Vec<&'static Rights> {
    let mut all: Vec<&Rights> = ROLES.iter().flat_map(|role| role.rights().all()).collect();
    all.sort_by_key(|rights| std::ptr::from_ref(*rights));
    all.dedup_by(|one, other| std::ptr::eq(*one, *other));
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

fn union<'a>(entries: &[&'a Rights], of: impl Fn(&'a Rights) -> &'a str) -> BTreeSet<&'a str> {
    entries.iter().flat_map(|rights| of(rights).split_whitespace()).collect()
}

/// The names of all commands of the server.
fn commands() -> BTreeSet<String> {
    let server = TestRedis::start();
    let all: Vec<Vec<redis::Value>> = redis::cmd("COMMAND").query(&mut server.connection()).unwrap();
    all.into_iter().map(|mut command| redis::from_redis_value(command.swap_remove(0)).unwrap()).collect()
}

/// The words in capitals between these quotes, in lower case, and what follows each.
fn quoted(text: &str, quote: char) -> impl Iterator<Item = (String, &str)> {
    text.match_indices(quote).filter_map(move |(at, _)| {
        let (word, rest) = text[at + 1..].split_once(quote)?;
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
        is_word.then(|| (word.to_lowercase(), rest))
    })
}

fn scripts() -> BTreeSet<String> {
    let name = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let of_scripts = |path: &std::path::PathBuf| path.parent().unwrap().ends_with("lua");
    files(&root().join("lua"), &["lua"]).into_iter().filter(of_scripts).map(name).collect()
}

#[test]
fn scripts_all_belong_to_a_role() {
    let listed: BTreeSet<String> =
        union(&table(), |rights| rights.scripts).into_iter().map(str::to_owned).collect();
    assert_eq!(listed, scripts(), "expected src/acl/table.rs to name each script, and no other");
}

#[test]
fn commands_of_scripts_are_those_of_the_table() {
    let known = commands();
    let called = |script: &'static str| {
        let text = script_text(script).unwrap_or_else(|| panic!("expected a script {script}"));
        let calls = quoted(text, '\'').map(|(word, _)| word).filter(|word| known.contains(word));
        let without = |word: &String| WITHOUT.iter().any(|(of, command, _)| *of == script && command == word);
        let called: BTreeSet<String> = calls.filter(|word| !without(word)).collect();
        assert!(!called.is_empty(), "expected {script} to call commands");
        called
    };
    for rights in table() {
        let expected: BTreeSet<String> = words(rights.scripts).flat_map(called).collect();
        let expected: Vec<String> = expected.into_iter().collect();
        assert_eq!(
            words(rights.in_scripts).collect::<Vec<_>>(),
            expected,
            "expected src/acl/table.rs to have for {:?}:\n{}",
            rights.scripts,
            expected.join(" ")
        );
    }
    for (script, command, _) in WITHOUT {
        let text = script_text(script).unwrap();
        assert!(quoted(text, '\'').any(|(word, _)| word == command), "expected {script} to call {command}");
    }
}

/// What the broker sends, as permissions have it: `hget`, `client|id`.
fn sent(known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut sent = BTreeSet::new();
    for path in files(&root().join("src/broker"), &["rs"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (word, rest) in quoted(code, '"').filter(|(word, _)| known.contains(word)) {
            let part = rest
                .strip_prefix(").arg(\"")
                .or_else(|| rest.trim_start_matches(")\n").trim_start().strip_prefix(".arg(\""));
            match (
                ["client", "script"].contains(&word.as_str()),
                part.and_then(|part| part.split('"').next()),
            ) {
                (true, Some(part)) => sent.insert(format!("{word}|{}", part.to_lowercase())),
                _ => sent.insert(word),
            };
        }
        let called = METHODS.iter().filter(|(method, _)| code.contains(&format!(".{method}(")));
        sent.extend(called.map(|(_, command)| (*command).to_owned()));
    }
    sent
}

#[test]
fn commands_of_the_broker_all_belong_to_a_role() {
    let (known, table) = (commands(), table());
    let sent = sent(&known);
    let listed: BTreeSet<String> =
        union(&table, |rights| rights.commands).into_iter().map(str::to_owned).collect();
    for (word, _) in NOT_SENT {
        assert!(sent.contains(word) && !listed.contains(word), "expected no permission for {word}");
    }
    let expected: Vec<&String> =
        sent.iter().filter(|word| !NOT_SENT.iter().any(|(not, _)| not == word)).collect();
    let missing: Vec<_> = expected.iter().filter(|word| !listed.contains(**word)).collect();
    assert!(
        missing.is_empty(),
        "expected a role in src/acl/table.rs for {missing:?}, which src/broker sends"
    );
    let idle: Vec<_> =
        listed.iter().filter(|word| !sent.contains(*word) && !OF_LIBRARY.contains(&word.as_str())).collect();
    assert!(idle.is_empty(), "expected src/broker to send {idle:?}, which src/acl/table.rs allows");
}

/// The names of keys that the documentation lists: `Q_noti`, `Q:W:kill`, `delayed_queues`.
fn documented() -> BTreeSet<String> {
    let document = std::fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next()).map(str::to_owned);
    names.filter(|name| name.starts_with('Q') || name.starts_with("delayed_")).collect()
}

#[test]
fn keys_of_the_protocol_all_belong_to_a_role() {
    let table = table();
    let listed: BTreeSet<&str> =
        union(&table, |rights| rights.keys).union(&union(&table, |rights| rights.reads)).copied().collect();
    let documented = documented();
    assert!(documented.len() > 30, "expected the keys in docs/protocol.md, not {documented:?}");
    for name in documented {
        let is_listed = listed.iter().any(|key| {
            *key == name
                || key.strip_suffix('*').is_some_and(|key| name.starts_with(key))
                || key.strip_suffix("Q").is_some_and(|key| key == name)
        });
        assert!(is_listed, "expected a role in src/acl/table.rs for the key {name} of docs/protocol.md");
    }
}
