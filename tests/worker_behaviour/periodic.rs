//! When periodic tasks are called: once for each tick, whoever is alive, busy or killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use delayed::__private::protocol::keys;
use delayed::__private::protocol::periodic::{TickEntry, TickResult, tick_id};
use delayed::{Client, GoTask, IntoCall, Missed, Overlap, Periodic};
use redis::Commands;

use crate::support::process::Program;
use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, gated, open, ready};
use crate::support::{skew, wait};

#[path = "../programs/periodic.rs"]
mod tasks;

/// The first of January, at noon: a tick that lies far behind and far ahead.
const YEARLY: &str = "0 12 1 1 *";

fn define(trial: &Trial, task: Periodic) {
    Client::lazy(&trial.server.url()).define_periodic_blocking(task).unwrap();
}

fn every_second(name: &str, call: impl IntoCall) -> Periodic {
    Periodic::new(name, "* * * * * *", call)
}

fn history_of(trial: &mut Trial, queue: &str, name: &str) -> Vec<TickEntry> {
    let entries: Vec<Vec<u8>> = trial.redis.lrange(keys::history(queue, name), 0, -1).unwrap();
    entries.iter().map(|entry| TickEntry::decode(entry).unwrap()).collect()
}

fn history(trial: &mut Trial, name: &str) -> Vec<TickEntry> {
    history_of(trial, QUEUE, name)
}

/// How many entries of the history are like this.
fn count(trial: &mut Trial, name: &str, is_it: fn(&TickResult) -> bool) -> usize {
    history(trial, name).iter().filter(|entry| is_it(&entry.result)).count()
}

fn is_enqueued(result: &TickResult) -> bool {
    matches!(result, TickResult::Enqueued(_))
}

fn is_skipped(result: &TickResult) -> bool {
    matches!(result, TickResult::Skipped(_))
}

#[track_caller]
fn wait_count(trial: &mut Trial, name: &str, is_it: fn(&TickResult) -> bool, least: usize) {
    wait::until_ok(PATIENCE, || match count(trial, name, is_it) {
        found if found >= least => Ok(()),
        found => Err(format!("{least} such ticks of {name}, not {found}: {:?}", history(trial, name))),
    });
}

/// The ticks that became calls, in their order: each once, and none is missing between two.
#[track_caller]
fn assert_every_second(trial: &mut Trial, queue: &str, name: &str) -> Vec<u64> {
    let mut entries = history_of(trial, queue, name);
    entries.reverse();
    let ticks: Vec<u64> = entries.iter().map(|entry| entry.tick_ms.unwrap()).collect();
    assert!(entries.iter().all(|entry| is_enqueued(&entry.result)), "{entries:?}");
    for pair in ticks.windows(2) {
        assert_eq!(pair[1] - pair[0], 1000, "expected each second once: {entries:?}");
    }
    ticks
}

/// Processes whose clocks are two hours apart, and whoever holds the timetable is killed again and again.
#[test]
fn twenty_processes_make_each_tick_once_while_holders_die() {
    let mut trial = Trial::new();
    let library = skew::build(trial.server.directory());
    let start = |trial: &Trial, place: usize| {
        let mut command = trial.command(WORKER);
        command.args(["worker", "--queue", "ticks", "--lease", "2s", "--redis", &trial.server.url()]);
        if place % 2 == 1 {
            command.env("LD_PRELOAD", &library).env("SKEW", "7200");
        }
        Program::spawn(&mut command)
    };
    let mut workers: Vec<Program> = (0..20).map(|place| start(&trial, place)).collect();
    workers.iter().for_each(ready);
    let id = |worker: &Program| {
        let line: serde_json::Value = serde_json::from_str(&worker.wait_for_line("\"serving\"")).unwrap();
        line["worker"].as_str().unwrap().to_owned()
    };
    let mut killed = 0;
    let began = Instant::now();
    while killed < 6 {
        assert!(began.elapsed() < PATIENCE, "expected holders of the timetable to be found");
        let holder: Option<String> = trial.redis.get("ticks_timetable").unwrap();
        let Some(place) = workers.iter().position(|worker| Some(id(worker)) == holder) else { continue };
        workers[place].kill9();
        workers[place] = start(&trial, place + killed);
        killed += 1;
    }
    let made = trial.redis.llen::<_, usize>("ticks:p:periodic.second").unwrap();
    wait::until("ticks after the last death", PATIENCE, || {
        trial.redis.llen::<_, usize>("ticks:p:periodic.second").unwrap() >= made + 3
    });
    let () = redis::cmd("ZREM").arg("ticks_due").arg("pperiodic.second").query(&mut trial.redis).unwrap();
    let ticks = assert_every_second(&mut trial, "ticks", "periodic.second");
    wait::until("all calls to run", PATIENCE, || {
        let left: (u64, u64) =
            (trial.redis.llen("ticks").unwrap(), trial.redis.hlen("ticks_processing").unwrap());
        left == (0, 0)
    });
    let ran: BTreeSet<String> = trial.ledger.lines().into_iter().collect();
    let expected: BTreeSet<String> =
        ticks.iter().map(|tick| tick_id("periodic.second", *tick).to_string()).collect();
    assert_eq!(ran, expected, "expected each tick to have run, and nothing else");
    // A call that a worker owned when it was killed runs again, and no other does.
    assert!(trial.ledger.lines().len() <= expected.len() + killed, "{:?}", trial.ledger.lines());
}

#[test]
fn ten_that_define_one_task_at_once_write_it_once() {
    let mut trial = Trial::new();
    trial.commands();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| define(&trial, Periodic::new("a", YEARLY, tasks::mark::call("a".into()))));
        }
    });
    let commands = trial.commands();
    assert_eq!((commands.get("hset"), commands.get("zadd")), (Some(&1), Some(&1)), "{commands:?}");
    assert_eq!(trial.redis.zcard::<_, u64>("q_due").unwrap(), 1);
}

#[test]
fn ticks_are_enqueued_while_all_workers_are_busy() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "1", "--prefetch", "0"]);
    define(&trial, every_second("a", tasks::gated::call("a".into(), gate.clone())));
    wait_count(&mut trial, "a", is_enqueued, 4);
    assert_every_second(&mut trial, QUEUE, "a");
    assert_eq!(trial.ledger.lines().len(), 1, "expected one run at a time");
    open(&gate);
    trial.wait_runs(4);
    trial.stop(&mut worker);
}

/// More than two `promote`s read together, and more than several `tick`s make.
#[test]
fn all_of_1200_are_called_once_while_workers_are_busy() {
    const COUNT: usize = 1_200;
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let words = ["--concurrency", "1", "--prefetch", "0"];
    let mut workers = [trial.worker(&words), trial.worker(&words)];
    trial.push(&["x", "y"].map(|n| gated(n, &gate)));
    trial.wait_runs(2);
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    let (at, client) = (now + 8, Client::lazy(&trial.server.url()));
    let cron = format!("{} {} {} * * *", at % 60, at / 60 % 60, at / 3600 % 24);
    let tick = at * 1000;
    let names: Vec<String> = (0..COUNT).map(|n| format!("many.{n}")).collect();
    for name in &names {
        client.define_periodic_blocking(Periodic::new(name, &cron, tasks::mark::call(name.clone()))).unwrap();
    }
    let due = |redis: &mut redis::Connection| redis.zcount::<_, _, _, usize>("q_due", tick, tick).unwrap();
    assert_eq!(due(&mut trial.redis), COUNT, "expected all to be defined before they are due");
    wait::until("all ticks to be made", PATIENCE, || due(&mut trial.redis) == 0);
    assert_eq!(trial.left(), (COUNT as u64, 2), "expected each call to wait once");
    for name in &names {
        let entries = history(&mut trial, name);
        let [TickEntry { tick_ms, made_ms, result, .. }] = &entries[..] else {
            panic!("expected one tick of {name}: {entries:?}")
        };
        assert_eq!((*tick_ms, result), (Some(tick), &TickResult::Enqueued(Some(tick_id(name, tick)))));
        assert!((tick..tick + 5_000).contains(made_ms), "expected {name} to be called in time: {entries:?}");
    }
    let day = tick + 24 * 60 * 60 * 1000;
    assert_eq!(trial.redis.zcount::<_, _, _, usize>("q_due", day, day).unwrap(), COUNT);
    open(&gate);
    trial.wait_runs(COUNT + 4);
    workers.iter_mut().for_each(|worker| drop(trial.stop(worker)));
    let ran = trial.ledger.executions();
    assert!(names.iter().all(|name| ran[name] == 1), "{ran:?}");
}

#[test]
fn overlap_skip_makes_no_call_while_one_has_not_ended() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&[]);
    let call = tasks::gated::call("a".into(), gate.clone());
    define(&trial, every_second("a", call).overlap(Overlap::Skip));
    wait_count(&mut trial, "a", is_skipped, 2);
    assert_eq!((trial.ledger.lines().len(), count(&mut trial, "a", is_enqueued)), (1, 1));
    open(&gate);
    wait_count(&mut trial, "a", is_enqueued, 2);
    trial.wait_runs(2);
    trial.stop(&mut worker);
}

/// Its owner is killed: the call runs again, and no other is made meanwhile.
#[test]
fn overlap_skip_holds_over_the_death_of_a_worker() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--lease", "1s"]);
    let call = tasks::gated::call("a".into(), gate.clone());
    define(&trial, every_second("a", call).overlap(Overlap::Skip));
    trial.wait_runs(1);
    worker.kill9();
    let mut heir = trial.worker(&["--lease", "1s"]);
    trial.wait_runs(2);
    wait_count(&mut trial, "a", is_skipped, 2);
    assert_eq!(count(&mut trial, "a", is_enqueued), 1);
    open(&gate);
    wait_count(&mut trial, "a", is_enqueued, 2);
    trial.stop(&mut heir);
}

#[test]
fn overlap_queue_runs_one_call_after_the_other() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "8"]);
    define(&trial, every_second("a", tasks::span::call(1_400)).overlap(Overlap::Queue));
    trial.wait_runs(6);
    assert_every_second(&mut trial, QUEUE, "a");
    let lines = trial.ledger.lines();
    assert!(
        lines.chunks(2).all(|pair| pair[0] == "+" && pair.get(1).is_none_or(|end| end == "-")),
        "{lines:?}"
    );
    worker.kill9();
}

#[test]
fn buried_call_does_not_stop_the_next_tick() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    define(&trial, every_second("a", tasks::fatal::call("a".into())).overlap(Overlap::Skip));
    wait_count(&mut trial, "a", is_enqueued, 3);
    assert_every_second(&mut trial, QUEUE, "a");
    wait::until("dead letters", PATIENCE, || trial.dead() >= 3);
    trial.stop(&mut worker);
}

/// Nobody was there for years.
#[test]
fn missed_ticks_are_made_up_for_as_configured() {
    for (missed, expected) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All(3), 3)] {
        let mut trial = Trial::new();
        define(&trial, Periodic::new("a", YEARLY, tasks::mark::call("a".into())).missed(missed));
        let next: u64 = trial.redis.zscore("q_due", "pa").unwrap();
        // The first of January 2001, at noon.
        let () = trial.redis.zadd("q_due", "pa", 978_350_400_000_u64).unwrap();
        let mut worker = trial.worker(&[]);
        wait::until("the ticks to be made", PATIENCE, || {
            trial.redis.zscore::<_, _, u64>("q_due", "pa").unwrap() == next
        });
        trial.wait_runs(expected);
        trial.wait_settled();
        assert_eq!(trial.ledger.lines().len(), expected, "{missed}");
        let entries = history(&mut trial, "a");
        assert_eq!(
            entries.iter().filter(|entry| is_enqueued(&entry.result)).count(),
            expected,
            "{entries:?}"
        );
        let left_out = entries.iter().find(|entry| matches!(entry.result, TickResult::Missed(_)));
        assert_eq!(left_out.and_then(|entry| entry.tick_ms), Some(978_350_400_000), "{missed}: {entries:?}");
        trial.stop(&mut worker);
    }
}

#[test]
fn ticks_follow_the_clock_of_redis() {
    let mut trial = Trial::with(Options { skewed: true, ..Options::default() });
    trial.server.set_clock(-7200);
    let mut worker = trial.worker(&[]);
    define(&trial, every_second("a", tasks::mark::call("a".into())));
    wait_count(&mut trial, "a", is_enqueued, 3);
    assert_every_second(&mut trial, QUEUE, "a");
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    let last = history(&mut trial, "a")[0].tick_ms.unwrap();
    assert!(last.abs_diff(seconds * 1000) < 60_000, "expected Redis's time {seconds}, not {last}");
    trial.stop(&mut worker);
}

#[test]
fn outage_of_redis_loses_no_tick_and_repeats_none() {
    let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
    let mut worker = trial.worker(&["--lease", "2s"]);
    define(&trial, every_second("a", tasks::mark::call("a".into())));
    wait_count(&mut trial, "a", is_enqueued, 2);
    let last = history(&mut trial, "a")[0].tick_ms.unwrap();
    trial.server.kill();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    wait::until("ticks to pass", PATIENCE, || now() > u128::from(last) + 3_000);
    trial.server.restart();
    trial.redis = trial.server.connection();
    wait_count(&mut trial, "a", is_enqueued, 7);
    let ticks = assert_every_second(&mut trial, QUEUE, "a");
    trial.wait_runs(ticks.len());
    trial.stop(&mut worker);
}

/// A definition that a newer version wrote, and a record whose key holds something else.
#[test]
fn task_that_cannot_be_called_stops_no_other() {
    let mut trial = Trial::new();
    let () = trial.redis.hset("q_periodic", "d:broken", b"\x81\xa4cron\xa3???").unwrap();
    let () = trial.redis.zadd("q_due", "pbroken", 1).unwrap();
    let mut worker = trial.worker(&[]);
    worker.wait_for_line("periodic task cannot be read");
    define(&trial, every_second("a", tasks::mark::call("a".into())));
    define(&trial, every_second("foreign", GoTask::new("periodic.mark").arg("go").queue(QUEUE)));
    trial.wait_runs(4);
    wait_count(&mut trial, "a", is_enqueued, 2);
    wait_count(&mut trial, "foreign", is_enqueued, 2);
    trial.stop(&mut worker);
}

#[test]
fn attribute_declares_a_task_and_a_new_version_replaces_it() {
    let mut trial = Trial::new();
    let other = Periodic::new("periodic.nightly", YEARLY, tasks::nightly::call(None));
    define(&trial, other);
    let mut workers: Vec<Program> =
        (0..3).map(|_| trial.start_at(&trial.server.url(), &["--queue", "nightly"])).collect();
    workers.iter().for_each(ready);
    let bytes: Vec<u8> = trial.redis.hget("nightly_periodic", "d:periodic.nightly").unwrap();
    let found = delayed::__private::protocol::periodic::Definition::decode(&bytes).unwrap();
    let expected =
        ("0 3 * * *".to_owned(), Some("Europe/Berlin".to_owned()), Overlap::Skip, Missed::All(7), true);
    assert_eq!((found.cron, found.tz, found.overlap, found.missed, found.code), expected);
    assert_eq!(found.expires_ms, Some(3_600_000));
    let others: bool = trial.redis.exists("ticks_periodic").unwrap();
    assert!(!others, "expected those of other queues to be left");
    // One that starts later finds it as it is.
    trial.commands();
    let mut late = trial.start_at(&trial.server.url(), &["--queue", "nightly"]);
    ready(&late);
    let commands = trial.commands();
    assert_eq!(commands.get("zadd"), Some(&1), "expected only its lease to be written: {commands:?}");
    workers.iter_mut().for_each(|worker| drop(trial.stop(worker)));
    trial.stop(&mut late);
}

#[test]
fn many_periodic_tasks_are_read_in_few_requests() {
    let mut trial = Trial::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let queue = QUEUE.parse().unwrap();
    let task = |name: &str| Periodic::new(name, YEARLY, GoTask::new("trial.mark").arg(name).queue(QUEUE));
    for n in 0..250 {
        define(&trial, task(&format!("task:{n:03}")));
    }
    let inspector = runtime.block_on(delayed::Inspector::connect(&trial.server.url())).unwrap();
    let called = Periodic::new("called", YEARLY, tasks::mark::call("called".into()));
    runtime.block_on(inspector.define_periodic(called, true)).unwrap();
    for _ in 0..40 {
        runtime.block_on(inspector.run_periodic(&queue, "called")).unwrap().expect("it is defined");
    }
    let workers: Vec<(u64, String)> = (0..150).map(|n| (1 << 50, format!("worker{n:03}"))).collect();
    let () = trial.redis.zadd_multiple("q_workers", &workers).unwrap();
    let before = trial.reads();
    let tasks = runtime.block_on(inspector.periodic(std::slice::from_ref(&queue))).unwrap();
    let history = runtime.block_on(inspector.periodic_history(&queue, "called")).unwrap().unwrap();
    let reads = trial.reads() - before;
    assert!(reads < 40, "expected few requests for 251 tasks and 150 workers, there were {reads}");
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[1], names[250]), (251, "called", "task:000", "task:249"));
    assert!(tasks[1..].iter().all(|task| task.task == "trial.mark"), "{:?}", tasks[1]);
    let waits = |tick: &&delayed::inspect::PeriodicTick| tick.state.as_deref() == Some("waiting");
    assert_eq!((history.len(), history.iter().filter(waits).count()), (40, 40), "{:?}", history[0]);
}

#[test]
fn example_makes_the_calls_of_its_tasks() {
    let trial = Trial::new();
    let program = crate::support::example::example("periodic");
    let mut example = Program::start(program.to_str().unwrap(), [trial.server.url()]);
    let status = example.wait_exit(PATIENCE);
    let printed = example.last_words();
    assert!(status.success(), "{printed}");
    assert!(printed.contains("polled the mails\n") && printed.contains("removed: true"), "{printed}");
    assert!(printed.contains("calls that failed: 0"), "{printed}");
}

/// It computes no ticks: the worker does.
#[test]
fn task_that_python_defines_is_called() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let mut command = std::process::Command::new(crate::support::python::interpreter());
    let program = "import sys, redis; from delayed_compat import Queue, RustTask\n\
        queue = Queue('q', redis.Redis.from_url(sys.argv[1]))\n\
        assert queue.periodic.add('a', '* * * * * *', RustTask('periodic.mark', ('python',)), overlap='skip')";
    command.args(["-c", program, &trial.server.url()]).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", crate::support::root().join("python-compat/src"));
    let mut python = Program::spawn(&mut command);
    assert!(python.wait_exit(PATIENCE).success(), "{}", python.printed());
    wait_count(&mut trial, "a", is_enqueued, 3);
    trial.wait_runs(3);
    assert!(trial.ledger.lines().iter().all(|line| line == "python"));
    assert_every_second(&mut trial, QUEUE, "a");
    trial.stop(&mut worker);
}

/// How long an idle queue with periodic tasks that are far ahead lets a worker rest.
#[test]
fn task_that_is_far_ahead_costs_an_idle_worker_nothing() {
    let mut trial = Trial::new();
    define(&trial, Periodic::new("a", YEARLY, tasks::mark::call("a".into())));
    let mut worker = trial.worker(&["--lease", "24h", "--no-sweep"]);
    let promoted = |trial: &mut Trial| trial.commands().get("zrangebyscore").copied().unwrap_or(0);
    promoted(&mut trial);
    let began = Instant::now();
    trial.push(&[crate::support::trial::mark("x")]);
    trial.wait_runs(1);
    wait::until("some time to pass", PATIENCE, || began.elapsed() > Duration::from_secs(3));
    assert_eq!(promoted(&mut trial), 0, "expected nobody to look at the timetable");
    trial.stop(&mut worker);
}
