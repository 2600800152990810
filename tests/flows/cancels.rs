//! Flows that are cancelled.

use delayed::{CallState, Cancelled, WaitError, chain, group};

use super::{Site, tasks};
use crate::support::trial::open;

#[test]
fn cancelled_flow_ends_its_steps_and_begins_no_others() {
    let mut site = Site::new();
    let mut worker = site.worker(&["--concurrency", "2"]);
    let never = site.trial.gate("never");
    let members = group(["a", "b", "c", "d"].map(|n| tasks::gated::call(n.into(), never.clone())));
    let handle = site
        .enqueue(members.at_most(3).then(tasks::end::step("never".into())).on_error(tasks::alert::step()));
    site.trial.wait_runs(2);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Cancelled { .. })));
    site.wait_cancelled(&handle, 3);
    site.assert_done();
    site.trial.wait_settled();
    let mut lines = site.trial.ledger.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["+a", "+b"]);
    let ended = site.runtime.block_on(handle.cancel()).unwrap();
    assert_eq!(ended, Cancelled::Ended(CallState::Cancelled));
    site.trial.stop(&mut worker);
}

#[test]
fn cancelled_flow_can_be_retried() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let gate = site.trial.gate("gate");
    let handle = site.enqueue(
        chain(tasks::note_run::call("once".into()))
            .then(group(["a", "b"].map(|n| tasks::gated::call(n.into(), gate.clone()))))
            .then(tasks::end::step("end".into())),
    );
    site.trial.wait_runs(3);
    site.runtime.block_on(handle.cancel()).unwrap();
    site.wait_state(&handle, CallState::Cancelled);
    site.wait_cancelled(&handle, 2);
    site.assert_done();
    open(&gate);
    assert_eq!(site.runtime.block_on(handle.retry()).unwrap(), Some(3));
    assert_eq!(site.wait(&handle), "end");
    let lines = site.trial.ledger.lines();
    assert_eq!(lines.iter().filter(|line| *line == "once").count(), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| *line == "end 2").count(), 1, "{lines:?}");
    site.trial.stop(&mut worker);
}

#[test]
fn flow_that_waits_is_cancelled_like_any_call() {
    let site = Site::new();
    let handle = site.enqueue(chain(tasks::note_run::call("never".into())));
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
    let mut worker = site.worker(&["--burst"]);
    site.trial.ended(&mut worker);
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Cancelled { .. })));
    assert_eq!(site.trial.ledger.lines(), [""; 0]);
}
