//! Are the last finished calls listed where a worker is told so, and only there?

use delayed::inspect::{CallFilter, CallRecord};
use delayed::{CallId, CallState, Inspector, QueueName};
use redis::Commands;

use super::{Site, tasks};
use crate::support::trial::{PATIENCE, mark, marks};
use crate::support::wait;

const KEY: &str = "q_finished";
const KEEP: [&str; 2] = ["--keep-finished", "3"];

fn inspector(site: &Site) -> (Inspector, QueueName) {
    let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
    (inspector, QueueName::parse("q").unwrap())
}

fn listed(site: &Site, states: &[CallState]) -> Vec<CallRecord> {
    let (inspector, queue) = inspector(site);
    let filter = CallFilter { states: states.to_vec(), ..CallFilter::default() };
    site.runtime.block_on(inspector.calls(&queue, &filter)).unwrap()
}

fn length(site: &mut Site) -> u64 {
    redis::cmd("XLEN").arg(KEY).query(&mut site.trial.redis).unwrap()
}

#[test]
fn last_finished_calls_without_a_record_are_listed() {
    let mut site = Site::new();
    site.trial.push(&marks(5));
    let mut worker = site.trial.worker(&KEEP);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    let calls = listed(&site, &[CallState::Succeeded]);
    assert_eq!(calls.len(), 3, "expected only the last ones: {calls:#?}");
    for call in &calls {
        assert_eq!((call.message.task.as_deref(), call.attempt), (Some("trial.mark"), Some(1)), "{call:?}");
        assert_eq!((&call.id, call.has_record, &call.result), (&None, false, &None), "{call:?}");
        assert!(call.began_ms.is_some() && call.began_ms <= call.ended_ms, "{call:?}");
        assert!(call.worker.is_some() && call.wire_id.is_some(), "{call:?}");
    }
    let ttl: i64 = site.trial.redis.ttl(KEY).unwrap();
    assert!(ttl > 6 * 86_400 && ttl <= 7 * 86_400, "expected the list to expire: {ttl}");
}

#[test]
fn finished_calls_are_listed_by_their_ends_and_found_by_id() {
    let mut site = Site::new();
    let unique = site.enqueue(tasks::once::call(1));
    let cancelled = site.enqueue(tasks::once::call(2));
    site.runtime.block_on(cancelled.cancel()).unwrap();
    let mut worker = site.trial.worker(&["--keep-finished", "10"]);
    let first = site.enqueue(tasks::charge::call(1));
    site.wait(&first).unwrap();
    site.trial.wait_settled();
    let dead = site.enqueue(tasks::fail::call("no".into()));
    site.wait(&dead).unwrap_err();
    wait::until("both to be listed", PATIENCE, || length(&mut site) == 2);
    site.trial.push(&[mark("last")]);
    wait::until("the last to be listed", PATIENCE, || length(&mut site) == 3);
    let last = site.enqueue(tasks::charge::call(2));
    site.wait(&last).unwrap();
    site.trial.stop(&mut worker);
    let calls = listed(&site, &[CallState::Succeeded, CallState::Cancelled]);
    let text = |id: Option<CallId>| id.map(|id| id.to_string());
    let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!((&ids[0], &ids[1], ids.len()), (&text(last.id()), &None, 5), "{calls:#?}");
    assert!(calls.is_sorted_by_key(|call| std::cmp::Reverse(call.ended_ms)), "{calls:#?}");
    assert_eq!(listed(&site, &[CallState::Dead]).len(), 1, "expected the dead letter, and it once");
    let (inspector, queue) = inspector(&site);
    let call = |id| site.runtime.block_on(inspector.call(&queue, id, 0)).unwrap().unwrap();
    let found = call(cancelled.id().unwrap());
    assert_eq!((found.state, found.began_ms), (CallState::Cancelled, None), "{found:?}");
    assert_eq!(found.attempt, None, "expected no attempt to have begun: {found:?}");
    assert_eq!(call(unique.id().unwrap()).state, CallState::Succeeded);
}

#[test]
fn nothing_is_listed_unless_a_worker_is_told_to() {
    let mut site = Site::new();
    site.trial.push(&marks(5));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert!(!site.trial.redis.exists::<_, bool>(KEY).unwrap());
    let commands = site.trial.commands();
    assert!(!commands.contains_key("xadd"), "{commands:?}");
}

#[test]
fn entries_older_than_a_week_are_dropped() {
    let mut site = Site::new();
    let () = redis::cmd("XADD")
        .arg(&[KEY, "1-1", "task", "old", "state", "succeeded"])
        .query(&mut site.trial.redis)
        .map(|_: String| ())
        .unwrap();
    let mut worker = site.trial.worker(&KEEP);
    site.trial.push(&[mark(1)]);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    let calls = listed(&site, &[CallState::Succeeded]);
    let tasks: Vec<_> = calls.iter().map(|call| call.message.task.as_deref()).collect();
    assert_eq!(tasks, [Some("trial.mark")]);
}

#[test]
fn key_of_another_program_is_left_and_calls_run() {
    for foreign in [&["SET", KEY, "text"][..], &["XADD", KEY, "*", "temperature", "20"]] {
        let mut site = Site::new();
        let words = foreign.iter().skip(1).copied().collect::<Vec<_>>();
        let _: redis::Value = redis::cmd(foreign[0]).arg(&words).query(&mut site.trial.redis).unwrap();
        let before: Vec<u8> = redis::cmd("DUMP").arg(KEY).query(&mut site.trial.redis).unwrap();
        let mut worker = site.trial.worker(&KEEP);
        site.trial.push(&marks(3));
        site.trial.wait_settled();
        worker.wait_for_line("finished calls not listed");
        let after: Vec<u8> = redis::cmd("DUMP").arg(KEY).query(&mut site.trial.redis).unwrap();
        assert_eq!(after, before, "{foreign:?}");
        let () = site.trial.redis.del(KEY).unwrap();
        site.trial.push(&[mark("again")]);
        // Entries of the calls before may come late, and are listed then.
        wait::until("calls to be listed again", PATIENCE, || length(&mut site) >= 1);
        site.trial.stop(&mut worker);
    }
}
