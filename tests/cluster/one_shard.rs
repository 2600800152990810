//! A Cluster of a single shard, reached by the address of its only node.

use std::ops::Range;
use std::time::Duration;

use delayed::{Client, GoTask, Inspector, Limit, Periodic, group};
use redis::{Commands, Connection};
use tokio::runtime::Runtime;

use crate::flows::tasks as flows;
use crate::limited::tasks as limited;
use crate::support::redis::{Options, read, snapshot};
use crate::support::trial::{PATIENCE, Trial, count, gated, mark, open, ready};
use crate::support::wait;

/// All hash slots.
const ALL: Range<u16> = 0..16_384;

fn node() -> Options {
    Options { tcp: true, extra: ["--cluster-enabled", "yes"].map(Into::into).into(), ..Options::default() }
}

/// Gives a node slots.
fn give(redis: &mut Connection, slots: Range<u16>) {
    let () = read(redis, redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots.collect::<Vec<_>>()));
}

fn wait_complete(redis: &mut Connection) {
    wait::until("the cluster to be complete", PATIENCE, || {
        read::<String>(redis, redis::cmd("CLUSTER").arg("INFO")).contains("cluster_state:ok")
    });
}

fn one_shard() -> Trial {
    let mut trial = Trial::with(node());
    give(&mut trial.redis, ALL);
    wait_complete(&mut trial.redis);
    trial
}

#[test]
fn one_shard_serves_queues_with_one_hash_tag_and_loses_nothing() {
    let mut trial = one_shard();
    let queues = ["{mail}high", "{mail}low"];
    let words = ["--queue", queues[0], "--queue", queues[1], "--concurrency", "4", "--lease", "1s"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    ready(&worker);
    let client = Client::connect_blocking(&trial.server.tcp_url()).unwrap();
    let one = |n: usize| GoTask::new("trial.mark").arg(n.to_string()).queue(queues[n % 2]);
    client.enqueue_many_blocking((0..20).map(one)).unwrap();
    client.enqueue_blocking(one(20)).unwrap();
    trial.wait_runs(21);

    let gate = trial.gate("gate");
    let held: Vec<Vec<u8>> = (21..25).map(|n| gated(n, &gate)).collect();
    for (n, message) in held.iter().enumerate() {
        trial.push_to(queues[n % 2], &[message]);
    }
    trial.wait_runs(25);
    worker.kill9();
    open(&gate);
    let mut worker = trial.start_at(&trial.server.url(), &words);
    trial.push_to(queues[0], &[mark(25)]);
    trial.wait_runs(25 + 1 + 8);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (5, 0), "{stopped}");
    for queue in queues {
        let state = snapshot(&mut trial.redis, queue);
        let left = (state.waiting.len(), state.processing.len(), state.dead.len());
        assert_eq!(left, (0, 0, 0), "{queue}: {state:#?}");
    }
    for n in 21..25 {
        let lines = trial.ledger.lines();
        let ends = lines.iter().filter(|line| **line == format!("-{n}")).count();
        assert_eq!(ends, 1, "expected {n} to end once: {lines:?}");
    }
}

#[test]
fn one_shard_serves_limits_schedules_records_and_flows() {
    let mut trial = one_shard();
    let (high, low) = ("{mail}high", "{mail}low");
    let words = ["--queue", high, "--queue", low, "--concurrency", "4", "--lease", "1s"];
    let mut worker = trial.start_at(&trial.server.url(), &words);
    ready(&worker);
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(Client::connect(&trial.server.url())).unwrap();
    let inspector = runtime.block_on(Inspector::connect(&trial.server.url())).unwrap();
    runtime.block_on(client.set_limit("few", Limit::concurrent(1))).unwrap();

    let gate = trial.gate("gate");
    let span = |n: usize, queue: &str| limited::span::call(n.to_string(), 0).queue(queue);
    runtime.block_on(client.enqueue(limited::gated::call("gated".into(), gate.clone()).queue(high))).unwrap();
    trial.wait_runs(1);
    runtime.block_on(client.enqueue_many((0..9).map(|n| span(n, if n < 5 { high } else { low })))).unwrap();
    for (queue, count) in [(high, 5), (low, 4)] {
        wait::until("the calls to be parked", PATIENCE, || {
            trial.redis.llen::<_, u64>(format!("{queue}:l:few")).unwrap() == count
        });
    }
    let dropped = runtime.block_on(inspector.purge(&high.parse().unwrap(), &mut |_, _| {})).unwrap();
    assert_eq!(dropped, 5);
    assert!(
        !trial.redis.exists::<_, bool>(format!("{high}_parked")).unwrap(),
        "expected no call to be parked"
    );
    open(&gate);
    // The purge cleared the line: a sweep lets the calls of the other queue ask again.
    trial.wait_runs(2 + 2 * 4);

    let kept = runtime.block_on(client.enqueue(flows::number::call(7).queue(high).keep(PATIENCE))).unwrap();
    assert_eq!(runtime.block_on(kept.wait(PATIENCE)).unwrap(), 7);
    let later = flows::number::call(8).queue(low).after(Duration::from_millis(50)).keep(PATIENCE);
    let later = runtime.block_on(client.enqueue(later)).unwrap();
    assert_eq!(runtime.block_on(later.wait(PATIENCE)).unwrap(), 8);
    let numbers = group([1, 2].map(|n| flows::number::call(n).queue(low)))
        .then(flows::sum::step().with(|call| call.queue(high)));
    let flow = runtime
        .block_on(client.enqueue_flow(numbers.then(flows::add::step(4).with(|call| call.queue(low)))))
        .unwrap();
    assert_eq!(runtime.block_on(flow.wait(PATIENCE)).unwrap(), 7);
    let tick = Periodic::new("often", "* * * * * *", limited::plain::call("tick".into()).queue(high));
    runtime.block_on(client.define_periodic(tick)).unwrap();
    trial.wait_runs(2 + 2 * 4 + 1);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "failed"), count(&stopped, "lost")), (0, 0), "{stopped}");
}
