//! A worker that stands still for longer than its lease, and one that takes long to end.

use std::time::Duration;

use nix::sys::signal::Signal;
use redis::Commands;

use crate::support::trial::{PATIENCE, Trial, alone, at_gate, call, count, gated, mark, marks, open};
use crate::support::wait;

/// What the first worker stands still for, beyond its lease.
#[derive(PartialEq)]
enum Pause {
    /// Until others have its calls.
    UntilTaken,
    /// Until Redis has forgotten the worker, too.
    UntilForgotten,
}

fn releases_nothing_that_is_not_its_own(pause: &Pause) {
    let mut trial = Trial::new();
    let words = ["--lease", "1s", "--concurrency", "4"];
    let gate = trial.gate("gate");
    let mut first = trial.worker(&words);
    let held = |n: u32| gated(n, &gate);
    let flaky = at_gate("trial.gated_blocking", "3", &gate);
    trial.push(&[held(0), held(1), held(2), flaky]);
    trial.wait_runs(4);
    let slot = trial.state().processing.into_keys().next().expect("it owns four");
    let (worker, _) = slot.rsplit_once(':').expect("a slot is named by its worker");
    first.signal(Signal::SIGSTOP);
    let mut second = trial.worker(&words);
    // The second has taken over all of them, while the first knows nothing.
    trial.wait_runs(8);
    if *pause == Pause::UntilForgotten {
        let is_known = |redis: &mut redis::Connection| redis.exists::<_, bool>(worker).unwrap();
        wait::until("the first to be forgotten", PATIENCE, || !is_known(&mut trial.redis));
    }
    first.signal(Signal::SIGCONT);
    trial.push(&marks(20));
    // The first ends its runs while the second is still at it.
    open(&gate);
    trial.wait_settled();
    let told = trial.stop(&mut first);
    let taken = trial.stop(&mut second);
    assert_eq!(count(&told, "lost"), 4, "expected it to know what it lost: {told}");
    assert_eq!(count(&taken, "lost"), 0, "expected the second to be left alone: {taken}");
    first.wait_for_line("requeued before they were settled");
    let executions = trial.ledger.executions();
    assert!((0..4).all(|n| executions[&format!("+{n}")] == 2), "{executions:?}");
    assert!((0..20).all(|n| executions[&n.to_string()] == 1), "{executions:?}");
    trial.assert_only(&[]);
}

#[test]
fn a_paused_worker_releases_nothing_that_is_not_its_own() {
    releases_nothing_that_is_not_its_own(&Pause::UntilTaken);
}

#[test]
fn forgotten_worker_releases_nothing_that_is_not_its_own() {
    releases_nothing_that_is_not_its_own(&Pause::UntilForgotten);
}

#[test]
fn pauses_under_load_lose_nothing() {
    const CALLS: usize = 4_000;
    const SLOTS: u32 = 8;
    let _alone = alone();
    let mut trial = Trial::new();
    let words = ["--lease", "1s", "--concurrency", "8", "--prefetch", "0"];
    let mut first = trial.worker(&words);
    let mut second = trial.worker(&words);
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            call(
                ["trial.mark", "trial.flaky"][usize::from(n % 10 == 0)],
                &[n.to_string().into(), 1.into()][..2 - usize::from(n % 10 != 0)],
            )
        })
        .collect();
    for (round, part) in calls.chunks(CALLS / 4).enumerate() {
        trial.push(part);
        trial.wait_runs(round * (CALLS / 4) + 50);
        first.signal(Signal::SIGSTOP);
        // Its lease ends, and all that it owned is brought back.
        let processing = |trial: &mut Trial| trial.state().processing.len();
        wait::until("the second to have done all", PATIENCE, || {
            processing(&mut trial) == 0 && trial.state().waiting.is_empty()
        });
        first.signal(Signal::SIGCONT);
    }
    trial.wait_settled();
    let lost = count(&trial.stop(&mut first), "lost");
    assert_eq!(count(&trial.stop(&mut second), "lost"), 0);
    let executions = trial.ledger.executions();
    let names = |n: usize| {
        if n.is_multiple_of(10) { vec![format!("{n} 1"), format!("{n} 2")] } else { vec![n.to_string()] }
    };
    let most = executions.values().max().unwrap();
    println!("{} runs, {lost} of them for nothing", trial.ledger.total());
    assert!(*most <= 2, "expected each at most twice");
    trial.ledger.assert_each_at_least_once((0..CALLS).flat_map(names), 4 * 2 * SLOTS);
    trial.assert_only(&[]);
}

#[test]
fn a_long_end_does_not_lose_ownership() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let held = |task: &str, n: u32| at_gate(task, n, &gate);
    let mut first = trial.worker(&["--lease", "1s", "--shutdown", "60s"]);
    trial.push(&[held("trial.gated", 0), held("trial.gated_blocking", 1)]);
    trial.wait_runs(2);
    let mut second = trial.worker(&["--lease", "1s"]);
    first.signal(Signal::SIGTERM);
    first.wait_for_line("send the signal again to stop immediately");
    trial.push(&[mark("meanwhile")]);
    wait::pause(Duration::from_millis(4500));
    open(&gate);
    let stopped = trial.ended(&mut first);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (2, 0), "{stopped}");
    trial.wait_runs(5);
    trial.wait_settled();
    trial.stop(&mut second);
    trial.ledger.assert_each_once(["+0", "-0", "+1", "-1", "meanwhile"]);
    trial.assert_only(&[]);
}

#[test]
fn tasks_that_starve_the_runtime_do_not_lose_ownership() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut second = trial.worker(&["--lease", "1s", "--concurrency", "1"]);
    second.signal(Signal::SIGUSR1);
    second.wait_for_line("claiming ended");
    wait::until("its wait to end, with the claim behind it", PATIENCE, || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
        !clients.contains(" flags=b ")
    });
    let mut first = trial.worker(&["--lease", "1s", "--concurrency", "16"]);
    // Asynchronous tasks that block every thread of the runtime.
    let blocks = |n: u32| at_gate("trial.starve", n, &gate);
    let calls: Vec<_> = (0..16).map(blocks).collect();
    trial.push(&calls);
    trial.wait_runs(1);
    wait::pause(Duration::from_millis(3500));
    open(&gate);
    trial.wait_runs(32);
    trial.wait_settled();
    let stopped = trial.stop(&mut first);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (16, 0), "{stopped}");
    trial.stop(&mut second);
    trial.ledger.assert_each_once((0..16).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
    trial.assert_only(&[]);
}
