//! Does `--redis dev` start a server, share it, and leave none behind?

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{DELAYED, Ended, PATIENCE, WORKER, command, ended, task};
use crate::support;
use crate::support::process::Program;
use crate::support::wait;

fn run(directory: &Path, words: &[&str]) -> Ended {
    ended(&mut command(WORKER, directory, &[words, &["--redis", "dev"]].concat()))
}

/// The server's process while it runs.
fn server(directory: &Path) -> Pid {
    let file = directory.join(".delayed/redis.pid");
    let text = wait::until_some("the server's pid", PATIENCE, || {
        std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))
    });
    Pid::from_raw(text.trim().parse().unwrap())
}

fn until_gone(pid: Pid) {
    wait::until("the server's end", PATIENCE, || kill(pid, None).is_err());
}

#[test]
fn dev_server_keeps_its_data_and_ends_with_each_command() {
    let directory = support::directory();
    let here = directory.path();
    for waiting in 1..=2 {
        run(here, &["enqueue", &task("panic")]).expect(0).says(&format!("{waiting} waiting"));
        assert!(!here.join(".delayed/redis.sock").exists(), "expected the server to have ended");
    }
    let doctor = run(here, &["doctor"]).expect(0).says("append-only file");
    assert!(!doctor.out.contains("persistence: off"));
    assert_eq!(std::fs::read_to_string(here.join(".delayed/.gitignore")).unwrap(), "*\n");
}

#[test]
fn settings_of_another_server_are_not_for_it() {
    let directory = support::directory();
    let file = "[redis]\nurl = \"rediss://h:1\"\ntls_ca = \"none.pem\"\n";
    std::fs::write(directory.path().join("delayed.toml"), file).unwrap();
    run(directory.path(), &["queues"]).expect(0);
    ended(&mut command(WORKER, directory.path(), &["queues"])).expect(5).says("none.pem cannot be used");
}

#[test]
fn one_server_is_shared_and_ends_with_its_owner() {
    let directory = support::directory();
    let here = directory.path();
    let mut owner = Program::spawn(&mut command(WORKER, here, &["dev", "--queue", "reports"]));
    owner.wait_for_line("serving");
    let server = server(here);
    let url = owner.wait_for_line("Redis runs at").rsplit_once(' ').unwrap().1.to_owned();
    run(here, &["enqueue", "report.greet", "[\"Ann\"]"]).expect(0);
    owner.wait_for_line("Hello, Ann!");
    ended(&mut command(DELAYED, Path::new("/"), &["queues", "--redis", &url])).expect(0).says("reports");
    kill(server, None).expect("expected the server to outlive those who share it");
    owner.signal(Signal::SIGTERM);
    assert_eq!(owner.wait_exit(PATIENCE).code(), Some(0), "{}", owner.printed());
    until_gone(server);
}

#[test]
fn in_a_directory_of_any_name_the_address_leads_to_the_server() {
    let directory = support::directory();
    for name in [&b"at@b"[..], b"a b%20?c#d:e", b"\t\n", b"'$(x);\"&\\", b"\xff\xc3\xa9", "é".as_bytes()] {
        let here = directory.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&here).unwrap();
        run(&here, &["enqueue", &task("panic")]).expect(0).says("1 waiting");
        let mut dev = Program::spawn(&mut command(DELAYED, &here, &["dev"]));
        let url = dev.wait_for_line("Redis runs at").rsplit_once(' ').unwrap().1.to_owned();
        ended(&mut command(DELAYED, Path::new("/"), &["queues", "--redis", &url])).expect(0).says("default");
        dev.signal(Signal::SIGTERM);
        assert_eq!(dev.wait_exit(PATIENCE).code(), Some(0), "{}", dev.printed());
    }
}

#[test]
fn with_json_the_address_is_one_line_and_the_log_is_json() {
    let directory = support::directory();
    for (program, also) in [(WORKER, "serving"), (DELAYED, "private redis started")] {
        let mut dev = Program::spawn(&mut command(program, directory.path(), &["dev", "--json"]));
        let told: Value = serde_json::from_str(&dev.wait_for_line("unix://")).unwrap();
        dev.wait_for_line(also);
        let url = told["redis"].as_str().unwrap();
        ended(&mut command(DELAYED, Path::new("/"), &["queues", "--redis", url])).expect(0);
        dev.signal(Signal::SIGTERM);
        let printed = dev.last_words();
        for line in printed.lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {printed}"));
        }
    }
}

#[test]
fn tools_that_start_together_share_one_server() {
    let directory = support::directory();
    let here = directory.path();
    let words = ["enqueue", &task("panic"), "--redis", "dev"];
    let mut tools: Vec<Program> =
        (0..12).map(|_| Program::spawn(&mut command(WORKER, here, &words))).collect();
    for tool in &mut tools {
        assert_eq!(tool.wait_exit(PATIENCE).code(), Some(0), "{}", tool.printed());
    }
    run(here, &["enqueue", &task("panic")]).expect(0).says("13 waiting");
}

#[test]
fn a_server_does_not_outlive_an_owner_that_was_killed() {
    let directory = support::directory();
    let here = directory.path();
    let mut owner = Program::spawn(&mut command(DELAYED, here, &["dev"]));
    owner.wait_for_line("Redis runs at");
    let server = server(here);
    // Not its process group: the server is to notice by itself.
    owner.signal(Signal::SIGKILL);
    owner.wait_exit(PATIENCE);
    run(here, &["enqueue", &task("panic")]).expect(0);
    until_gone(server);
}

#[test]
fn a_stale_socket_and_a_long_path_are_no_obstacle() {
    let directory = support::directory();
    let here = directory.path().join("x".repeat(60)).join("y".repeat(60));
    std::fs::create_dir_all(here.join(".delayed")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(directory.path().join("stale")).unwrap());
    std::fs::rename(directory.path().join("stale"), here.join(".delayed/redis.sock")).unwrap();
    run(&here, &["enqueue", &task("panic"), "--log-level", "info"]).expect(0).says("socket path is too long");
    run(&here, &["queues"]).expect(0).says("default");
}

#[test]
fn without_a_server_it_says_how_to_get_one() {
    let directory = support::directory();
    let mut command = command(DELAYED, directory.path(), &["queues", "--redis", "dev"]);
    ended(command.env("PATH", directory.path())).expect(3).says("apt-get install redis-server");
    let words = ["dev", "--redis", "redis://h"];
    ended(&mut super::command(DELAYED, directory.path(), &words)).expect(2).says("leave out --redis");
}
