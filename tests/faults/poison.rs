//! A message that takes its worker down, beside others that do not.

use crate::support::trial::{PATIENCE, Trial, call, mark, open};
use crate::support::wait;

#[test]
fn look_alikes_that_only_stood_by_are_forgiven() {
    let mut trial = Trial::new();
    let poison = call("trial.double_panic", &["poison".into()]);
    let gate = trial.gate("gate");
    let alike = call("trial.gated", &["alike".into(), gate.to_str().unwrap().into()]);
    // All alike to the byte, and owned by a process that dies of something else.
    trial.push(&vec![alike; 20]);
    let mut worker = trial.worker(&["--concurrency", "21", "--lease", "1s"]);
    trial.wait_runs(20);
    trial.push(&[&poison]);
    assert!(!worker.wait_exit(PATIENCE).success(), "expected it to die");
    open(&gate);
    // From here on one at a time: each death is that of the poison alone.
    let mut deaths = 1;
    let mut worker = loop {
        let mut worker = trial.worker(&["--concurrency", "1", "--lease", "1s"]);
        crate::support::wait::until("a death, or the end of all", PATIENCE, || {
            worker.has_ended() || trial.dead() > 0
        });
        if !worker.has_ended() {
            break worker;
        }
        deaths += 1;
        assert!(deaths <= 3, "expected the poison to be dead after three: {}", worker.printed());
    };
    trial.push(&[mark("after")]);
    trial.wait_settled();
    trial.stop(&mut worker);
    let state = trial.state();
    let dead: Vec<_> = state.dead.iter().map(|letter| letter["message"].clone()).collect();
    assert_eq!(dead, [poison], "expected the poison and nothing else: {state:#?}");
    let executions = trial.ledger.executions();
    assert_eq!(
        (executions["poison"], executions["after"], executions["-alike"]),
        (3, 1, 20),
        "{executions:?}"
    );
    assert!(state.deaths.is_empty(), "expected success to forgive them: {state:#?}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn innocents_beside_a_poison_are_not_buried_with_it() {
    for alike in [false, true] {
        let mut trial = Trial::new();
        let poison = call("trial.double_panic", &["poison".into()]);
        let innocent = |n: usize| mark(if alike { 0 } else { n });
        let mut messages: Vec<_> = (0..40).map(innocent).collect();
        messages.insert(20, poison.clone());
        trial.push(&messages);
        loop {
            let mut worker = trial.worker(&["--concurrency", "8", "--lease", "1s"]);
            wait::until("a death, or the end of all", PATIENCE, || {
                worker.has_ended() || trial.left() == (0, 0)
            });
            if !worker.has_ended() {
                break;
            }
        }
        let dead: Vec<_> = trial.state().dead.into_iter().map(|letter| letter["message"].clone()).collect();
        assert_eq!(dead, [poison], "expected the poison alone, alike: {alike}");
    }
}
