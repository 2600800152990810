//! The memory of a run is what it uses itself, in all of its processes.

use super::{Case, task_with};
use crate::support::trial::count;

both! {
    mapped_files_do_not_count_as_memory
    memory_of_subprocesses_counts
    shared_memory_counts_and_counts_once
}

#[test]
fn leaks_of_other_runs_do_not_count() {
    let mut case = Case::new("prefork", &["--children", "1", "--concurrency", "1"]);
    let leaks = |n: usize, leaked: usize, used: usize| {
        task_with("leaks", &[n.to_string().into(), leaked.into(), used.into()])
    };
    let mut calls: Vec<_> = (0..5).map(|n| leaks(n, 10, 0)).collect();
    calls.push(leaks(5, 0, 2));
    // Each has all of its limit, after small leaks and large ones.
    for (n, leaked) in [6, 30, 6, 30].into_iter().enumerate() {
        calls.extend([leaks(10 + n, leaked, 0), leaks(20 + n, 0, 58)]);
    }
    case.trial.push(&calls);
    case.trial.wait_settled();
    assert!(case.letters().is_empty(), "{:#?}", case.letters());
    case.trial.push(&[leaks(30, 6, 0), leaks(31, 40, 40)]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "exceeded", "{letter:?}");
    assert!(letter.detail.contains("more than 67108864 bytes of memory"), "{letter:?}");
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), calls.len() as u64 + 1, "{stopped}");
}

fn pool(mode: &str) -> &'static [&'static str] {
    if mode == "prefork" { &["--children", "1"] } else { &[] }
}

fn mapped_files_do_not_count_as_memory(mode: &'static str) {
    let mut case = Case::new(mode, pool(mode));
    let file = case.trial.server.directory().join("large");
    std::fs::write(&file, vec![1; 200 << 20]).unwrap();
    case.trial.push(&[task_with("reads_mapped", &["a".into(), file.to_str().unwrap().into()])]);
    case.trial.wait_settled();
    assert!(case.letters().is_empty(), "{:#?}", case.letters());
    case.goes_on();
    case.end_with(&[]);
}

fn memory_of_subprocesses_counts(mode: &'static str) {
    let mut case = Case::new(mode, pool(mode));
    case.trial.push(&[task_with("subprocess_eats", &["a".into(), 200.into()])]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "exceeded", "{letter:?}");
    assert!(letter.detail.contains("bytes of memory"), "{letter:?}");
    case.trial.push(&[task_with("subprocess_eats", &["b".into(), 10.into()])]);
    case.trial.wait_settled();
    case.letter();
    case.end_with(&["q_dead"]);
}

fn shared_memory_counts_and_counts_once(mode: &'static str) {
    let mut case = Case::new(mode, pool(mode));
    // Three processes have the same 30 MB.
    case.trial.push(&[task_with("shares", &["a".into(), 30.into()])]);
    case.trial.wait_settled();
    assert!(case.letters().is_empty(), "{:#?}", case.letters());
    case.trial.push(&[task_with("shares", &["b".into(), 100.into()])]);
    case.wait_dead(1);
    assert_eq!(case.letter().reason, "exceeded");
    case.end_with(&["q_dead"]);
}
