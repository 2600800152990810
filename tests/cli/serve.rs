//! Do `worker` and `sweeper` serve, and end as they should?

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::Commands;
use serde_json::Value;

use super::{DELAYED, PATIENCE, WORKER, command, on, start, task};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis, snapshot};
use crate::support::trial::call;
use crate::support::wait;

#[test]
fn a_worker_says_what_it_serves_runs_calls_and_ends_by_a_signal() {
    let redis = TestRedis::start();
    let mut worker =
        start(&redis, &["worker", "--queue", "default=3", "--queue", "reports=1", "--concurrency", "4"]);
    let line = worker.wait_for_line("serving");
    assert!(
        line.contains("default reports") && line.contains("concurrency=4"),
        "expected what it serves: {line}"
    );
    assert!(!line.contains('\u{1b}'), "expected no colour where there is no terminal: {line:?}");
    on(&redis, WORKER, &["enqueue", "report.greet", r#"["Ann", 1]"#]).expect(0);
    worker.wait_for_lines("Hello, Ann!", 2);
    on(&redis, WORKER, &["enqueue", &task("record"), "[7]"]).expect(0);
    let record = redis.directory().join("record");
    wait::until("the record", PATIENCE, || std::fs::read_to_string(&record).is_ok_and(|text| text == "7\n"));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
}

#[test]
fn a_function_that_never_ends_does_not_hold_the_exit() {
    let redis = TestRedis::start();
    let mut worker = start(&redis, &["worker", "--shutdown", "1ms", "--log-format", "json"]);
    on(&redis, WORKER, &["enqueue", &task("never_ends_blocking")]).expect(0);
    wait::until("the call to run", PATIENCE, || {
        snapshot(&mut redis.connection(), "default").processing.len() == 1
    });
    worker.signal(Signal::SIGINT);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    assert_eq!(snapshot(&mut redis.connection(), "default").waiting.len(), 1, "expected it to be put back");
    let line: Value = serde_json::from_str(&worker.wait_for_line("serving")).unwrap();
    assert_eq!(line["message"], "serving");
}

#[test]
fn a_redis_that_is_loading_is_waited_for_at_the_start() {
    let mut redis = TestRedis::with(Options {
        append_only: true,
        extra: ["--key-load-delay", "300"].map(Into::into).into(),
        ..Options::default()
    });
    let mut connection = redis.connection();
    for n in 0..6_000 {
        let () = connection.set("fill", n).unwrap();
    }
    on(&redis, WORKER, &["enqueue", &task("record"), "[7]"]).expect(0);
    redis.restart_unready();
    let mut worker = start(&redis, &["worker", "--burst"]);
    let mut sweeper = start(&redis, &["sweeper"]);
    let mut stopped = start(&redis, &["sweeper"]);
    for program in [&mut worker, &mut sweeper, &mut stopped] {
        program.wait_for_line("redis is not ready");
    }
    stopped.signal(Signal::SIGTERM);
    assert_eq!(stopped.wait_exit(PATIENCE).code(), Some(0), "{}", stopped.printed());
    assert!(
        !stopped.printed().contains("sweeping"),
        "expected an end while it waited: {}",
        stopped.printed()
    );
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    assert_eq!(std::fs::read_to_string(redis.directory().join("record")).unwrap(), "7\n");
    sweeper.wait_for_line("sweeping");
    let told = [worker.printed(), sweeper.printed()];
    assert!(
        told.iter().all(|text| text.matches("redis is not ready").count() == 1),
        "expected it once: {told:?}"
    );
}

#[test]
fn a_panic_is_a_line_of_json_too() {
    let redis = TestRedis::start();
    on(&redis, WORKER, &["enqueue", &task("panic")]).expect(0);
    let worker = on(&redis, WORKER, &["worker", "--burst", "--log-format", "json"]).expect(0);
    let lines: Vec<Value> = worker
        .err
        .lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("expected JSON ({error}): {line}"))
        })
        .collect();
    let told = |line: &&serde_json::Value| line["message"] == "panicked";
    let panics: Vec<_> = lines.iter().filter(told).collect();
    assert_eq!(panics.len(), 1, "expected the panic once: {lines:#?}");
    let location = panics[0]["location"].as_str().unwrap();
    let (file, place) = location.split_once(':').unwrap();
    assert!(
        file.ends_with("tests/programs/main.rs") && place.split(':').all(|it| it.parse::<u32>().is_ok()),
        "{location}"
    );
    assert_eq!(panics[0]["error"], "it panics each time", "{lines:#?}");
}

/// What it logged until its end, each line an object.
#[track_caller]
fn logged(program: &mut Program) -> Vec<Value> {
    program.signal(Signal::SIGTERM);
    let printed = program.last_words();
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {printed}"));
    printed.lines().map(read).collect()
}

#[test]
fn with_json_the_log_is_json_whatever_the_environment_says() {
    let redis = TestRedis::start();
    for (words, message) in
        [(&["worker", "--json"][..], "serving"), (&["sweeper", "--json", "--log-format", "json"], "sweeping")]
    {
        let mut command = command(WORKER, redis.directory(), words);
        command.env("DELAYED_REDIS_URL", redis.url()).env("DELAYED_LOG_FORMAT", "pretty");
        let mut program = Program::spawn(&mut command);
        program.wait_for_line(message);
        let lines = logged(&mut program);
        assert!(lines.iter().any(|line| line["message"] == message), "{lines:#?}");
    }
}

#[test]
fn a_burst_ends_when_all_is_done() {
    let redis = TestRedis::start();
    for n in ["[1]", "[2]"] {
        on(&redis, WORKER, &["enqueue", &task("record"), n]).expect(0);
    }
    let mut worker = start(&redis, &["worker", "--burst", "--lease", "3s"]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    let mut record: Vec<_> = std::fs::read_to_string(redis.directory().join("record"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    record.sort();
    assert_eq!(record, ["1", "2"]);
}

#[test]
fn a_burst_ends_when_only_calls_of_others_are_left() {
    let redis = TestRedis::start();
    for n in 0..3 {
        on(&redis, DELAYED, &["enqueue", "theirs::f", &format!("[{n}]")]).expect(0);
        on(&redis, WORKER, &["enqueue", &task("record"), &format!("[{n}]")]).expect(0);
    }
    on(&redis, DELAYED, &["enqueue", "theirs::f", "--queue", "more"]).expect(0);
    let queues = ["--queue", "default", "--queue", "more"];
    let mut worker = start(
        &redis,
        &[&["worker", "--burst", "--unknown", "requeue", "--concurrency", "2"][..], &queues].concat(),
    );
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    let record = std::fs::read_to_string(redis.directory().join("record")).unwrap();
    assert_eq!(record.lines().count(), 3, "expected all of ours to run: {record}");
    for (queue, left) in [("default", 3), ("more", 1)] {
        let state = snapshot(&mut redis.connection(), queue);
        assert_eq!(
            (state.waiting.len(), state.tokens, state.processing.len()),
            (left, left as u64, 0),
            "{state:?}"
        );
    }
}

#[test]
fn a_program_without_tasks_is_no_worker() {
    let redis = TestRedis::start();
    on(&redis, DELAYED, &["worker"]).expect(5).says("no task is registered").says("delayed::main()");
}

#[test]
fn sweeper_leaves_lists_alone_until_they_are_known_as_queues() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let () = connection.rpush("lone", b"\x91\xa1f").unwrap();
    let () = connection.rpush("another", "text").unwrap();
    // One that it finds, and comes to after those.
    let () = connection.rpush("seen_noti", "1").unwrap();
    let sweeper = start(&redis, &["sweeper", "--interval", "20ms"]);
    wait::until("a whole sweep", PATIENCE, || !connection.exists::<_, bool>("seen_noti").unwrap());
    let mut keys: Vec<String> = connection.keys("*").unwrap();
    keys.sort();
    assert_eq!(keys, ["another", "lone"]);
    on(&redis, DELAYED, &["enqueue", "f", "--queue", "lone"]).expect(0);
    // A foreign worker took the only token, and died.
    let () = connection.lpop("lone_noti", None).unwrap();
    wait::until("both tokens", PATIENCE, || connection.llen::<_, u64>("lone_noti").unwrap() == 2);
    assert!(!connection.exists::<_, bool>("another_noti").unwrap(), "expected it to be left alone");
    drop(sweeper);
}

#[test]
fn sweeper_goes_on_while_the_list_of_queues_is_unreadable() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let mut leave = |queue: &str| {
        let () = connection.hset(format!("{queue}_processing"), "4711", b"\x91\xa1f").unwrap();
    };
    let swept = |queue: &str, count| {
        wait::until(&format!("{count} messages of {queue} to be back"), PATIENCE, || {
            snapshot(&mut redis.connection(), queue).waiting.len() == count
        });
    };
    let mut others = redis.connection();
    let () = others.set("delayed_queues", "x").unwrap();
    leave("found");
    leave("named");
    let sweeper = start(&redis, &["sweeper", "--interval", "20ms"]);
    let line = sweeper.wait_for_line("queue names cannot be read");
    assert!(line.contains("ERROR") && line.contains("the key `delayed_queues` has the wrong type"), "{line}");
    assert!(line.contains("rename or delete it") && line.contains("use `--queue` for others"), "{line}");
    swept("found", 1);
    swept("named", 1);
    // Found by what it owns now, long after the start.
    leave("later");
    swept("later", 1);
    let () = others.del("delayed_queues").unwrap();
    let () = others.sadd("delayed_queues", "known").unwrap();
    sweeper.wait_for_line("can be read again");
    let () = others.del("delayed_queues").unwrap();
    let () = others.hset("delayed_queues", "x", "y").unwrap();
    sweeper.wait_for_lines("queue names cannot be read", 2);
    leave("found");
    swept("found", 2);
    // It stays known, though there is nothing by which it could be found.
    let () = others.rpush("known", b"\x91\xa1f").unwrap();
    wait::until("its token", PATIENCE, || others.llen::<_, u64>("known_noti").unwrap() == 1);
    let told = sweeper.printed();
    assert_eq!(told.matches("cannot be read").count(), 2, "expected it once for each change: {told}");
    assert!(!told.contains("request failed"), "{told}");
    drop(sweeper);

    let sweeper = start(&redis, &["sweeper", "--interval", "20ms", "--queue", "named"]);
    leave("named");
    swept("named", 2);
    assert!(!sweeper.printed().contains("cannot be read"), "expected nothing of what it does not need");
}

#[test]
fn sweeper_requeues_for_a_foreign_worker_and_ends_by_a_signal() {
    let redis = TestRedis::start();
    let () = redis.connection().hset("q_processing", "4711", b"\x91\xa1f").unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut sweeper = start(&redis, &["sweeper", "--queue", "q", "--interval", "20ms"]);
        wait::until("the message to be back", PATIENCE, || {
            snapshot(&mut redis.connection(), "q").waiting == [b"\x91\xa1f"]
        });
        sweeper.wait_for_line("sweeping");
        sweeper.signal(signal);
        assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{signal}: {}", sweeper.printed());
    }
}

#[test]
fn worker_with_an_unread_log_goes_on_and_stops_when_told() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    // Each of them logs a line, all of them more than a pipe holds.
    let mut fill = |count: usize| {
        let mut pipe = redis::pipe();
        for n in 0..count {
            let name = if n % 100 == 7 { "panic" } else { "fail" };
            let arguments = if name == "fail" { vec!["x".repeat(100).into()] } else { vec![] };
            pipe.rpush("default", call(&task(name), &arguments)).ignore().rpush("default_noti", "1").ignore();
        }
        let () = pipe.query(&mut connection).unwrap();
        wait::until("all calls to be settled", PATIENCE, || {
            let state = snapshot(&mut connection, "default");
            state.waiting.is_empty() && state.processing.is_empty()
        });
    };
    let (reader, writer) = std::io::pipe().unwrap();
    // At that level each failure has its line.
    let words = ["worker", "--concurrency", "4", "--log-level", "info,delayed=debug"];
    let mut worker = command(WORKER, redis.directory(), &words);
    let worker = worker.env("DELAYED_REDIS_URL", redis.url()).stdout(Stdio::null()).stderr(writer);
    let mut worker = worker.spawn().unwrap();
    fill(1_000);
    let mut log = BufReader::with_capacity(1 << 20, reader);
    let length = log.fill_buf().unwrap().len();
    log.consume(length);
    fill(1);
    let told = log.by_ref().lines().map(Result::unwrap).find(|line| line.contains("dropped"));
    assert!(told.as_ref().is_some_and(|line| line.contains("log lines dropped")), "{told:?}");

    fill(1_000);
    kill(Pid::from_raw(i32::try_from(worker.id()).unwrap()), Signal::SIGTERM).unwrap();
    let ended = wait::until_some("its end", PATIENCE, || worker.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn panic_longer_than_the_room_in_an_unread_log_blocks_nobody() {
    const PAGE: usize = 4096;
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
    // Room for the first lines and for the beginning of a backtrace.
    writer.write_all(&vec![b'.'; usize::try_from(size).unwrap() - 2 * PAGE]).unwrap();
    let mut worker = command(WORKER, redis.directory(), &["worker", "--concurrency", "1"]);
    worker.env("DELAYED_REDIS_URL", redis.url()).env("RUST_BACKTRACE", "full");
    let mut worker = worker.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    for name in ["panic", "panic", "add"] {
        let arguments = if name == "add" { vec![1.into(), 2.into()] } else { vec![] };
        let () = connection.rpush("default", call(&task(name), &arguments)).unwrap();
        let () = connection.rpush("default_noti", "1").unwrap();
    }
    wait::until("all calls to be settled", PATIENCE, || {
        let state = snapshot(&mut connection, "default");
        state.waiting.is_empty() && state.processing.is_empty() && state.dead.len() == 2
    });
    kill(Pid::from_raw(i32::try_from(worker.id()).unwrap()), Signal::SIGTERM).unwrap();
    let ended = wait::until_some("its end", PATIENCE, || worker.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    drop(reader);
}
