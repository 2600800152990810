//! What becomes of scheduled calls when processes, Redis or the rights to it fail.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use delayed::{Client, GoTask};
use redis::Commands;

use super::rights::{set, without};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, mark};
use crate::support::wait;

/// The lease of the timetable, in milliseconds.
const LEASE_MS: u64 = 1_000;
/// How long a machine that is busy with other tests may keep a process from running. A worker whose lease is 30 s would find
/// what is due within 10 s without the rule that is tested here.
const STALL_MS: u64 = 4_000;

fn marking(n: usize) -> delayed::Call {
    GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE)
}

/// Schedules calls that note these numbers.
fn schedule(trial: &Trial, numbers: std::ops::Range<usize>, after: Duration) {
    let client = Client::lazy(&trial.server.url());
    let count = numbers.len();
    assert_eq!(client.enqueue_many_blocking(numbers.map(|n| marking(n).after(after))).unwrap(), count);
}

#[test]
fn thousand_calls_due_while_redis_is_down_run_once_late() {
    let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
    let mut workers = [trial.worker(&["--lease", "2s"]), trial.worker(&["--lease", "2s"])];
    schedule(&trial, 0..1_000, Duration::from_millis(1500));
    let last: Vec<(Vec<u8>, u64)> = trial.redis.zrange_withscores("q_due", -1, -1).unwrap();
    assert_eq!(trial.state().later.len(), 1_000, "expected none to be due yet");
    trial.server.kill();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    wait::until("all to be due", PATIENCE, || now() > u128::from(last[0].1));
    trial.server.restart();
    trial.redis = trial.server.connection();
    trial.wait_runs(1_000);
    trial.wait_settled();
    workers.iter_mut().for_each(|worker| {
        trial.stop(worker);
    });
    trial.ledger.assert_each_once(0..1_000);
    assert_eq!(trial.state().later.len(), 0);
}

/// The process that has the lease of the timetable: its place among these.
fn holder(trial: &mut Trial, workers: &[Program]) -> Option<usize> {
    let id: Option<String> = trial.redis.get("q_timetable").unwrap();
    let serves = |worker: &Program| {
        let line: serde_json::Value = serde_json::from_str(&worker.wait_for_line("\"serving\"")).unwrap();
        line["worker"].as_str().unwrap().to_owned()
    };
    workers.iter().position(|worker| id.as_ref().is_some_and(|id| serves(worker).contains(&**id)))
}

/// When processes took the lease of the timetable, and when calls were moved to the queue: in milliseconds by Redis's clock, as
/// it wrote them down itself.
#[derive(Default)]
struct Watched {
    leases: Vec<u64>,
    moves: Vec<u64>,
}

/// Watches until somebody says `over`.
fn watch(server: &TestRedis) -> JoinHandle<Watched> {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("expected Redis to tell"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    spawn(move || {
        let mut watched = Watched::default();
        for line in lines.take_while(|line| !line.ends_with(r#""ECHO" "over""#)) {
            let seconds: f64 = line.trim_start_matches('+').split(' ').next().unwrap().parse().unwrap();
            let at = (seconds * 1000.0) as u64;
            if line.contains(r#" lua] "SET" "q_timetable" "#) {
                watched.leases.push(at);
            } else if line.contains(r#" lua] "RPUSH" "q" "#) {
                watched.moves.push(at);
            }
        }
        watched
    })
}

#[test]
fn killed_holder_of_the_timetable_delays_calls_by_one_lease() {
    let is_played = (0..10).any(|_| holder_is_killed_before_calls_are_due());
    assert!(is_played, "expected calls to be scheduled still when the holder has died");
}

/// `false`: the machine stalled, so that the calls had been moved before their holder died.
fn holder_is_killed_before_calls_are_due() -> bool {
    let mut trial = Trial::new();
    let mut workers: Vec<Program> = (0..3).map(|_| trial.worker(&["--no-sweep", "--lease", "30s"])).collect();
    wait::until("all to listen", PATIENCE, || {
        let command = redis::cmd("PUBSUB").arg(&["NUMSUB", "q:due"]).to_owned();
        let heard: Vec<(String, u64)> = command.query(&mut trial.redis).unwrap();
        heard[0].1 == 3
    });
    let watched = watch(&trial.server);
    // Who moves the first keeps the timetable for the others, which are due soon.
    schedule(&trial, 1..200, Duration::from_millis(1_100));
    schedule(&trial, 0..1, Duration::from_millis(200));
    trial.wait_runs(1);
    trial.wait_settled();
    let Some(holder) = holder(&mut trial, &workers) else { return false };
    workers.remove(holder).kill9();
    let due: Vec<(Vec<u8>, u64)> = trial.redis.zrange_withscores("q_due", 0, -1).unwrap();
    if due.len() < 199 {
        return false;
    }
    trial.wait_runs(200);
    let () = redis::cmd("ECHO").arg("over").query(&mut trial.redis).unwrap();
    let Watched { leases, moves } = watched.join().unwrap();
    // The first move was that of the holder, which then took the lease for the last time.
    let lease = leases.iter().rfind(|at| **at < moves[1]).expect("the holder had a lease") + LEASE_MS;
    let promised = lease.max(due[198].1);
    let late = moves.last().unwrap().saturating_sub(promised);
    println!("late by {late} ms after the lease");
    assert!(late < STALL_MS, "expected another process to take over when the lease ends: {late} ms later");
    trial.wait_settled();
    workers.iter_mut().for_each(|worker| {
        trial.stop(worker);
    });
    trial.ledger.assert_each_once(0..200);
    true
}

#[test]
fn timetable_of_another_type_holds_up_no_other_call() {
    for key in ["q_due", "q_later"] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--lease", "1s"]);
        let client = Client::lazy(&trial.server.url());
        let () = trial.redis.set(key, "text").unwrap();
        let scheduled = || client.enqueue_blocking(marking(0).after(Duration::from_millis(1)));
        let error = scheduled().unwrap_err();
        assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::WrongType), "{key}: {error}");
        trial.push(&[mark(1)]);
        trial.wait_runs(1);
        let () = trial.redis.del(key).unwrap();
        assert_eq!(trial.state().later.len(), 0, "{key}: expected nothing of the refused call to be left");
        scheduled().unwrap();
        trial.wait_runs(2);
        // It was made while calls were scheduled.
        schedule(&trial, 2..4, Duration::from_millis(300));
        let () = trial.redis.rename(key, "kept").unwrap();
        let () = trial.redis.set(key, "text").unwrap();
        worker.wait_for_line("moving calls that are due");
        let () = trial.redis.rename("kept", key).unwrap();
        trial.wait_runs(4);
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(0..4);
        trial.assert_only(&[]);
    }
}

/// Plays each of them, all at a time: most wait for a pause to be over.
fn each(rights: &[&str], play: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for rights in rights {
            scope.spawn(|| play(rights));
        }
    });
}

#[test]
fn calls_that_may_not_be_moved_run_once_when_they_may() {
    let moves = ["-zrange", "-zrangebyscore", "-zrem", "-hdel", "-hmget", "-rpush", "-hget", "-hset"];
    let leases = ["-set", "-get", "-pttl", "-unlink", "-set -unlink"];
    each(&[&moves[..], &leases].concat(), |rights| {
        let (mut trial, url) = without("+@all");
        let mut worker = trial.worker_at(&url, &["--lease", "1s", "--no-sweep"]);
        set(&mut trial.redis, &rights.split(' ').collect::<Vec<_>>());
        schedule(&trial, 0..20, Duration::from_millis(20));
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            worker.printed().contains("grant it") || trial.ledger.total() == 20
        });
        set(&mut trial.redis, &["+@all"]);
        trial.wait_runs(20);
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(0..20);
        assert_eq!(trial.state().later.len(), 0, "{rights}");
    });
}

#[test]
fn retries_that_may_not_be_scheduled_come_all_the_same() {
    let rights = ["-zadd", "-hset", "-hdel", "-hexists", "-hsetnx", "-zrange", "-get", "-publish", "-unlink"];
    each(&rights, |right| {
        let (mut trial, url) = without("+@all");
        let mut worker = trial.worker_at(&url, &["--lease", "1s"]);
        set(&mut trial.redis, &[right]);
        let calls: Vec<Vec<u8>> =
            (0..10).map(|n| call("trial.comes_back", &[n.to_string().into()])).collect();
        trial.push(&calls);
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            worker.printed().contains("grant it") || trial.ledger.total() == 20
        });
        set(&mut trial.redis, &["+@all"]);
        trial.wait_runs(20);
        trial.wait_settled();
        wait::until("no call to be scheduled", PATIENCE, || trial.state().later.is_empty());
        trial.stop(&mut worker);
        trial.ledger.assert_each_once((0..10).flat_map(|n| [format!("{n} 1"), format!("{n} 2")]));
        assert_eq!(trial.dead(), 0, "{right}");
    });
}

#[test]
fn schedule_that_was_refused_can_be_sent_again() {
    for right in ["-zadd", "-hset", "-zrange", "-hlen", "-hexists", "-get", "-unlink", "-publish", "-evalsha"]
    {
        let (mut trial, url) = without("+@all");
        let client = Client::connect_blocking(&url).unwrap();
        set(&mut trial.redis, &[right]);
        let call = || marking(0).after(Duration::from_millis(1));
        let refused = client.enqueue_blocking(call());
        set(&mut trial.redis, &["+@all"]);
        if let Err(error) = refused {
            assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Denied), "{right}: {error}");
            assert_eq!(trial.state().later.len(), 0, "{right}");
            client.enqueue_blocking(call()).unwrap();
        }
        let mut worker = trial.worker(&[]);
        trial.wait_runs(1);
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(0..1);
        trial.assert_only(&[]);
    }
}
