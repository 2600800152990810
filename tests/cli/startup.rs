//! Programs that serve end when they are told to, whatever they wait for and whatever their parents left them.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PATIENCE, WORKER, command, on, start, task};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis, snapshot};
use crate::support::wait;

/// No signal takes so long, and Redis has longer.
const SOON: Duration = Duration::from_secs(10);

/// A server that takes connections and says nothing.
struct Silent(TcpListener);

impl Silent {
    fn start() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        Self(server)
    }

    fn url(&self) -> String {
        format!("redis://{}", self.0.local_addr().unwrap())
    }

    /// Waits until a program has connected.
    fn connected(&self) -> TcpStream {
        wait::until_some("a connection", PATIENCE, || self.0.accept().ok()).0
    }
}

/// Words in front of a program, as `env --ignore-signal=HUP`.
fn behind(words: &[&str], redis: &str, program: &[&str]) -> Command {
    let words = [words, &[WORKER], program].concat();
    let mut command = command(words[0], &std::env::temp_dir(), &words[1..]);
    command.env("DELAYED_REDIS_URL", redis).env("DELAYED_REDIS_TIMEOUT", "10m");
    command
}

/// Waits for a good end that comes by a signal alone.
#[track_caller]
fn ends_soon(program: &mut Program, what: &str) {
    let began = Instant::now();
    let code = program.wait_exit(PATIENCE).code();
    assert_eq!(code, Some(0), "{what}: {}", program.printed());
    assert!(began.elapsed() < SOON, "{what}: it took {:?}", began.elapsed());
}

#[test]
fn a_redis_that_says_nothing_holds_nobody_who_is_told_to_end() {
    for words in [&["worker"][..], &["worker", "--isolation", "fork"], &["sweeper"]] {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            let server = Silent::start();
            let mut program = Program::spawn(&mut behind(&["env"], &server.url(), words));
            let _connection = server.connected();
            program.signal(signal);
            ends_soon(&mut program, &format!("{words:?} at {signal}"));
        }
    }
}

#[test]
fn a_redis_that_is_loading_holds_no_worker_that_is_told_to_end() {
    let redis = TestRedis::with(Options {
        append_only: true,
        extra: ["--key-load-delay", "1000"].map(Into::into).into(),
        ..Options::default()
    });
    let mut pipe = redis::pipe();
    for n in 0..20_000 {
        pipe.cmd("SET").arg("fill").arg(n).ignore();
    }
    let () = pipe.query(&mut redis.connection()).unwrap();
    let mut redis = redis;
    redis.restart_unready();
    let mut worker = start(&redis, &["worker"]);
    worker.wait_for_line("redis is not ready");
    worker.signal(Signal::SIGTERM);
    ends_soon(&mut worker, "while Redis loads");
    assert!(!worker.printed().contains("serving"), "expected an end while it waited: {}", worker.printed());
}

#[test]
fn a_redis_that_stops_answering_holds_no_worker_that_registers() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(600_000).arg("WRITE").query(&mut connection).unwrap();
    let mut worker = Program::spawn(&mut behind(&["env"], &redis.url(), &["worker"]));
    wait::until("the worker to register", PATIENCE, || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        clients.lines().any(|line| line.contains("cmd=sadd"))
    });
    worker.signal(Signal::SIGTERM);
    ends_soon(&mut worker, "while it registers");
    assert!(!worker.printed().contains("serving"), "{}", worker.printed());
}

#[test]
fn what_the_parent_ignores_stays_ignored_except_sigterm() {
    let redis = TestRedis::start();
    for (words, serves) in [("worker", "serving"), ("sweeper", "sweeping")] {
        let ignoring = ["env", "--ignore-signal=HUP,INT,TERM"];
        let mut program = Program::spawn(&mut behind(&ignoring, &redis.url(), &[words]));
        program.wait_for_line(serves);
        let ignored = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
            let mask = u64::from_str_radix(mask, 16).unwrap();
            [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].map(|it| mask & 1 << (it as u32 - 1) != 0)
        };
        assert_eq!(ignored(), [true, true, false]);
        program.signal(Signal::SIGHUP);
        program.signal(Signal::SIGINT);
        on(&redis, WORKER, &["queues"]).expect(0);
        assert!(!program.has_ended() && !program.printed().contains("stopping"), "{}", program.printed());
        program.signal(Signal::SIGTERM);
        ends_soon(&mut program, words);
    }
}

#[test]
fn what_the_parent_left_blocked_or_ignored_harms_nobody() {
    let redis = TestRedis::start();
    for words in [&["worker"][..], &["worker", "--isolation", "fork"], &["sweeper"]] {
        let odd = ["env", "--block-signal", "--ignore-signal=CHLD,PIPE,ALRM,XCPU"];
        let mut program = Program::spawn(&mut behind(&odd, &redis.url(), words));
        if words[0] == "worker" {
            on(&redis, WORKER, &["enqueue", &task("add"), "[1, 2]"]).expect(0);
            program.wait_for_line("serving");
            wait::until("the call to be run", PATIENCE, || {
                let state = snapshot(&mut redis.connection(), "default");
                state.waiting.is_empty() && state.processing.is_empty()
            });
            assert_eq!(snapshot(&mut redis.connection(), "default").dead.len(), 0);
        } else {
            program.wait_for_line("sweeping");
        }
        program.signal(Signal::SIGTERM);
        ends_soon(&mut program, &format!("{words:?}"));
    }
}

/// The kernel does nothing by default for a signal to the first process of a container.
#[test]
fn the_first_process_of_a_container_ends_when_it_is_told_to() {
    let container = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    for (words, code) in [(&["worker"][..], 0), (&["sweeper"], 0), (&["queues"], 143)] {
        let server = Silent::start();
        let mut program = Program::spawn(&mut behind(&container, &server.url(), words));
        let _connection = server.connected();
        let pid = program.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        kill(Pid::from_raw(children.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
        let began = Instant::now();
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(code), "{words:?}: {}", program.printed());
        assert!(began.elapsed() < SOON, "{words:?}: it took {:?}", began.elapsed());
    }
}

#[test]
fn calls_are_run_with_the_documented_minimum_of_open_files() {
    let redis = TestRedis::start();
    for n in 0..5 {
        on(&redis, WORKER, &["enqueue", &task("add"), &format!("[{n}, 2]")]).expect(0);
    }
    let limited = |files: u32| {
        let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let words = ["sh", "-c", &script];
        let program = ["worker", "--burst", "--isolation", "fork", "--concurrency", "1", "--prefetch", "0"];
        super::ended(&mut behind(&words, &redis.url(), &program))
    };
    limited(20).expect(5).says("this process may open only 20 files, but needs 48").says("ulimit -n");
    assert_eq!(
        snapshot(&mut redis.connection(), "default").waiting.len(),
        5,
        "expected no call to be claimed"
    );
    limited(48).expect(0).says("succeeded=5").never_says("no process could be created");
}

#[test]
fn private_redis_that_does_not_start_delays_no_stop() {
    use std::os::unix::fs::PermissionsExt;
    let directory = crate::support::directory();
    let server = directory.path().join("redis-server");
    std::fs::write(&server, "#!/bin/sh\necho $$ > started.new && mv started.new started && exec sleep 600\n")
        .unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let mut program = Program::spawn(command(WORKER, directory.path(), &["dev"]).env("PATH", path));
    let started = directory.path().join(".delayed/started");
    let pid = wait::until_some("the server", PATIENCE, || std::fs::read_to_string(&started).ok());
    let pid = Pid::from_raw(pid.trim().parse().unwrap());
    program.signal(Signal::SIGTERM);
    ends_soon(&mut program, "while its server starts");
    wait::until("the end of its server", PATIENCE, || kill(pid, None).is_err());
}
