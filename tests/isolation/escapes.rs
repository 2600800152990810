//! A task may go over into another group, be deaf to all, or become another program: it ends when it must all the same.

use nix::sys::signal::Signal;

use super::timeouts::assert_timed_out;
use super::{Case, exit_code, task, task_with};
use crate::support::trial::count;

both! {
    whatever_it_made_of_its_process_it_is_killed_on_time
    a_task_in_another_group_hears_that_it_should_end
    whoever_is_killed_nobody_who_cut_loose_is_left
    a_task_that_becomes_another_program_has_crashed
    a_thread_of_the_tasks_may_panic_or_go_on
}

fn whatever_it_made_of_its_process_it_is_killed_on_time(mode: &'static str) {
    // Long enough for each to have begun on a machine that is busy.
    let mut case = Case::new(mode, &["--timeout", "2s", "--grace", "100ms"]);
    let cases = [
        ("leaves_group", "soft", "SIGTERM"),
        ("cuts_loose", "soft", "SIGTERM"),
        ("blocks_signals", "hard", "SIGKILL"),
        ("stops_group", "hard", "SIGKILL"),
    ];
    case.trial.push(&cases.map(|(name, ..)| task(name, name)));
    case.wait_dead(4);
    for letter in case.letters() {
        let (_, limit, signal) = cases.into_iter().find(|(name, ..)| letter.task.ends_with(name)).unwrap();
        assert_timed_out(&letter, limit, signal);
    }
    case.wait_rest();
    case.goes_on();
    case.end_with(&["q_dead"]);
    let executions = case.trial.ledger.executions();
    assert!(cases.iter().all(|(name, ..)| executions[*name] == 1), "{executions:?}");
}

fn a_task_in_another_group_hears_that_it_should_end(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "2s", "--grace", "1h"]);
    case.trial.push(&[task("leaves_group_and_hears", "a")]);
    case.trial.wait_settled();
    let stopped = case.end_with(&[]);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    case.trial.ledger.assert_each_once(["+a", "-a"]);
}

fn whoever_is_killed_nobody_who_cut_loose_is_left(mode: &'static str) {
    for victim in 0..3 {
        let mut case = Case::new(mode, &[]);
        let calls = ["a", "b", "c"].map(|n| task("cuts_loose", n));
        case.trial.push(&calls);
        case.trial.wait_runs(3);
        case.family[victim].signal(Signal::SIGKILL);
        assert_ne!(exit_code(&mut case.worker), Some(0), "{}", case.worker.printed());
        case.nobody();
        let state = case.trial.state();
        let left = state.waiting.len() + state.processing.len();
        assert_eq!((left, state.dead.len()), (3, 0), "expected no call to be lost: {state:#?}");
        case.trial.ledger.assert_each_once(["a", "b", "c"]);
    }
}

fn a_task_that_becomes_another_program_has_crashed(mode: &'static str) {
    let mut case = Case::new(mode, &[]);
    let cases = [
        ("exit 0", "ended with code 0"),
        ("exit 3", "ended with code 3"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exec sleep 1011", "closed its pipe to the worker without exiting"),
    ];
    for (n, (script, story)) in cases.into_iter().enumerate() {
        case.trial.push(&[task_with("becomes", &[script.into(), script.into()])]);
        case.wait_dead(n + 1);
        let letter = case.letters().remove(n);
        assert_eq!(letter.reason, "crashed", "{letter:?}");
        assert!(letter.detail.contains(story), "expected {story:?}: {letter:?}");
    }
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn a_thread_of_the_tasks_may_panic_or_go_on(mode: &'static str) {
    let mut case = Case::new(mode, &["--concurrency", "1"]);
    case.trial.push(&["a", "b", "c"].map(|n| task("panics_in_thread", n)));
    case.trial.wait_settled();
    let stopped = case.end_with(&[]);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "retried")), (3, 0), "{stopped}");
    case.trial.ledger.assert_each_once(["a", "b", "c"]);
}
