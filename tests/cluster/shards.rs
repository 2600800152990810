//! Several shards: every part of the life of a call works, whichever shards its queues are on.

use std::time::Duration;

use delayed::{CallState, Limit, Periodic, group};
use redis::Commands;

use super::{Site, texts};
use crate::flows::tasks as flows;
use crate::limited::tasks as limited;
use crate::support::redis::read;
use crate::support::trial::{PATIENCE, count, gated, mark, open};
use crate::support::wait;

#[test]
fn one_worker_serves_queues_of_all_shards() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let queues = texts(&queues);
    let mut worker = site.worker(&queues, &["--concurrency", "4"]);
    for n in 0..30 {
        site.mark(queues[n % 3], n);
    }
    site.wait_runs_of(&worker, 30);
    // Idle, it waits on all of them at once.
    for n in 30..36 {
        site.cluster.push(queues[n % 3], &[mark(n)]);
        site.wait_runs_of(&worker, n + 1);
    }
    let calls: Vec<Vec<u8>> = (36..336).map(mark).collect();
    calls.chunks(100).zip(&queues).for_each(|(calls, queue)| site.cluster.push(queue, calls));
    site.wait_runs_of(&worker, 336);
    let stopped = site.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (336, 0), "{stopped}");
    site.ledger.assert_each_once(0..336);
    for queue in queues {
        assert_eq!(site.cluster.left(queue), (0, 0), "{queue}");
    }
}

#[test]
fn every_option_of_a_call_works_across_shards() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let [a, b, c] = texts(&queues)[..] else { unreachable!() };
    let mut worker = site.worker(&[a, b, c], &["--concurrency", "4"]);
    let runtime = &site.runtime;
    let wait = |handle: delayed::Handle<u64>| runtime.block_on(handle.wait(PATIENCE)).unwrap();

    let kept = runtime.block_on(site.client.enqueue(flows::number::call(7).queue(b).keep(PATIENCE))).unwrap();
    assert_eq!(wait(kept), 7);
    let later = flows::number::call(8).queue(c).after(Duration::from_millis(50)).keep(PATIENCE);
    assert_eq!(wait(runtime.block_on(site.client.enqueue(later)).unwrap()), 8);

    // Each step in a queue of another shard: what ends one reaches the next through the outbox.
    let numbers = group([1, 2, 3].map(|n| flows::number::call(n).queue([a, b, c][n as usize - 1])));
    let flow = numbers
        .then(flows::sum::step().with(|call| call.queue(b)))
        .then(flows::add::step(4).with(|call| call.queue(c)));
    let flow = runtime.block_on(site.client.enqueue_flow(flow)).unwrap();
    assert_eq!(runtime.block_on(flow.wait(PATIENCE)).unwrap(), 10);

    // A limit has a slot of its own, and calls of all queues share it.
    runtime.block_on(site.client.set_limit("few", Limit::concurrent(1))).unwrap();
    let gate = site.gate("gate");
    runtime
        .block_on(site.client.enqueue(limited::gated::call("gated".into(), gate.clone()).queue(a)))
        .unwrap();
    site.wait_runs_of(&worker, 1);
    let spans = (0..9).map(|n| limited::span::call(n.to_string(), 0).queue([a, b, c][n % 3]));
    runtime.block_on(site.client.enqueue_many(spans)).unwrap();
    for queue in [a, b, c] {
        wait::until("the calls to be parked", PATIENCE, || {
            site.cluster.connection(queue).llen::<_, u64>(format!("{queue}:l:few")).unwrap() == 3
        });
    }
    open(&gate);
    site.wait_runs_of(&worker, 2 + 2 * 9);

    let tick = Periodic::new("often", "* * * * * *", limited::plain::call("tick".into()).queue(c));
    runtime.block_on(site.client.define_periodic(tick)).unwrap();
    site.wait_runs_of(&worker, 2 + 2 * 9 + 1);
    let stopped = site.stop(&mut worker);
    assert_eq!((count(&stopped, "failed"), count(&stopped, "lost")), (0, 0), "{stopped}");
}

#[test]
fn operators_see_and_act_on_all_shards() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let queues = texts(&queues);
    let mut worker = site.worker(&queues, &[]);
    for queue in &queues {
        let fails = delayed::GoTask::new("no.such.task").queue(*queue);
        site.runtime.block_on(site.client.enqueue(fails)).unwrap();
    }
    let inspector = site.inspector();
    wait::until("a dead letter of each queue", PATIENCE, || {
        let all = site.runtime.block_on(inspector.queues()).unwrap();
        queues.iter().all(|name| all.iter().any(|queue| queue.queue.as_str() == *name && queue.dead == 1))
    });
    // Two calls that wait, one that is scheduled.
    site.stop(&mut worker);
    for (n, queue) in queues.iter().enumerate() {
        site.mark(queue, n);
        let call = flows::number::call(8).queue(*queue).after(PATIENCE).keep(PATIENCE);
        let handle = site.runtime.block_on(site.client.enqueue(call)).unwrap();
        assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Scheduled));
        let (code, told) =
            site.tool(&["calls", "cancel", &handle.id().unwrap().to_string(), "--queue", queue]);
        assert_eq!(code, Some(0), "{told}");
    }
    let (code, told) = site.tool(&["queues"]);
    assert!(code == Some(0) && queues.iter().all(|queue| told.contains(queue)), "{told}");
    for queue in &queues {
        let (code, told) = site.tool(&["dead", "delete", "--queue", queue, "--all", "--yes"]);
        assert_eq!(code, Some(0), "{told}");
    }
    let (code, told) = site.tool(&["doctor", "--json"]);
    assert!(code.is_some() && told.contains("3 masters"), "{told}");
    assert!(!told.contains("\"problem\""), "expected no problem: {told}");

    // What nobody has registered is found on whichever node it is.
    for queue in &queues {
        site.cluster.push(&queue.replace('q', "z"), &[mark(99)]);
    }
    let (_, told) = site.tool(&["doctor", "--json"]);
    let found = queues.iter().filter(|queue| told.contains(&queue.replace('q', "z"))).count();
    assert_eq!(found, 3, "{told}");
}

#[test]
fn calls_of_a_killed_worker_run_elsewhere() {
    let site = Site::new(2, 0);
    let queues = site.queues(2);
    let queues = texts(&queues);
    let words = ["--concurrency", "4", "--lease", "1s"];
    let mut worker = site.worker(&queues, &words);
    let gate = site.gate("gate");
    for (n, queue) in queues.iter().enumerate() {
        site.cluster.push(queue, &[gated(2 * n, &gate), gated(2 * n + 1, &gate)]);
    }
    site.wait_runs_of(&worker, 4);
    worker.kill9();
    open(&gate);
    let mut worker = site.worker(&queues, &words);
    site.wait_runs_of(&worker, 4 + 8);
    let stopped = site.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (4, 0), "{stopped}");
}

#[test]
fn address_of_one_node_leads_to_all() {
    let site = Site::new(3, 0);
    let queues = site.queues(3);
    let mut worker = site.worker(&texts(&queues), &[]);
    let client = site.runtime.block_on(delayed::Client::connect(&site.cluster.node(0).tcp_url())).unwrap();
    for (n, queue) in queues.iter().enumerate() {
        let call = flows::number::call(n as u64).queue(queue.clone()).keep(PATIENCE);
        let handle = site.runtime.block_on(client.enqueue(call)).unwrap();
        assert_eq!(site.runtime.block_on(handle.wait(PATIENCE)).unwrap(), n as u64);
    }
    site.stop(&mut worker);
}

#[test]
fn doctor_warns_of_shards_that_stop_each_other() {
    let site = Site::new(2, 0);
    let found = || {
        let (code, told) = site.tool(&["doctor", "--json"]);
        assert_eq!(code, Some(0), "expected no problem: {told}");
        let findings: Vec<serde_json::Value> = serde_json::from_str(&told).unwrap();
        findings.into_iter().find(|finding| finding["check"] == "coverage")
    };
    let tell = |index: usize, words: &[&str]| {
        let () = read(&mut site.cluster.node(index).connection(), redis::cmd(words[0]).arg(&words[1..]));
    };
    assert_eq!(found(), None, "expected nothing of shards that do not need each other");
    tell(1, &["CONFIG", "SET", "cluster-require-full-coverage", "yes"]);
    let finding = found().expect("a finding");
    assert_eq!(finding["level"], "warning");
    assert!(finding["text"].as_str().unwrap().starts_with("1 of 2 masters"), "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("cluster-require-full-coverage no"), "{finding}");
    // Where it may not ask, it does not guess.
    tell(1, &["ACL", "SETUSER", "default", "-config"]);
    assert_eq!(found(), None);
}

#[test]
fn doctor_lets_a_single_shard_need_itself() {
    let site = Site::new(1, 0);
    let set = ["SET", "cluster-require-full-coverage", "yes"];
    let () = read(&mut site.cluster.node(0).connection(), redis::cmd("CONFIG").arg(&set));
    let (code, told) = site.tool(&["doctor", "--json"]);
    assert!(code == Some(0) && told.contains("1 masters") && !told.contains("coverage"), "{told}");
}
