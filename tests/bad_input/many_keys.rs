//! A database full of other people's keys: looking for queues among them costs Redis little, and keeps nobody waiting.

use std::time::{Duration, Instant};

use delayed::testing::Mode;
use redis::{Commands, Connection};
use serde_json::Value;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::read;
use crate::support::trial::{PATIENCE, Trial, mark};
use crate::support::wait;

/// Makes so many thousands of keys, a part of which look a little like those of queues.
fn fill(redis: &mut Connection, thousands: usize) {
    let script = redis::Script::new(
        "for i = 1, 1000 do
           redis.call('SET', 'session_' .. ARGV[1] .. '_' .. i .. (i % 10 == 0 and '_nodes' or ''), 'x')
         end",
    );
    for n in 0..thousands {
        let () = script.arg(n).invoke(redis).unwrap();
    }
}

/// How often Redis has scanned, and for how long in all.
fn scans(redis: &mut Connection) -> (u64, Duration) {
    let stats: String = read(redis, redis::cmd("INFO").arg("commandstats"));
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:")).unwrap_or_default();
    let field = |name: &str| {
        let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.map_or(0, |value| value.parse().unwrap())
    };
    (field("calls"), Duration::from_micros(field("usec")))
}

#[test]
fn sweeper_rests_in_its_scan_and_sweeps_known_queues_meanwhile() {
    let mut trial = Trial::new();
    fill(&mut trial.redis, 200);
    let () = trial.redis.sadd("delayed_queues", "q").unwrap();
    let began = Instant::now();
    let mut sweeper = trial.sweeper(&["--interval", "50ms"]);
    for n in 0..5 {
        let () = trial.redis.hset("q_processing", "gone", mark(n)).unwrap();
        wait::until("a sweep of the registered queue", PATIENCE, || trial.left() == (n + 1, 0));
    }
    assert!(scans(&mut trial.redis).0 < 200, "expected it not to wait for the end of a scan");
    // The sweeper rests by what a step usually takes, so one in which Redis had to wait for a processor counts as any
    // other here too.
    let mut seen = vec![scans(&mut trial.redis)];
    wait::until("some steps of a scan", PATIENCE, || {
        let now = scans(&mut trial.redis);
        if now.0 > seen.last().unwrap().0 {
            seen.push(now);
        }
        now.0 >= 20
    });
    let elapsed = began.elapsed();
    let mut costs: Vec<Duration> = seen
        .windows(2)
        .map(|pair| (pair[1].1 - pair[0].1) / u32::try_from(pair[1].0 - pair[0].0).unwrap())
        .collect();
    costs.sort();
    let (steps, usual) = (seen.last().unwrap().0, costs[costs.len() / 2]);
    let share = usual.as_secs_f64() * steps as f64 / elapsed.as_secs_f64();
    // Without rests it is most of the time. Between 1 % and this is what a machine with other work adds to single steps.
    assert!(
        share < 0.1,
        "expected about 1 % of the time: {steps} steps of {usual:?} in {elapsed:?}, {share:.3}"
    );
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
}

#[test]
fn unregistered_queue_is_found_among_many_keys_and_swept() {
    let mut trial = Trial::new();
    fill(&mut trial.redis, 5);
    let () = trial.redis.hset("q_processing", "gone", mark(0)).unwrap();
    let mut sweeper = trial.sweeper(&["--interval", "1h"]);
    wait::until("it to be swept as soon as it is found", PATIENCE, || trial.left() == (1, 0));
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    sweeper.wait_exit(PATIENCE);
}

#[test]
fn tools_show_registered_queues_and_name_what_they_skipped() {
    let mut trial = Trial::new();
    fill(&mut trial.redis, 100);
    let () = trial.redis.sadd("delayed_queues", "q").unwrap();
    let proxy = trial.server.proxy();
    // 100 steps take 2 s.
    proxy.set(Mode::Delay(Duration::from_millis(10)));
    let run = |words: &[&str]| {
        let mut tool = Program::spawn(trial.command(DELAYED).args(words).args(["--redis", proxy.url()]));
        let code = tool.wait_exit(PATIENCE).code();
        (code, tool.last_words())
    };
    let (code, said) = run(&["queues"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.lines().any(|line| line.contains('q') && line.contains('0')), "{said}");
    assert!(said.contains("`queues --scan`"), "expected to be told that it did not look at all: {said}");

    proxy.set(Mode::Pass);
    let () = redis::cmd("HSET")
        .arg("hidden_processing")
        .arg("gone")
        .arg(mark(0))
        .query(&mut trial.server.connection())
        .unwrap();
    let (code, said) = run(&["queues", "--scan", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let queues: Value = serde_json::from_str(&said).unwrap();
    let names: Vec<&str> =
        queues.as_array().unwrap().iter().map(|queue| queue["queue"].as_str().unwrap()).collect();
    assert_eq!(names, ["hidden", "q"]);
}
