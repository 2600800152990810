//! Never more runs than slots, as many as slots when there is work, and each call once however many workers there are.

use std::sync::atomic::Ordering;

use delayed::testing::{Fault, Requests, Side};
use redis::Commands;

use crate::support::trial::{PATIENCE, Trial, alone, at_gate, call, count, gated, marks, open};
use crate::support::wait;

/// The most runs at a time, by `+n` and `-n` in the ledger.
pub(super) fn most(lines: &[String]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in lines {
        if line.starts_with('+') {
            now += 1
        } else {
            now -= 1
        }
        most = most.max(now);
    }
    assert_eq!(now, 0, "expected every run to end");
    most
}

/// Runs 200 calls of these tasks, `slots` at a time.
#[track_caller]
fn fills(tasks: &[&str], slots: usize) {
    let mut trial = Trial::new();
    let calls = (0..200).map(|n| call(tasks[n % tasks.len()], &[n.to_string().into(), (n % 7).into()]));
    let calls: Vec<Vec<u8>> = calls.collect();
    trial.push(&calls);
    let mut worker = trial.worker(&["--concurrency", &slots.to_string()]);
    trial.wait_runs(400);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 200, "{stopped}");
    assert_eq!(most(&trial.ledger.lines()), slots, "expected {slots} of {tasks:?} at a time, and never more");
    trial.ledger.assert_each_once((0..200).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
    trial.assert_only(&[]);
}

#[test]
fn asynchronous_tasks_fill_the_slots_and_no_more() {
    fills(&["trial.span"], 4);
    fills(&["trial.span"], 1);
}

#[test]
fn blocking_tasks_fill_the_slots_and_no_more() {
    fills(&["trial.span_blocking"], 4);
    fills(&["trial.span_blocking"], 1);
}

#[test]
fn tasks_of_both_kinds_share_the_slots() {
    fills(&["trial.span", "trial.span_blocking"], 6);
}

#[test]
fn a_task_that_blocks_for_long_does_not_hold_up_those_behind_it() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "3"]);
    // They learn that the tasks are quick, which is not so any more afterwards.
    trial.push(&marks(200));
    for n in 0..200 {
        trial.push(&[call("trial.mark_blocking", &[format!("b{n}").into()])]);
    }
    trial.wait_runs(400);
    let held = |n: &str| at_gate("trial.gated_blocking", n, &gate);
    trial.push(&[held("a"), held("b")]);
    trial.push(&marks(50));
    trial.wait_runs(452);
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 452, "{stopped}");
    assert_eq!(trial.ledger.total(), 454);
    trial.assert_only(&[]);
}

#[test]
fn large_messages_are_claimed_one_by_one_and_fill_all_slots() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let large = "x".repeat(1_200_000);
    let carrier = |gate: &str| call("trial.gated_carrier", &["n".into(), gate.into(), large.as_str().into()]);
    let (open_already, held) = (carrier("/"), carrier(gate.to_str().unwrap()));
    let mut worker = trial.worker(&["--concurrency", "4"]);
    // From this one it learns how large they are.
    trial.push(&[&open_already]);
    trial.wait_runs(2);
    trial.commands();
    trial.push(&[&open_already; 20]);
    trial.wait_runs(2 + 40);
    let requests = trial.commands().get("evalsha").copied().unwrap_or(0);
    assert!(requests >= 20, "expected a claim for each of them, got {requests} requests");
    trial.push(&[&held; 8]);
    trial.wait_runs(2 + 40 + 4);
    assert_eq!(trial.redis.hlen::<_, u64>("q_processing").unwrap(), 4, "expected 4 at a time");
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 29, "{stopped}");
    assert_eq!(most(&trial.ledger.lines()), 4, "expected 4 at a time, and never more");
    trial.assert_only(&[]);
}

#[test]
fn few_messages_are_claimed_before_their_size_is_known() {
    let mut trial = Trial::new();
    let large = call("trial.length", &["x".repeat(4 << 20).into()]);
    trial.push(&[&large; 40]);
    trial.commands();
    let mut worker = trial.worker(&["--concurrency", "64"]);
    trial.wait_settled();
    // What a claim reads beyond what it brings goes back.
    let put_back = trial.commands().get("lpush").copied().unwrap_or(0);
    assert!((1..20).contains(&put_back), "expected only the first claim to read too much, not {put_back}");
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 40);
    trial.assert_only(&[]);
}

#[test]
fn waiting_messages_are_claimed_by_two_overlapping_claims() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let held = |n: usize| gated(n, &gate);
    trial.push(&(0..400).map(held).collect::<Vec<_>>());
    let proxy = trial.server.proxy();
    let claims = || Requests::script("claim");
    // The first is of few, as it is not known how large they are. It tells how many wait.
    let second = proxy.trap(Side::Reply, claims().nth(2), Fault::Hold);
    let all = proxy.trap(Side::Request, claims().nth(u32::MAX), Fault::Drop);
    let mut worker = trial.worker_at(proxy.url(), &["--concurrency", "200", "--prefetch", "0"]);
    wait::until("a third claim while the second has no reply", PATIENCE, || {
        second.struck() == 1 && all.met() == 3
    });
    second.release();
    trial.wait_runs(200);
    assert_eq!((all.met(), trial.redis.hlen::<_, u64>("q_processing").unwrap()), (3, 200));
    open(&gate);
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 400);
    trial.assert_only(&[]);
}

#[test]
fn several_workers_run_each_of_5000_calls_once() {
    let _alone = alone();
    let mut trial = Trial::new();
    let mut workers: Vec<_> = [1, 4, 16, 64]
        .map(|slots: usize| {
            let words = ["--concurrency".to_owned(), slots.to_string()];
            trial.worker(&words.each_ref().map(String::as_str))
        })
        .into();
    let calls: Vec<Vec<u8>> = (0..5000)
        .map(|n: usize| call(["trial.mark", "trial.mark_blocking"][n % 2], &[n.to_string().into()]))
        .collect();
    trial.push(&calls);
    trial.wait_settled();
    let mut succeeded = 0;
    for worker in &mut workers {
        let stopped = trial.stop(worker);
        assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
        succeeded += count(&stopped, "succeeded");
    }
    assert_eq!(succeeded, 5000);
    trial.ledger.assert_each_once(0..5000);
    trial.assert_only(&[]);
}

mod held {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};

    /// What waits here goes on when it is opened.
    pub(super) struct Gate(Mutex<bool>, Condvar);

    impl Gate {
        const fn closed() -> Self {
            Self(Mutex::new(false), Condvar::new())
        }

        pub(super) fn pass(&self) {
            drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
        }

        pub(super) fn open(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }
    }

    /// For the threads of the runtime, and for the runs.
    pub(super) static THREADS: Gate = Gate::closed();
    pub(super) static RUNS: Gate = Gate::closed();
    pub(super) static BEGUN: AtomicUsize = AtomicUsize::new(0);

    /// Opens both at the end, so that a runtime does not wait for what stands before them.
    pub(super) struct OpenAtLast;

    impl Drop for OpenAtLast {
        fn drop(&mut self) {
            THREADS.open();
            RUNS.open();
        }
    }

    #[delayed::task(name = "concurrency.held")]
    pub(super) fn hold() {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        RUNS.pass();
    }
}

#[test]
fn blocking_tasks_do_not_queue_behind_one_another_for_a_thread() {
    let mut trial = Trial::new();
    let threads = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(2).enable_all().build();
    let runtime = threads.unwrap();
    let _open = held::OpenAtLast;
    let registry = delayed::Registry::new().with::<held::hold>().unwrap();
    let worker = delayed::Worker::builder(&trial.server.url()).queue("q").concurrency(4).registry(registry);
    let worker = runtime.block_on(worker.connect()).unwrap();
    let handle = worker.handle();
    let running = runtime.spawn(worker.run());
    wait::until("the worker to be known", PATIENCE, || trial.redis.exists::<_, bool>("q_workers").unwrap());
    for _ in 0..2 {
        runtime.spawn_blocking(|| held::THREADS.pass());
    }
    // Each comes by itself, while there is no thread for it.
    for claimed in 1..=2 {
        trial.push(&[call("concurrency.held", &[])]);
        wait::until("it to be claimed", PATIENCE, || handle.stats().claimed == claimed);
    }
    held::THREADS.open();
    wait::until("both to run at a time", PATIENCE, || held::BEGUN.load(Ordering::Relaxed) == 2);
    held::RUNS.open();
    trial.wait_settled();
    handle.stop();
    assert_eq!(runtime.block_on(running).unwrap().unwrap().stats.succeeded, 2);
    trial.assert_only(&[]);
}
