//! Steps that end in every way there is, and queues that do not take the next ones.

use std::time::{Duration, Instant};

use delayed::{CallId, CallState, Error, FlowHandle, FlowNode, IntoFlow, QueueName, WaitError, chain, group};
use redis::Commands;

use super::{Site, tasks};
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

impl Site {
    /// Runs the tool.
    fn tool(&self, words: &[&str]) {
        let mut command = self.trial.command(DELAYED);
        let mut tool = Program::spawn(command.args(words).args(["--redis", &self.trial.server.url()]));
        let said = tool.last_words();
        assert_eq!(tool.wait_exit(PATIENCE).code(), Some(0), "{said}");
    }

    /// The id of the first call of this task.
    fn call_id<R>(&self, handle: &FlowHandle<R>, task: &str) -> CallId {
        fn find(node: &FlowNode, task: &str) -> Option<String> {
            let own = if node.task.as_deref() == Some(task) { node.call_id.clone() } else { None };
            own.or_else(|| node.parts.iter().find_map(|part| find(part, task)))
        }
        let id = find(&self.tree(handle).root, task).expect("expected the step to have begun");
        CallId::parse(&id).unwrap()
    }

    /// Waits for the failure of a flow, and for the call that it makes then: why it failed, and what was run.
    #[track_caller]
    fn failure<R: serde::de::DeserializeOwned>(&mut self, handle: &FlowHandle<R>) -> (String, Vec<String>) {
        let WaitError::Dead { error, .. } = self.try_wait(handle).err().expect("expected it to fail") else {
            panic!("expected the flow to be dead")
        };
        wait::until("the failure to be told", PATIENCE, || {
            self.trial.ledger.lines().iter().any(|line| line.starts_with("alert"))
        });
        self.assert_done();
        self.trial.wait_settled();
        (error, self.trial.ledger.lines())
    }
}

#[test]
fn killed_member_ends_its_flow() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let members = group([tasks::stuck_apart::call("a".into())]);
    let handle =
        site.enqueue(members.then(tasks::note_run::call("never".into())).on_error(tasks::alert::step()));
    site.trial.wait_runs(1);
    let id = site.call_id(&handle, "flows.stuck_apart").to_string();
    site.tool(&["tasks", "kill", &id, "--by", "anna", "--queue", "q"]);
    let (error, lines) = site.failure(&handle);
    assert!(error.contains("is dead: killed: killed by anna"), "{error}");
    let told = &lines[1];
    assert!(told.starts_with("alert flows.stuck_apart dead killed: killed by anna"), "{lines:?}");
    assert_eq!((&lines[0][..], lines.len()), ("+a", 2));
    site.trial.stop(&mut worker);
}

#[test]
fn cancelled_member_ends_its_flow_and_the_others() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let never = site.trial.gate("never");
    let members = group(["a", "b"].map(|n| tasks::gated::call(n.into(), never.clone()))).fail_fast();
    let handle = site.enqueue(members.then(tasks::end::step("never".into())).on_error(tasks::alert::step()));
    site.trial.wait_runs(2);
    let id = site.call_id(&handle, "flows.gated");
    let member = site.client.handle_of::<String>(&QueueName::parse("q").unwrap(), id);
    site.runtime.block_on(member.cancel()).unwrap();
    let (error, mut lines) = site.failure(&handle);
    assert!(error.contains("is cancelled: cancelled by "), "{error}");
    lines.sort_unstable();
    assert_eq!(lines[..2], ["+a", "+b"]);
    assert!(
        lines[2].starts_with("alert flows.gated cancelled cancelled by ") && lines.len() == 3,
        "{lines:?}"
    );
    let tree = site.tree(&handle).to_string();
    assert_eq!(tree.matches("flows.gated  cancelled").count(), 2, "{tree}");
    site.trial.stop(&mut worker);
}

#[test]
fn expired_member_ends_its_flow() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let late = tasks::note_run::call("late".into()).queue("other").expires(Duration::from_millis(50));
    let handle =
        site.enqueue(chain(tasks::note_run::call("a".into())).then(late).on_error(tasks::alert::step()));
    wait::until("the step to wait", PATIENCE, || site.trial.redis.llen::<_, u64>("other").unwrap() == 1);
    let waits = Instant::now();
    wait::until("the step to expire", PATIENCE, || waits.elapsed() > Duration::from_millis(100));
    let mut other = site.worker(&[]);
    let (error, lines) = site.failure(&handle);
    assert!(error.contains("is expired"), "{error}");
    assert!(lines.len() == 2 && lines[1].starts_with("alert flows.note expired"), "{lines:?}");
    site.trial.stop(&mut other);
    site.trial.stop(&mut worker);
}

#[test]
fn member_that_is_lost_three_times_ends_its_flow() {
    let mut site = Site::new();
    let members = group([tasks::poison::call("poison".into())]);
    let handle =
        site.enqueue(members.then(tasks::note_run::call("never".into())).on_error(tasks::alert::step()));
    let mut last = loop {
        let mut worker = site.trial.start(&["--queue", "other", "--lease", "1s"]);
        wait::until("the worker to die, or the flow to end", PATIENCE, || {
            let state = site.runtime.block_on(handle.state()).unwrap();
            worker.has_ended() || state == Some(CallState::Dead)
        });
        if !worker.has_ended() {
            break worker;
        }
    };
    let (error, lines) = site.failure(&handle);
    assert!(error.ends_with("is dead: lost"), "{error}");
    let (runs, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line == "poison");
    assert!((3..=5).contains(&runs.len()), "{runs:?}");
    assert_eq!(others, ["alert flows.poison dead lost"]);
    assert_eq!(site.trial.reasons(), ["lost"]);
    site.trial.stop(&mut last);
}

#[test]
fn callback_waits_while_its_queue_is_paused() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    site.tool(&["queues", "pause", "other"]);
    worker.wait_for_line("queue paused");
    let handle = site.enqueue(chain(tasks::number::call(4)).then(tasks::double::step()));
    wait::until("the callback to wait", PATIENCE, || site.trial.redis.llen::<_, u64>("other").unwrap() == 1);
    site.assert_done();
    assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Running));
    site.tool(&["queues", "resume", "other"]);
    assert_eq!(site.wait(&handle), 8);
    site.trial.stop(&mut worker);
}

#[test]
fn flow_whose_id_exists_is_not_begun_again() {
    let mut site = Site::new();
    let flow = || chain(tasks::note_run::call("once".into())).into_flow().call().id("flow:1");
    let enqueue = |site: &Site| site.runtime.block_on(site.client.enqueue(flow()));
    let assert_refused = |site: &Site, expected: CallState| match enqueue(site) {
        Err(Error::Exists { state, .. }) => assert_eq!(state, expected.to_string()),
        other => panic!("expected it to be refused, not {other:?}"),
    };
    let handle = FlowHandle::from(enqueue(&site).unwrap());
    assert_refused(&site, CallState::Waiting);
    let mut worker = site.worker(&[]);
    assert_eq!(site.wait(&handle), "once");
    assert_refused(&site, CallState::Succeeded);
    site.assert_done();
    site.trial.wait_settled();
    assert_eq!(site.trial.ledger.lines(), ["once"]);
    site.trial.stop(&mut worker);
}

#[test]
fn retried_flow_lets_no_more_members_run_at_a_time() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let (missing, there) = (site.trial.gate("missing"), site.trial.gate("there"));
    let gate = site.trial.gate("gate");
    open(&there);
    let members = (0..6).map(|n| {
        let file = if n < 3 { &missing } else { &there };
        tasks::span::call(n, file.clone(), if n == 3 { there.clone() } else { gate.clone() })
    });
    let handle = site.enqueue(group(members).at_most(1).then(tasks::sum::step()));
    // Three fail, one succeeds, and the fifth waits.
    site.trial.wait_runs(5);
    site.runtime.block_on(handle.cancel()).unwrap();
    site.wait_state(&handle, CallState::Cancelled);
    site.assert_done();
    wait::until("the fifth to end", PATIENCE, || {
        site.trial.redis.hlen::<_, u64>("q_processing").unwrap() == 0
    });
    open(&missing);
    assert_eq!(site.runtime.block_on(handle.retry()).unwrap(), Some(6));
    site.trial.wait_runs(6);
    site.assert_done();
    let begun = |site: &Site| {
        let tree = site.tree(&handle);
        tree.root.parts[0].parts.iter().filter(|part| part.state == Some(CallState::Running)).count()
    };
    assert_eq!(begun(&site), 1);
    let tree = site.tree(&handle);
    let states: Vec<_> = tree.root.parts[0].parts.iter().map(|part| part.state).collect();
    let (running, done) = (Some(CallState::Running), Some(CallState::Succeeded));
    assert_eq!(states, [running, None, None, done, None, None]);
    open(&gate);
    assert_eq!(site.wait(&handle), 15);
    let lines = site.trial.ledger.lines();
    assert_eq!(lines[5..], ["+0", "+1", "+2", "+4", "+5"], "{lines:?}");
    site.trial.stop(&mut worker);
}

#[test]
fn old_cancellation_does_not_reach_a_flow_that_goes_on() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let gate = site.trial.gate("gate");
    let members = group(["a", "b"].map(|n| tasks::gated::call(n.into(), gate.clone())));
    let handle = site.enqueue(members.then(tasks::end::step("end".into())));
    site.trial.wait_runs(2);
    site.assert_done();
    // As a process leaves it that died before the flow was retried.
    let field = [&handle.id().unwrap().as_bytes()[..], b"x", &[0; 4]].concat();
    let () = site.trial.redis.hset("q_outbox", field, 1).unwrap();
    site.assert_done();
    open(&gate);
    assert_eq!(site.wait(&handle), "end");
    site.trial.stop(&mut worker);
}
