//! How long did Redis take for each script? It tells so itself, in its log of slow commands.

use std::collections::BTreeMap;

use delayed::__private::script_text;
use redis::{Connection, Value};

/// What a script may take before others notice that they wait.
const LIMIT_US: u64 = 5_000;
/// What takes less is not looked at: it is what is called inside of a script, and scripts that found nothing to do.
const LEAST_US: u64 = 20;
/// More than any part makes.
const MOST_CALLS: u32 = 200_000;

const SCRIPTS: [&str; 11] = [
    "balance",
    "beat",
    "claim",
    "finish",
    "pick_up",
    "promote",
    "requeue_lost",
    "resign",
    "schedule",
    "start",
    "submit",
];

/// Lets Redis log the time of each command that takes a while from now on.
pub(super) fn watch(connection: &mut Connection) {
    for (setting, value) in
        [("slowlog-max-len", MOST_CALLS.to_string()), ("slowlog-log-slower-than", LEAST_US.to_string())]
    {
        redis::cmd("CONFIG")
            .arg("SET")
            .arg(setting)
            .arg(value)
            .exec(connection)
            .expect("Redis lets itself be set");
    }
    redis::cmd("SLOWLOG").arg("RESET").exec(connection).expect("answers");
}

/// The times of each script since then, in microseconds, sorted.
fn times(connection: &mut Connection) -> BTreeMap<&'static str, Vec<u64>> {
    let names: BTreeMap<String, &str> = SCRIPTS
        .iter()
        .map(|name| {
            let text = script_text(name).expect("a script of ours");
            let digest = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(connection).expect("loads");
            (digest, *name)
        })
        .collect();
    let log: Vec<Vec<Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(MOST_CALLS).query(connection).expect("Redis tells");
    assert!(log.len() < MOST_CALLS as usize, "the log holds all calls");
    let mut times = BTreeMap::<&str, Vec<u64>>::new();
    for entry in log {
        let took: u64 = redis::from_redis_value(entry[2].clone()).expect("a number");
        let words: Vec<Vec<u8>> = redis::from_redis_value(entry[3].clone()).expect("a command");
        let digest = words.get(1).map(|word| String::from_utf8_lossy(word).into_owned());
        if words[0].eq_ignore_ascii_case(b"EVALSHA")
            && let Some(name) = digest.and_then(|digest| names.get(&digest).copied())
        {
            times.entry(name).or_default().push(took);
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// Prints the times of each script since [`watch`], or since the last time.
pub(super) fn report(connection: &mut Connection) {
    for (name, times) in times(connection) {
        let slow = times.iter().filter(|time| **time > LIMIT_US).count();
        let ms = |share| super::at(&times, share) as f64 / 1000.0;
        println!(
            "  {name}: {} calls of {LEAST_US} µs or more; p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms; {slow} above {} ms",
            times.len(),
            ms(0.5),
            ms(0.99),
            ms(1.0),
            LIMIT_US / 1000,
        );
    }
    redis::cmd("SLOWLOG").arg("RESET").exec(connection).expect("answers");
}
