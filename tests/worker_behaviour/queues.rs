//! Several queues: strictly in their order, or by weight; and a worker that ends when all are empty.

use std::time::Duration;

use delayed::testing::{Fault, Requests, Side};
use redis::Commands;

use crate::support::redis::{TestRedis, snapshot};
use crate::support::trial::{PATIENCE, Trial, at_gate, call, count, gated, mark, open};
use crate::support::wait;

fn marks(name: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| call("trial.mark", &[format!("{name}{n}").into()])).collect()
}

#[track_caller]
fn assert_empty(trial: &mut Trial, queues: &[&str]) {
    for queue in queues {
        let state = snapshot(&mut trial.redis, queue);
        assert!(state.waiting.is_empty() && state.tokens == 0 && state.processing.is_empty(), "{state:#?}");
    }
    trial.assert_only(&[]);
}

#[test]
fn the_first_queue_is_emptied_before_the_second_is_looked_at() {
    for slots in [1, 4] {
        let mut trial = Trial::new();
        trial.push_to("b", &marks("b", 100));
        trial.push_to("a", &marks("a", 100));
        let concurrency = slots.to_string();
        let words = ["--queue", "a", "--queue", "b", "--concurrency", &concurrency, "--burst"];
        let mut worker = trial.start_at(&trial.server.url(), &words);
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 200, "{stopped}");
        let lines = trial.ledger.lines();
        // While one slot runs b, each of the others may hold a run of a that the machine has not let begin.
        let first_b = lines.iter().position(|line| line.starts_with('b')).unwrap();
        let left = lines[first_b..].iter().filter(|line| line.starts_with('a')).count();
        assert!(left < slots, "expected all of a before b, {left} of a ran late: {lines:?}");
        assert_empty(&mut trial, &["a", "b"]);
    }
}

/// A claim ends with the message with which its reply gets large, though slots are free and more waits.
#[test]
fn large_messages_of_the_first_queue_go_before_the_second() {
    let mut trial = Trial::new();
    trial.push_to("b", &marks("b", 20));
    let large: Vec<Vec<u8>> = (0..6).map(|_| call("trial.length", &["x".repeat(5 << 20).into()])).collect();
    trial.push_to("a", &large);
    let words = ["--queue", "a", "--queue", "b", "--concurrency", "4", "--burst"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    assert_eq!(count(&trial.ended(&mut worker), "succeeded"), 26);
    let lines = trial.ledger.lines();
    // To be claimed beside the last two, one of b needs a slot of the first four.
    let early = lines[..3].iter().any(|line| line.starts_with('b'));
    assert!(!early, "expected a before b: {lines:?}");
    assert_empty(&mut trial, &["a", "b"]);
}

#[test]
fn new_calls_of_the_first_queue_go_before_the_second() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    trial.push_to("b", &[gated("b", &gate)]);
    trial.push_to("b", &marks("b", 20));
    let words = ["--queue", "a", "--queue", "b", "--concurrency", "1"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    trial.wait_runs(1);
    trial.push_to("a", &marks("a", 3));
    // It hears of them while it is busy.
    wait::pause(Duration::from_millis(300));
    assert_eq!(trial.redis.hlen::<_, u64>("b_processing").unwrap(), 1, "expected it to be busy with one");
    open(&gate);
    trial.wait_runs(25);
    let lines = trial.ledger.lines();
    let order: Vec<&str> = lines[2..5].iter().map(String::as_str).collect();
    assert_eq!(order, ["a0", "a1", "a2"], "expected the first queue's calls next: {lines:?}");
    trial.stop(&mut worker);
    assert_empty(&mut trial, &["a", "b"]);
}

/// Redis notes each key of a wait, so a new one for each queue that runs dry would cost the square of their number.
#[test]
fn worker_of_many_queues_does_not_wait_anew_for_each_empty_one() {
    const QUEUES: usize = 400;
    let mut trial = Trial::new();
    let names: Vec<String> = (0..QUEUES).map(|n| format!("q{n}")).collect();
    for name in &names {
        trial.push_to(name, &[call("trial.mark", &[name.as_str().into()])]);
    }
    let flags = names.iter().flat_map(|name| ["--queue", name]);
    let words: Vec<&str> = flags.chain(["--concurrency", "4"]).collect();
    let url = trial.server.url();
    trial.commands();
    let mut worker = trial.start_at(&url, &words);
    trial.wait_runs(QUEUES);
    let waits = trial.commands().get("blpop").copied().unwrap_or(0);
    // How many depends on how long it takes.
    assert!(waits < QUEUES as u64 * 3 / 4, "expected few waits, there were {waits}");
    trial.push_to("q399", &[mark("late")]);
    trial.wait_runs(QUEUES + 1);
    trial.stop(&mut worker);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    trial.ledger.assert_each_once(names.iter().copied().chain(["late"]));
    assert_empty(&mut trial, &names);
}

#[test]
fn queues_with_weights_are_all_emptied() {
    for slots in ["1", "8", "64"] {
        let mut trial = Trial::new();
        trial.push_to("a", &marks("a", 500));
        trial.push_to("b", &marks("b", 500));
        let words = ["--queue", "a=3", "--queue", "b=1", "--concurrency", slots, "--burst"];
        let mut worker = trial.start_at(&trial.server.url(), &words);
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 1000, "{stopped}");
        let names = ["a", "b"].into_iter().flat_map(|name| (0..500).map(move |n| format!("{name}{n}")));
        trial.ledger.assert_each_once(names);
        assert_empty(&mut trial, &["a", "b"]);
    }
}

#[test]
fn weights_count_for_what_is_claimed_ahead() {
    let mut trial = Trial::new();
    trial.push_to("a", &marks("a", 900));
    trial.push_to("b", &marks("b", 900));
    let words = ["--queue", "a=3", "--queue", "b=1", "--concurrency", "1", "--burst"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    trial.ended(&mut worker);
    let lines = trial.ledger.lines();
    for end in (100..=900).step_by(100) {
        let of_a = lines[..end].iter().filter(|line| line.starts_with('a')).count();
        // Give or take a turn: a quarter of the 512 quick calls that it may own.
        let is_fair = of_a.abs_diff(end * 3 / 4) <= 128;
        assert!(is_fair, "expected three quarters of the first {end} to be of a, not {of_a}: {lines:?}");
    }
}

#[test]
fn long_empty_queue_gets_no_extra_share_after_a_retry() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let (failing_gate, busy_gate) = (trial.gate("failing"), trial.gate("busy"));
    let failing = at_gate("trial.gated_failing", "failing", &failing_gate);
    let busy = gated("busy", &busy_gate);
    let words = ["--queue", "a=1", "--queue", "b=1", "--concurrency", "2", "--prefetch", "0", "--no-sweep"];
    let mut worker = trial.start_at(proxy.url(), &words);
    trial.push_to("a", &[failing]);
    trial.wait_runs(1);
    trial.push_to("b", &[&marks("b", 100)[..], &[busy], &marks("c", 100)].concat());
    trial.wait_runs(102);
    // It runs one of each, and waits for `a` alone. It shall hear of its token after the retry.
    let wait = proxy.trap(Side::Reply, Requests::command("BLPOP").nth(1), Fault::Hold);
    wait::until("another wait", PATIENCE, || wait.met() == 1);
    trial.push_to("a", &marks("a", 100));
    wait::until("its token to be popped", PATIENCE, || wait.struck() == 1);
    open(&failing_gate);
    trial.wait_runs(103);
    trial.wait_runs(140);
    open(&busy_gate);
    wait.release();
    // It fails four times, with two lines each.
    trial.wait_runs(2 + 8 + 300);
    let lines = trial.ledger.lines();
    let first = lines[103..].iter().filter(|line| line.starts_with(['a', 'c'])).take(60);
    let of_a = first.filter(|line| line.starts_with('a')).count();
    assert!((20..=40).contains(&of_a), "expected half of them to be of a, not {of_a}: {lines:?}");
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "buried")), (301, 1), "{stopped}");
}

#[test]
fn queue_is_served_while_nothing_is_claimed_before_it() {
    const FOREIGN: usize = 8;
    let mut trial = Trial::new();
    trial.push_to("a", &vec![call("nobody.knows", &[]); FOREIGN]);
    let words =
        ["--queue", "a", "--queue", "b", "--concurrency", "1", "--prefetch", "0", "--unknown", "requeue"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    for n in 0..4 {
        trial.push_to("b", &[mark(n)]);
        trial.wait_runs(n + 1);
        // It rests, and finds the second one empty.
        wait::until("a wait for the second queue", PATIENCE, || {
            let clients: String = redis::cmd("INFO").arg("clients").query(&mut trial.redis).unwrap();
            clients.contains("blocked_clients:1\r")
        });
    }
    trial.push_to("a", &[mark("first")]);
    trial.wait_runs(5);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (5, 0), "{stopped}");
    assert_eq!(snapshot(&mut trial.redis, "a").waiting.len(), FOREIGN, "expected others' calls to be left");
}

#[test]
fn a_queue_whose_key_is_wrong_keeps_no_other_from_being_served() {
    for (words, running) in
        [(["a", "b"], false), (["a", "b"], true), (["b", "a"], true), (["a=1", "b=1"], true)]
    {
        let mut trial = Trial::new();
        let start = |trial: &Trial| {
            trial.start_at(
                &trial.server.url(),
                &["--queue", words[0], "--queue", words[1], "--concurrency", "2"],
            )
        };
        let worker = running.then(|| start(&trial));
        if running {
            trial.push_to("a", &[mark("before")]);
            trial.wait_runs(1);
        }
        let runs = usize::from(running);
        wait::until("no token to be left", PATIENCE, || !trial.redis.exists::<_, bool>("a_noti").unwrap());
        let () = trial.redis.set("a_noti", "no list").unwrap();
        let mut worker = worker.unwrap_or_else(|| start(&trial));
        for n in 0..3 {
            trial.push_to("b", &[mark(n)]);
            trial.wait_runs(runs + n + 1);
        }
        worker.wait_for_line("has the wrong type");
        trial.push_to("b", &[mark(3)]);
        trial.wait_runs(runs + 4);
        let () = trial.redis.del("a_noti").unwrap();
        trial.push_to("a", &[mark("after")]);
        trial.wait_runs(runs + 5);
        let stopped = trial.stop(&mut worker);
        let expected = (runs as u64 + 5, 0);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), expected, "{words:?}: {stopped}");
        assert_empty(&mut trial, &["a", "b"]);
    }
}

#[test]
fn a_burst_on_empty_queues_ends_at_once() {
    let mut trial = Trial::new();
    let began = std::time::Instant::now();
    let words = ["--queue", "a", "--queue", "b", "--burst"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    let stopped = trial.ended(&mut worker);
    assert_eq!(stopped["reason"], "Drained", "{stopped}");
    println!("a burst on empty queues took {:?}", began.elapsed());
    assert!(began.elapsed().as_secs() < 10, "expected it to end at once, it took {:?}", began.elapsed());
    assert_empty(&mut trial, &["a", "b"]);
}

#[test]
fn a_burst_ends_when_all_is_settled_retries_too() {
    let mut trial = Trial::new();
    trial.push_to("a", &marks("a", 50));
    trial.push_to("b", &marks("b", 50));
    trial.push_to("a", &[call("trial.span", &["slow".into(), 300.into()])]);
    trial.push_to("b", &[call("trial.span_blocking", &["still".into(), 300.into()])]);
    trial.push_to("b", &[call("trial.flaky", &["again".into(), 2.into()])]);
    trial.push_to(
        "a",
        &[call("trial.spread", &["more".into(), trial.server.url().into(), "a".into(), 20.into()])],
    );
    let words = ["--queue", "a=1", "--queue", "b=1", "--burst"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (124, 2), "{stopped}");
    let both = |name: &str| (0..50).map(move |n| format!("{name}{n}")).collect::<Vec<_>>();
    let others = ["+slow", "-slow", "+still", "-still", "again 1", "again 2", "again 3"].map(str::to_owned);
    let more = (0..20).map(|n| format!("more/{n}"));
    trial.ledger.assert_each_once(both("a").into_iter().chain(both("b")).chain(others).chain(more));
    assert_empty(&mut trial, &["a", "b"]);
}

#[test]
fn a_sweep_calls_no_script_for_queues_that_hold_nothing() {
    let server = TestRedis::start();
    let mut redis = server.connection();
    let names: Vec<String> = (0..1000).map(|n| format!("idle{n}")).collect();
    let () = redis.sadd("delayed_queues", names).unwrap();
    let () = redis.rpush("idle700_noti", "1").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut sweeper = runtime.block_on(delayed::Sweeper::connect(&server.url())).unwrap();
    let report = runtime.block_on(sweeper.sweep()).unwrap();
    assert_eq!(report.balanced, -1, "expected the one that holds something to be swept");
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut redis).unwrap();
    let report = runtime.block_on(sweeper.sweep()).unwrap();
    assert_eq!(report, delayed::SweepReport::default());
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).unwrap();
    assert!(stats.contains("cmdstat_smembers"), "expected the sweeper to look for queues: {stats}");
    assert!(!stats.contains("cmdstat_evalsha"), "expected no script to be called: {stats}");
}

#[test]
fn a_queue_that_may_not_be_swept_keeps_no_other_from_it() {
    let server = TestRedis::start();
    let mut redis = server.connection();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">secret", "~delayed_queues", "~mine*", "&*", "+@all"]);
    let () = user.query(&mut redis).unwrap();
    let () = redis.sadd("delayed_queues", &["mine", "theirs"]).unwrap();
    let () = redis.rpush("mine", "x").unwrap();
    let () = redis.rpush("theirs", "x").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = format!("{}?user=poor&pass=secret", server.url());
    let mut sweeper = runtime.block_on(delayed::Sweeper::connect(&url)).unwrap();
    let error = runtime.block_on(sweeper.sweep()).unwrap_err();
    assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Denied), "{error}");
    let tokens = |redis: &mut redis::Connection, key| redis.llen::<_, u64>(key).unwrap();
    assert_eq!((tokens(&mut redis, "mine_noti"), tokens(&mut redis, "theirs_noti")), (1, 0));
}
