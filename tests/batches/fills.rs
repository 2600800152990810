//! When a batch is full, and what it becomes.

use std::time::Duration;

use redis::Commands;

use super::{Site, items_of, tasks, texts};
use crate::support::python;
use crate::support::trial::PATIENCE;
use crate::support::wait;

#[test]
fn items_become_one_message_when_there_are_enough() {
    let mut site = Site::new();
    for n in 0..12 {
        site.enqueue_one(tasks::collect::call(format!("ok:{n}")));
    }
    let expected = [texts((0..5).map(|n| format!("ok:{n}"))), texts((5..10).map(|n| format!("ok:{n}")))];
    assert_eq!(site.waiting(), expected);
    assert_eq!(site.filling("batches.collect"), 2);
    let worker = site.trial.worker(&["--concurrency", "1"]);
    site.wait_done();
    let lines = site.trial.ledger.lines();
    assert_eq!(lines, ["ok:0 ok:1 ok:2 ok:3 ok:4", "ok:5 ok:6 ok:7 ok:8 ok:9", "ok:10 ok:11"]);
    drop(worker);
}

#[test]
fn messages_are_those_of_a_call_with_the_list() {
    let mut site = Site::new();
    // One item, fifteen of them, and more than an array's shortest head can count; paths and payloads of any length.
    for (count, size) in [(1, 1), (4, 10), (4, 100), (4, 20_000)] {
        let () = site.trial.redis.flushall().unwrap();
        let items: Vec<String> = (0..count).map(|n| format!("{n}{}", "x".repeat(size))).collect();
        site.enqueue(items.iter().map(|item| tasks::collect::call(item.clone())));
        let () = site.trial.redis.zadd("q_due", "gbatches.collect", 1).unwrap();
        let worker = site.trial.worker(&["--concurrency", "1"]);
        site.wait_done();
        assert_eq!(site.trial.ledger.lines().last(), Some(&items.join(" ")));
        drop(worker);
    }
    for count in [5, 20, 300, 70_000] {
        let () = site.trial.redis.flushall().unwrap();
        site.enqueue((0..count).map(tasks::patient::call));
        let mut messages = site.trial.state().waiting;
        if messages.is_empty() {
            let script = redis::Script::new(delayed::__private::script_text("promote").unwrap());
            let () = site.trial.redis.zadd("q_due", "gbatches.patient", 1).unwrap();
            let keys = ["q", "q_noti", "q_due", "q_later", "q_timetable", "q_periodic"];
            let mut call = script.prepare_invoke();
            for key in keys {
                call.key(key);
            }
            let () = call.arg("us").arg(1000).arg(500).arg(0).invoke(&mut site.trial.redis).unwrap();
            messages = site.trial.state().waiting;
        }
        let first = count.min(10_000);
        let list: Vec<u64> = (0..first).collect();
        let payload = rmp_serde::to_vec(&list).unwrap();
        assert_eq!(messages[0], crate::support::trial::message("batches.patient", &payload), "{count} items");
    }
}

#[test]
fn bulk_fills_its_own_batches_and_leaves_the_rest_to_fill() {
    let mut site = Site::new();
    site.enqueue((0..23).map(|n| tasks::collect::call(format!("ok:{n}"))));
    assert_eq!(site.waiting().iter().map(Vec::len).collect::<Vec<_>>(), [5; 4]);
    assert_eq!(site.filling("batches.collect"), 3);
    // What fills already is not passed by.
    site.enqueue((23..26).map(|n| tasks::collect::call(format!("ok:{n}"))));
    assert_eq!(site.waiting()[4], texts((20..25).map(|n| format!("ok:{n}"))));
    assert_eq!(site.filling("batches.collect"), 1);
}

#[test]
fn each_key_and_each_task_fills_a_batch_of_its_own() {
    let mut site = Site::new();
    let calls = (0..10).map(|n| {
        let call = tasks::collect::call(format!("ok:{n}"));
        if n % 2 == 0 { call.batch_key("even") } else { call }
    });
    site.enqueue(calls);
    site.enqueue((0..2).map(|n| tasks::collect_at_once::call(format!("ok:{n}"))));
    let even = texts((0..10).step_by(2).map(|n| format!("ok:{n}")));
    let odd = texts((1..10).step_by(2).map(|n| format!("ok:{n}")));
    assert_eq!(site.waiting(), [even, odd]);
    assert_eq!(site.filling("batches.collect_at_once"), 2);
    let error =
        site.runtime.block_on(site.client.enqueue(tasks::collect::call("ok".into()).batch_key("a b")));
    let error = format!("{:?}", error.map(drop).unwrap_err());
    assert!(error.contains("the batch key \"a b\" is not valid"), "{error}");
}

#[test]
fn batch_is_moved_after_a_pause_between_its_items() {
    let mut site = Site::new();
    let worker = site.trial.worker(&[]);
    for n in 0..20 {
        site.enqueue_one(tasks::patient::call(n));
    }
    site.trial.wait_runs(1);
    site.wait_done();
    // A machine that stalls makes a pause by itself.
    let counts: usize = site.trial.ledger.lines().iter().map(|line| line.parse::<usize>().unwrap()).sum();
    assert_eq!(counts, 20);
    drop(worker);
}

#[test]
fn large_items_fill_a_batch_by_their_size() {
    let mut site = Site::new();
    let item = || tasks::collect::call("x".repeat(1_500_000));
    for _ in 0..3 {
        site.enqueue_one(item());
    }
    assert_eq!(site.waiting().iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    assert_eq!(site.filling("batches.collect"), 1);
    // As they are in one request.
    site.enqueue((0..4).map(|_| item()));
    assert_eq!(site.waiting().iter().map(Vec::len).collect::<Vec<_>>(), [2; 3]);
    assert_eq!(site.filling("batches.collect"), 1);
}

#[test]
fn call_with_options_of_its_own_is_a_batch_of_one() {
    let mut site = Site::new();
    site.enqueue_one(tasks::collect::call("ok:a".into()).front());
    assert_eq!(site.waiting(), [["ok:a"]]);
    site.enqueue_one(tasks::collect::call("ok:b".into()).keep(Duration::from_secs(60)).id("b"));
    site.enqueue_one(tasks::collect::call("flaky:c".into()).unique(delayed::Unique::UntilDone));
    let twice = tasks::collect::call("flaky:c".into()).unique(delayed::Unique::UntilDone);
    let twice = site.runtime.block_on(site.client.enqueue(twice)).unwrap();
    assert!(twice.conflict().is_some(), "expected the second to lose");
    let worker = site.trial.worker(&["--concurrency", "1"]);
    site.wait_done();
    assert_eq!(site.trial.ledger.lines(), ["ok:a", "ok:b", "flaky:c", "flaky:c"]);
    let handle = site.client.handle_of::<()>(&"q".parse().unwrap(), "b");
    site.runtime.block_on(handle.wait(PATIENCE)).unwrap();
    drop(worker);
}

#[test]
fn other_programs_call_it_with_the_list() {
    let mut site = Site::new();
    let worker = site.trial.worker(&["--concurrency", "1"]);
    let arguments = serde_json::json!(["ok:go", "ok:too"]);
    site.trial.push(&[crate::support::trial::call("batches.collect", &[arguments])]);
    site.trial.wait_runs(1);
    let code = "import sys, redis, delayed\n\
        from delayed.queue import Queue\n\
        from delayed.task import PyTask\n\
        queue = Queue('q', redis.Redis.from_url(sys.argv[1]))\n\
        queue.enqueue(PyTask('batches.collect', (['ok:py', 'bad:py'],)))\n\
        queue.enqueue(PyTask('batches.collect', (), {'items': ['ok:key', 'bad:key']}))\n";
    let status = std::process::Command::new(python::interpreter())
        .args(["-c", code, &site.trial.server.url()])
        .status()
        .unwrap();
    assert!(status.success());
    wait::until("the items that failed to be buried", PATIENCE, || site.trial.dead() == 2);
    assert_eq!(site.trial.ledger.lines(), ["ok:go ok:too", "ok:py bad:py", "ok:key bad:key"]);
    let letters = site.trial.state().dead;
    let items: Vec<_> = letters.iter().map(|letter| items_of(&letter["message"])).collect();
    assert_eq!(items, [["bad:py"], ["bad:key"]], "expected each letter to have its own item alone");
    drop(worker);
}
