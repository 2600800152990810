//! What becomes of a flow when a step fails.

use delayed::{CallState, IntoFlow, PlanError, PyTask, WaitError, chain, group};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

#[test]
fn failed_step_ends_its_chain_and_alerts_once() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let missing = site.trial.gate("missing");
    let flow = chain(tasks::needs::call(missing))
        .then(tasks::note_run::call("never".into()))
        .on_error(tasks::alert::step());
    let handle = site.enqueue(flow);
    let WaitError::Dead { error, .. } = site.try_wait(&handle).unwrap_err() else {
        panic!("expected the flow to be dead")
    };
    assert!(error.ends_with("is dead: failed: no such file"), "{error}");
    site.trial.wait_runs(1);
    site.assert_done();
    assert_eq!(site.trial.ledger.lines(), ["alert flows.needs dead failed: no such file"]);
    site.trial.stop(&mut worker);
}

#[test]
fn group_waits_for_all_before_it_fails() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let (missing, gate) = (site.trial.gate("missing"), site.trial.gate("gate"));
    let members = delayed::group_of((
        tasks::needs::call(missing),
        tasks::gated::call("a".into(), gate.clone()),
        tasks::gated::call("b".into(), gate.clone()),
    ));
    let handle = site.enqueue(members.then(tasks::note_run::call("never".into())));
    site.trial.wait_runs(2);
    wait::until("the first to be dead", PATIENCE, || site.trial.dead() == 1);
    assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Running));
    open(&gate);
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })));
    let mut lines = site.trial.ledger.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["+a", "+b", "-a", "-b"]);
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn group_that_fails_fast_cancels_the_rest() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let (missing, never) = (site.trial.gate("missing"), site.trial.gate("never"));
    let members = delayed::group_of((
        tasks::gated::call("a".into(), never.clone()),
        chain(tasks::gated::call("b".into(), never.clone())).then(tasks::note_run::call("never".into())),
        chain(tasks::gated::call("c".into(), site.trial.gate("c"))).then(tasks::needs::call(missing)),
    ));
    let handle = site.enqueue(members.fail_fast());
    site.trial.wait_runs(3);
    open(&site.trial.gate("c"));
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })));
    wait::until_ok(PATIENCE, || {
        let tree = site.tree(&handle).to_string();
        if tree.matches("cancelled").count() >= 2 {
            Ok(())
        } else {
            Err(format!("two to be cancelled:\n{tree}"))
        }
    });
    let mut lines = site.trial.ledger.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["+a", "+b", "+c", "-c"]);
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn group_may_go_on_with_those_that_succeeded() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let (missing, there) = (site.trial.gate("missing"), site.trial.gate("there"));
    open(&there);
    let files = [missing.clone(), there.clone(), missing.clone(), there];
    let handle = site.enqueue(group(files.map(tasks::needs::call)).successes().then(tasks::sum::step()));
    assert_eq!(site.wait(&handle), 14);
    let none = site.enqueue(group([tasks::needs::call(missing)]).successes().then(tasks::sum::step()));
    assert_eq!(site.wait(&none), 0);
    site.trial.stop(&mut worker);
}

#[test]
fn flow_is_retried_from_its_failed_steps() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let file = site.trial.gate("file");
    let flow = chain(tasks::note_run::call("once".into()))
        .then(group([1, 2].map(tasks::number::call)))
        .then(group([tasks::needs::call(file.clone()), tasks::needs::call(file.clone())]))
        .then(tasks::sum::step())
        .on_error(tasks::alert::step());
    let handle = site.enqueue(flow);
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })));
    site.trial.wait_runs(2);
    assert_eq!(site.runtime.block_on(handle.retry()).unwrap(), Some(3));
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })), "expected it to fail again");
    site.trial.wait_runs(3);
    open(&file);
    assert_eq!(site.runtime.block_on(handle.retry()).unwrap(), Some(3));
    assert_eq!(site.wait(&handle), 14);
    assert_eq!(site.runtime.block_on(handle.retry()).unwrap(), None, "expected nothing to retry");
    let lines = site.trial.ledger.lines();
    assert_eq!(lines.iter().filter(|line| *line == "once").count(), 1, "{lines:?}");
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn step_whose_lock_is_held_is_cancelled() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let gate = site.trial.gate("gate");
    let unique = || tasks::gated::call("a".into(), gate.clone()).unique_key("one");
    let holder = site.runtime.block_on(site.client.enqueue(unique())).unwrap();
    site.trial.wait_runs(1);
    let handle = site.enqueue(group([unique()]));
    let WaitError::Dead { error, .. } = site.try_wait(&handle).unwrap_err() else {
        panic!("expected it dead")
    };
    let expected =
        format!("is cancelled: unique: the call {}, which is running, holds its lock", holder.id().unwrap());
    assert!(error.ends_with(&expected), "{error}");
    open(&gate);
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn full_queue_makes_a_step_wait() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let first = delayed::GoTask::new("flows.none").queue("other");
    site.runtime.block_on(site.client.enqueue(first)).unwrap();
    let bounded = chain(tasks::number::call(1)).then(tasks::double::step().with(|call| call.max_len(1)));
    let handle = site.enqueue(bounded);
    wait::until("the next step to wait in the outbox", PATIENCE, || {
        site.trial.redis.hlen::<_, u64>("q_outbox").unwrap() == 1
    });
    let () = site.trial.redis.del("other").unwrap();
    let mut other = site.worker(&[]);
    assert_eq!(site.wait(&handle), 2);
    site.assert_done();
    site.trial.stop(&mut other);
    site.trial.stop(&mut worker);
}

#[test]
fn what_cannot_be_a_flow_is_refused() {
    let site = Site::new();
    let refused = |flow: delayed::Flow| {
        let delayed::Error::Encode { source, .. } =
            site.runtime.block_on(site.client.enqueue_flow(flow)).unwrap_err()
        else {
            panic!("expected it to be refused")
        };
        match source {
            delayed::EncodeError::Flow(error) => error,
            other => panic!("expected another error than {other}"),
        }
    };
    let python: delayed::Call = PyTask::new("mails:send").into();
    assert_eq!(
        refused(chain(tasks::number::call(1)).then(python).into_flow()),
        PlanError::Foreign { task: "mails:send".into() }
    );
    let inner = chain(tasks::alert::call(delayed::FlowFailure::default())).into_flow().call();
    assert_eq!(refused(chain(inner).into_flow()), PlanError::Flow);
    let two = chain(tasks::alert::step()).then(tasks::alert::call(delayed::FlowFailure::default()));
    let flow = chain(tasks::alert::call(delayed::FlowFailure::default())).on_error(two);
    assert_eq!(refused(flow), PlanError::OnError);
    let buries = tasks::alert::call(delayed::FlowFailure::default()).overflow(delayed::Overflow::BuryOldest);
    assert_eq!(refused(chain(buries).into_flow()), PlanError::Overflow { task: "flows.alert".into() });
    let bad = tasks::alert::call(delayed::FlowFailure::default()).queue("a b");
    assert!(matches!(refused(chain(bad).into_flow()), PlanError::Queue(_)));
}
