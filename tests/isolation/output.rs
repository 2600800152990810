//! What a child wrote last is kept with its failure, as far as there is room.

use super::{Case, task, task_with};
use crate::support::trial::count;

both! {
    a_failure_keeps_what_was_written_last
    much_output_is_shortened
    a_run_has_nothing_of_the_one_before
}

fn a_failure_keeps_what_was_written_last(mode: &'static str) {
    let mut case = Case::new(mode, &["--timeout", "500ms", "--grace", "100ms"]);
    let names = ["prints_and_fails", "prints_and_hangs", "prints_and_aborts", "panics"];
    let expected = [&["out of 0", "err of 0"][..], &["half a li"], &["the last words"], &["there is no 3"]];
    for (n, (name, expected)) in names.into_iter().zip(expected).enumerate() {
        case.trial.push(&[task(name, &n.to_string())]);
        case.wait_dead(n + 1);
        let letter = case.letters().remove(n);
        for text in expected {
            assert!(letter.output.contains(text), "expected {text:?} in the output: {letter:?}");
        }
    }
    let shown = case
        .trial
        .command(crate::support::process::DELAYED)
        .args(["dead", "list", "--queue", "q", "--json", "--redis", &case.trial.server.url()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("half a li"), "expected the operator to see it: {shown}");
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn much_output_is_shortened(mode: &'static str) {
    // A line in the log for each line would be the test's slowest part.
    let mut case = Case::new(mode, &["--log-level", "warn,delayed=info,delayed::output=off"]);
    let before = case.family[0].kilobytes("VmHWM");
    case.trial.push(&[task_with("prints_much", &["a".into(), (30_u64 << 20).into()])]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "failed", "{}", letter.detail);
    let length = letter.output.len();
    assert!((100..=1 << 20).contains(&length), "expected its beginning and end, not {length} bytes");
    assert!(letter.output.trim_end().ends_with("the last words"), "{}", &letter.output[length - 100..]);
    let now = case.family[0].kilobytes("VmHWM");
    assert!(now < before + 20_000, "expected the worker to keep its size: {before} kB became {now} kB");
    case.goes_on();
    case.end_with(&["q_dead"]);
    assert_eq!(case.trial.ledger.executions()["a"], 1);
}

fn a_run_has_nothing_of_the_one_before(mode: &'static str) {
    let pool: &[&str] = if mode == "prefork" { &["--children", "1"] } else { &[] };
    let mut case = Case::new(mode, &[&["--concurrency", "1"][..], pool].concat());
    for n in 0..10 {
        case.trial.push(&[task("prints", &format!("p{n}")), task("prints_and_fails", &format!("f{n}"))]);
    }
    case.wait_dead(10);
    for (n, letter) in case.letters().into_iter().enumerate() {
        let own = [format!("out of f{n}"), format!("err of f{n}"), format!("rest of f{n}")];
        assert!(own.iter().all(|text| letter.output.contains(text)), "{letter:?}");
        assert_eq!(letter.output.lines().filter(|line| !line.is_empty()).count(), 3, "{letter:?}");
    }
    let stopped = case.end_with(&["q_dead"]);
    assert_eq!(count(&stopped, "succeeded"), 10, "{stopped}");
}

/// Also where a child begins the next run before its worker has heard of the end of this one.
#[test]
fn each_of_many_quick_runs_has_its_own() {
    let mut case = Case::new("prefork", &["--concurrency", "64", "--children", "1"]);
    let calls: Vec<_> = (1..=2_500).map(|n| task_with("prints_and_may_fail", &[n.into()])).collect();
    case.trial.push(&calls);
    case.wait_dead(calls.len() / 10);
    for letter in case.letters() {
        let number = letter
            .detail
            .split_whitespace()
            .next()
            .unwrap_or_else(|| panic!("expected a number: {letter:?}"));
        assert_eq!(letter.output, format!("out of {number}\nerr of {number}\n"), "{letter:?}");
    }
    case.end_with(&["q_dead"]);
}
