//! The private Redis: one line starts it, and nothing of it is left, however the test ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use delayed::testing::{Fault, Redis, Requests, Side, assert_enqueued, refute_enqueued};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::shop;
use crate::support::process::Program;
use crate::support::wait;

const PATIENCE: Duration = Duration::from_secs(30);
const PROGRAM: &str = env!("CARGO_BIN_EXE_delayed-test-worker");

/// The process id of a server, and its directory.
fn place(url: &str) -> (Pid, PathBuf) {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().parse().unwrap();
    (Pid::from_raw(pid), Path::new(url.strip_prefix("unix://").unwrap()).parent().unwrap().to_owned())
}

#[tokio::test]
async fn two_redis_at_once_share_nothing() {
    let (one, other) = (Redis::start().await, Redis::start().await);
    one.client().enqueue(shop::send::call("ann".into(), None)).await.unwrap();
    assert_enqueued!(one, shop::send);
    refute_enqueued!(other);
    assert_eq!((one.drain().await.len(), other.drain().await.len()), (1, 0));
}

#[tokio::test]
async fn dropped_redis_takes_process_and_directory_along() {
    let redis = Redis::start().await;
    let (pid, directory) = place(redis.url());
    assert!(directory.join("redis.sock").exists());
    drop(redis);
    assert_eq!(kill(pid, None), Err(Errno::ESRCH));
    assert!(!directory.exists());
}

#[test]
fn redis_of_a_killed_or_exited_test_is_gone() {
    for kind in ["is killed", "exits"] {
        let mut program = Program::spawn(Command::new(PROGRAM).env("TESTER", kind));
        let line = program.wait_for_line("redis at ");
        let url = line.strip_prefix("redis at ").unwrap();
        let directory = Path::new(url.strip_prefix("unix://").unwrap()).parent().unwrap();
        if kind == "is killed" {
            let (pid, _) = place(url);
            program.kill9();
            wait::until("the end of the server", PATIENCE, || kill(pid, None) == Err(Errno::ESRCH));
        }
        assert!(program.wait_exit(PATIENCE).success() == (kind == "exits"));
        wait::until("the end of its directory", PATIENCE, || !directory.exists());
    }
}

#[test]
fn a_directory_that_does_not_suit_a_socket_is_not_used() {
    let directory = crate::support::directory();
    for name in ["with a space", &"long".repeat(20)] {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let mut command = Command::new(PROGRAM);
        let mut program = Program::spawn(command.env("TESTER", "exits").env("TMPDIR", &place));
        program.wait_for_line("redis at unix:///tmp/delayed-test-");
        assert!(program.wait_exit(PATIENCE).success());
    }
}

#[test]
fn a_missing_or_broken_server_is_named_in_the_panic() {
    let directory = crate::support::directory();
    for (variable, value, expected) in [
        (
            "PATH",
            directory.path().to_str().unwrap(),
            "delayed::testing::Redis: neither redis-server nor valkey-server is on the PATH: install Redis 6.2 or newer \
             (apt-get install redis-server, brew install redis), or name a program in DELAYED_TEST_SERVER",
        ),
        (
            "DELAYED_TEST_SERVER",
            "/nowhere/redis",
            "delayed::testing::Redis: DELAYED_TEST_SERVER is \"/nowhere/redis\", which is not a program",
        ),
        ("DELAYED_TEST_SERVER", "false", "false does not start; its log ends with: (it is empty)"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.env("TESTER", "").env_remove("DELAYED_TEST_SERVER").env(variable, value);
        let mut program = Program::spawn(&mut command);
        let printed = program.last_words();
        assert!(printed.contains(expected), "expected {expected:?}:\n{printed}");
    }
}

#[test]
fn everything_has_a_form_for_threads_that_block() {
    let redis = Redis::start_blocking();
    let later = shop::send::call("ann".into(), None).after(Duration::from_secs(3600));
    redis.client().enqueue_blocking(later).unwrap();
    assert_eq!(redis.enqueued_blocking().len(), 1);
    assert_eq!(redis.drain().blocking().len(), 0);
    assert_eq!(redis.advance_blocking(Duration::from_secs(3600)), 1);
    assert_eq!(redis.drain().blocking().expect_success().len(), 1);
}

#[tokio::test]
async fn its_proxy_makes_the_network_fail() {
    let redis = Redis::start().await;
    let proxy = redis.proxy();
    let client = delayed::Client::lazy(proxy.url());
    let trap = proxy.trap(Side::Reply, Requests::command("EXEC"), Fault::End);
    let error = client.enqueue(shop::send::call("ann".into(), None)).await.unwrap_err();
    assert!(error.may_have_been_applied() && trap.struck() == 1, "{error}");
    assert_enqueued!(redis, shop::send, args: ["ann", None], times: 1);
}
