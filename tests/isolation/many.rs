//! A thousand tasks that hang, a sixteenth of them at a time: nothing of them is left.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Case, GONE, task};
use crate::support::tree::Process;
use crate::support::trial::{alone, count};
use crate::support::wait;

const CALLS: usize = 1000;

both! {
    a_thousand_that_hang_are_killed_and_settled
}

/// What the worker, its subreaper and its zygote have open while there are no children; none while there are, which it ends.
fn descriptors_without_pool(case: &Case) -> Option<Vec<usize>> {
    let children = case.children();
    for child in &children {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(child.pid), Signal::SIGKILL);
    }
    children.is_empty().then(|| case.family.iter().map(Process::descriptors).collect())
}

fn a_thousand_that_hang_are_killed_and_settled(mode: &'static str) {
    let _alone = alone();
    let pool = if mode == "prefork" { &["--children", "16"][..] } else { &[] };
    let words =
        ["--concurrency", "16", "--timeout", "100ms", "--grace", "30ms", "--log-level", "warn,delayed=info"];
    let mut case = Case::new(mode, &[&words[..], pool].concat());
    // All that is opened once is open then.
    case.goes_on();
    case.trial.push(&[task("sleep", "warm"), task("deaf", "warm")]);
    case.wait_dead(2);
    case.wait_rest();
    let open = wait::until_some("the pool to be empty", GONE, || descriptors_without_pool(&case));
    let began = Instant::now();
    // One in four does not end by SIGTERM.
    let name = |n: usize| ["sleep", "deaf", "sleep_blocking", "sleep"][n % 4];
    let calls: Vec<Vec<u8>> = (0..CALLS).map(|n| task(name(n), &format!("n{n}"))).collect();
    case.trial.push(&calls);
    case.wait_dead(CALLS + 2);
    println!("{mode}: {CALLS} that hang for 100 ms, 16 at a time, took {:?}", began.elapsed());
    case.wait_rest();
    let letters = case.letters();
    assert_eq!(letters.len(), CALLS + 2);
    let other: Vec<_> = letters.iter().filter(|letter| letter.reason != "timed_out").collect();
    assert!(other.is_empty(), "expected all to have timed out: {other:#?}");
    let names: std::collections::HashSet<Vec<u8>> =
        case.trial.state().dead.into_iter().map(|mut letter| letter.remove("message").unwrap()).collect();
    assert!(calls.iter().all(|call| names.contains(call)), "expected each call to be dead");
    // A run whose time was up before its first line left none; none ran twice.
    let executions = case.trial.ledger.executions();
    let twice: Vec<_> = executions.iter().filter(|(n, runs)| n.starts_with('n') && **runs > 1).collect();
    assert!(twice.is_empty(), "expected no second runs: {twice:?}");
    // A connection that comes and goes is none of it.
    wait::until_ok(GONE, || match descriptors_without_pool(&case) {
        Some(now) if now.iter().zip(&open).all(|(now, open)| now <= open) => Ok(()),
        now => Err(format!(
            "worker, subreaper and zygote to have as many descriptors as before: {open:?}, not {now:?}"
        )),
    });
    case.goes_on();
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "buried"), CALLS as u64 + 2, "{stopped}");
}
