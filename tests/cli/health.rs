//! Do the processes that serve say how they are: to systemd, in a file, and through `doctor --watch`?

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{DELAYED, PATIENCE, WORKER, command};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};
use crate::support::wait;

/// Starts a program that serves, as systemd does. Returns also what it is told.
fn under_systemd(redis: &TestRedis, program: &str, words: &[&str]) -> (Program, UnixDatagram) {
    let path = redis.directory().join("notify");
    let _ = fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = command(program, redis.directory(), words);
    command.env("DELAYED_REDIS_URL", redis.url()).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    (Program::spawn(&mut command), socket)
}

fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 100];
    let count = socket.recv(&mut bytes).expect("expected a message to systemd");
    String::from_utf8(bytes[..count].to_vec()).unwrap().trim().to_owned()
}

/// Reads messages up to this one. Returns those before it.
#[track_caller]
fn told_until(socket: &UnixDatagram, last: &str) -> Vec<String> {
    std::iter::repeat_with(|| told(socket)).take_while(|told| told != last).collect()
}

#[test]
fn systemd_hears_when_a_process_is_ready_alive_and_stops() {
    for (program, words) in [
        (WORKER, &["worker"][..]),
        (DELAYED, &["sweeper"]),
        (DELAYED, &["gateway", "--listen", "127.0.0.1:0"]),
    ] {
        let redis = TestRedis::start();
        let (mut process, socket) = under_systemd(&redis, program, words);
        assert_eq!(told(&socket), "READY=1", "{words:?}");
        for _ in 0..3 {
            assert_eq!(told(&socket), "WATCHDOG=1", "{words:?}");
        }
        process.signal(Signal::SIGTERM);
        let before = told_until(&socket, "STOPPING=1");
        assert!(before.iter().all(|told| told == "WATCHDOG=1"), "{words:?}: {before:?}");
        assert!(process.wait_exit(PATIENCE).success(), "{words:?}: {}", process.printed());
    }
}

#[test]
fn systemd_keeps_a_worker_whose_redis_is_away() {
    let mut redis = TestRedis::start();
    let (_worker, socket) = under_systemd(&redis, WORKER, &["worker"]);
    assert_eq!(told(&socket), "READY=1");
    redis.kill();
    // Far more than one that was sent before.
    for _ in 0..10 {
        assert_eq!(told(&socket), "WATCHDOG=1");
    }
}

fn says(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|read| read == text)
}

#[test]
fn health_file_tells_whether_redis_answers() {
    for (program, verb) in [(WORKER, "worker"), (DELAYED, "sweeper")] {
        let mut redis = TestRedis::start();
        let file = redis.directory().join("health");
        let mut command =
            command(program, redis.directory(), &[verb, "--health-file", file.to_str().unwrap()]);
        let mut process = Program::spawn(command.env("DELAYED_REDIS_URL", redis.url()));
        wait::until("the file to say that it is ready", PATIENCE, || says(&file, "ready\n"));
        redis.kill();
        wait::until("the file to say what is wrong", PATIENCE, || says(&file, "Redis does not answer\n"));
        redis.restart();
        wait::until("the file to say that it is ready again", PATIENCE, || says(&file, "ready\n"));
        process.signal(Signal::SIGTERM);
        assert!(process.wait_exit(PATIENCE).success(), "{}", process.printed());
        assert!(!file.exists(), "expected {verb} to remove the file");
    }
}

#[test]
fn health_file_that_cannot_be_written_ends_the_process() {
    let redis = TestRedis::start();
    let nowhere = redis.directory().join("missing/health");
    let nowhere = nowhere.to_str().unwrap();
    super::on(&redis, WORKER, &["worker", "--health-file", nowhere])
        .expect(1)
        .says(&format!("cannot write the health file {nowhere}"));
}

#[test]
fn doctor_watches_what_comes_and_goes() {
    let mut redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let watch = |redis: &TestRedis, words: &[&str]| {
        let mut command = command(DELAYED, redis.directory(), words);
        Program::spawn(command.env("DELAYED_REDIS_URL", redis.url()))
    };
    let told = watch(&redis, &["doctor", "--watch=100ms"]);
    let json = watch(&redis, &["doctor", "--watch=100ms", "--json"]);
    told.wait_for_line("ok       eviction: noeviction");
    let first: Value = serde_json::from_str(&json.wait_for_line("eviction")).unwrap();
    assert!(first.as_array().unwrap().iter().all(|finding| finding["level"] == "ok"), "{first}");
    let mut connection = redis.connection();
    let () =
        redis::cmd("CONFIG").arg(&["SET", "maxmemory-policy", "allkeys-lru"]).query(&mut connection).unwrap();
    told.wait_for_line("PROBLEM  eviction: maxmemory-policy is allkeys-lru");
    let second: Value = serde_json::from_str(&json.wait_for_line("allkeys-lru")).unwrap();
    assert!(second.as_array().unwrap().len() >= first.as_array().unwrap().len(), "{second}");
    let () =
        redis::cmd("CONFIG").arg(&["SET", "maxmemory-policy", "noeviction"]).query(&mut connection).unwrap();
    told.wait_for_line("solved   eviction: maxmemory-policy is allkeys-lru");
    redis.kill();
    told.wait_for_line("PROBLEM  access: ");
    redis.restart();
    told.wait_for_line("solved   access: ");
    assert_eq!(told.printed().matches("PROBLEM").count(), 2, "{}", told.printed());
}
