//! Quick functions that block are handed to a thread in batches, and none waits behind one that turns out to be slow.

use super::concurrency::most;
use crate::support::trial::{PATIENCE, Trial, at_gate, call, count, open};
use crate::support::wait;

#[test]
fn batches_of_quick_runs_keep_to_the_concurrency() {
    for (concurrency, prefetch) in [(1, "auto"), (1, "64"), (3, "auto"), (3, "64")] {
        let mut trial = Trial::new();
        // Each hundredth is much slower than those before it.
        let pause = |n: usize| if n % 100 == 50 { 30 } else { 0 };
        let calls = (0..400).map(|n| call("trial.span_blocking", &[n.to_string().into(), pause(n).into()]));
        let calls: Vec<Vec<u8>> = calls.collect();
        trial.push(&calls);
        let words = ["--concurrency", &concurrency.to_string(), "--prefetch", prefetch, "--burst"];
        let mut worker = trial.worker(&words);
        let stopped = trial.ended(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 400, "{stopped}");
        assert!(most(&trial.ledger.lines()) <= concurrency, "{concurrency} with {prefetch}");
        trial.ledger.assert_each_once((0..400).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
        trial.assert_only(&[]);
    }
}

#[test]
fn quick_calls_behind_a_slow_one_are_left_to_others() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let quick = |n: usize| call("trial.mark_blocking", &[n.to_string().into()]);
    let before: Vec<Vec<u8>> = (0..200).map(quick).collect();
    let behind: Vec<Vec<u8>> = (200..220).map(quick).collect();
    trial.push(&before);
    trial.push(&[at_gate("trial.gated_blocking", "held", &gate)]);
    trial.push(&behind);
    let mut first = trial.worker(&["--concurrency", "1"]);
    wait::until("the slow one to begin", PATIENCE, || trial.ledger.lines().contains(&"+held".to_owned()));
    let mut second = trial.worker(&["--concurrency", "1"]);
    wait::until("others to run the rest", PATIENCE, || trial.ledger.lines().len() == 221);
    assert!(!trial.ledger.lines().contains(&"-held".to_owned()), "expected the slow one to go on meanwhile");
    open(&gate);
    trial.wait_settled();
    let runs = [trial.stop(&mut first), trial.stop(&mut second)].map(|stopped| count(&stopped, "succeeded"));
    assert_eq!((runs[0] + runs[1], runs[1]), (221, 20), "expected the second to run what was behind");
    let each = (0..220).map(|n| n.to_string()).chain(["+held".into(), "-held".into()]);
    trial.ledger.assert_each_once(each);
    trial.assert_only(&[]);
}
