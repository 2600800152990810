//! A call may expire: at an end that does not move while it waits.

use std::time::{Duration, Instant, SystemTime};

use super::timeouts::assert_timed_out;
use super::{Case, assert_soon, task_with};
use crate::support::trial::{count, open};
use crate::support::wait;

mod calls {
    #[delayed::task(name = "isolation.sleep", queue = "q", retry = 1)]
    pub(super) async fn sleep(n: String) {
        drop(n);
    }

    #[delayed::task(name = "isolation.who", queue = "q")]
    pub(super) async fn who(n: String) {
        drop(n);
    }
}

both! {
    what_is_due_already_does_not_run
    run_ends_when_its_call_expires
    the_nearer_of_both_ends_it
    it_may_pass_while_the_call_waits
    a_retry_does_not_move_it
}

/// A call of what sleeps, and expires in so many milliseconds.
fn due(n: &str, ms: u64) -> delayed::Call {
    calls::sleep::call(n.to_owned()).expires_at(SystemTime::now() + Duration::from_millis(ms))
}

fn what_is_due_already_does_not_run(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let past = SystemTime::now() - Duration::from_secs(60);
    // It may be retried forever, and will never be in time.
    let late = calls::who::call("late".into()).expires_at(past).retry(-1);
    let early = calls::who::call("early".into()).expires_at(SystemTime::now() + Duration::from_secs(3600));
    case.trial.push(&[late.encode().unwrap(), early.encode().unwrap()]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!((letter.reason.as_str(), letter.attempt.as_str()), ("expired", "1"), "{letter:?}");
    assert!(letter.detail.contains("it expired"), "{letter:?}");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    let lines = case.trial.ledger.lines();
    assert!(lines.len() == 1 && lines[0].contains("early"), "expected one run: {lines:?}");
}

fn run_ends_when_its_call_expires(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "1h", "--grace", "100ms"]);
    let began = Instant::now();
    case.trial.push(&[due("a", 1000).retry(0).encode().unwrap()]);
    case.wait_dead(1);
    assert!(began.elapsed() >= Duration::from_millis(900), "it took {:?}", began.elapsed());
    assert_soon(began, Duration::from_secs(20), "the end when it expires");
    assert_timed_out(&case.letter(), "soft", "SIGTERM");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["a"]);
}

fn the_nearer_of_both_ends_it(mode: &'static str) {
    let mut case = Case::new(mode, &["--grace", "100ms"]);
    let began = Instant::now();
    let short = due("short", 3_600_000).retry(0).timeout(Duration::from_millis(300));
    let near = due("near", 1000).retry(0).timeout(Duration::from_secs(3600));
    case.trial.push(&[short.encode().unwrap(), near.encode().unwrap()]);
    case.wait_dead(2);
    assert_soon(began, Duration::from_secs(20), "the end of both");
    for letter in case.letters() {
        assert_timed_out(&letter, "soft", "SIGTERM");
    }
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["near", "short"]);
}

fn it_may_pass_while_the_call_waits(mode: &'static str) {
    let mut case = Case::new(mode, &["--concurrency", "1"]);
    let gate = case.trial.gate("gate");
    case.trial.push(&[task_with("gated", &["held".into(), gate.to_str().unwrap().into()])]);
    case.trial.wait_runs(1);
    let expires = SystemTime::now() + Duration::from_millis(300);
    case.trial.push(&[calls::who::call("late".into()).expires_at(expires).encode().unwrap()]);
    wait::until("the call to expire", Duration::from_secs(30), || SystemTime::now() > expires);
    open(&gate);
    case.wait_dead(1);
    assert_eq!(case.letter().reason, "expired");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["+held", "-held"]);
}

#[test]
fn it_may_pass_while_the_call_waits_for_a_child() {
    let mut case = Case::new("prefork", &["--concurrency", "2", "--children", "1"]);
    let gate = case.trial.gate("gate");
    case.trial.push(&[task_with("gated", &["held".into(), gate.to_str().unwrap().into()])]);
    case.trial.wait_runs(1);
    let expires = SystemTime::now() + Duration::from_millis(300);
    case.trial.push(&[calls::who::call("late".into()).expires_at(expires).retry(-1).encode().unwrap()]);
    wait::until("both to be claimed", Duration::from_secs(30), || case.trial.state().processing.len() == 2);
    assert!(SystemTime::now() < expires, "expected the call to be claimed before it expires");
    wait::until("the call to expire", Duration::from_secs(30), || SystemTime::now() > expires);
    open(&gate);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!((letter.reason.as_str(), letter.attempt.as_str()), ("expired", "1"), "{letter:?}");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["+held", "-held"]);
}

fn a_retry_does_not_move_it(mode: &'static str) {
    let mut case = Case::new(mode, &["--grace", "100ms"]);
    case.trial.push(&[due("a", 1000).retry(1).encode().unwrap()]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!((letter.reason.as_str(), letter.attempt.as_str()), ("expired", "2"), "{letter:?}");
    case.end_with(&["q_dead"]);
    case.trial.ledger.assert_each_once(["a"]);
}
