//! Hooks for the outcome of a run, in every isolation.

use delayed::__private::protocol::encode::{Meta, native};
use redis::Commands;

use super::{ISOLATIONS, burst, inside, with_layers};
use crate::support::trial::{Trial, call, count, mark};

/// A worker with hooks that ends when all is done.
fn run(trial: &mut Trial, isolation: &str) -> (serde_json::Value, String) {
    let mut worker = with_layers("hooks", trial, &[&burst(isolation)[..], &["--concurrency", "1"]].concat());
    (trial.ended(&mut worker), worker.printed())
}

#[test]
fn hooks_are_told_of_success_failure_and_burial() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        trial.push(&[call("trial.mark", &["a".into()])]);
        run(&mut trial, isolation);
        trial.push(&[call("layers.fails", &[])]);
        run(&mut trial, isolation);
        let expected = [
            "a",
            "success trial.mark q 1 succeeded None None None true true",
            "failure layers.fails q 1 failed Some(\"it fails\") None Some(true) true true",
            "failure layers.fails q 2 failed Some(\"it fails\") None None true true",
            "burial layers.fails q 2 failed Some(\"it fails\") None None true true",
        ];
        let lines: Vec<String> = trial.ledger.lines().iter().map(|line| without_usage(line)).collect();
        assert_eq!(lines, expected, "{isolation}");
    }
}

/// The error without what its process used.
fn without_usage(line: &str) -> String {
    match line.split_once(" (0.") {
        Some((begin, rest)) => format!("{begin}{}", rest.split_once(')').unwrap().1),
        None => line.to_owned(),
    }
}

#[test]
fn burials_without_a_run_have_no_failure() {
    let mut trial = Trial::new();
    let late = native("trial.mark", b"\xa1a", &Meta { expires_ms: Some(1), ..Meta::default() });
    trial.push(&[b"\x93\x05".to_vec(), call("nobody", &[]), call("trial.mark", &[]), late]);
    run(&mut trial, "inline");
    let lines = trial.ledger.lines();
    let begins = |line: &str| line.split(" Some(").next().unwrap().to_owned();
    let expected = [
        "burial  q 1 malformed",
        "burial nobody q 1 unknown",
        "burial trial.mark q 1 arguments",
        "burial trial.mark q 1 expired",
    ];
    assert_eq!(lines.iter().map(|line| begins(line)).collect::<Vec<_>>(), expected);
    assert!(lines.iter().all(|line| line.ends_with("None None true false")), "{lines:?}");
}

#[test]
fn burial_hook_is_told_of_calls_that_a_sweep_buries() {
    let mut trial = Trial::new();
    let poison = inside("trial.mark", "a", &[("tenant", "acme")]);
    let dead = "a".repeat(16);
    let died = redis::Script::new(
        "local at = redis.call('TIME')[1] - 60
        redis.call('HSET', KEYS[1], redis.sha1hex(ARGV[1]), '2 ' .. at .. '000 =;' .. ARGV[2] .. ':0!2 q:w q:v')",
    );
    let () = died.key("q_deaths").arg(&poison).arg(&dead).invoke(&mut trial.redis).unwrap();
    let () = trial.redis.hset("q_processing", format!("q:{dead}:0"), poison).unwrap();
    let (stopped, log) = run(&mut trial, "inline");
    assert_eq!((trial.reasons(), count(&stopped, "succeeded")), (vec!["lost".to_owned()], 0), "{log}");
    let lines = trial.ledger.lines();
    let [line] = lines.as_slice() else { panic!("expected one burial: {lines:?}\n{log}") };
    assert!(line.starts_with("burial trial.mark q 1 lost Some(\""), "{line}");
    assert!(line.ends_with(") Some(\"acme\") None true false"), "{line}");
}

#[test]
fn snoozed_runs_are_no_failures() {
    let mut trial = Trial::new();
    let file = trial.gate("never");
    trial.push(&[call("trial.snoozes", &["a".into(), file.to_str().unwrap().into()])]);
    run(&mut trial, "inline");
    // It may have run more than once.
    let lines = trial.ledger.lines();
    assert!(!lines.is_empty() && lines.iter().all(|line| line == "a 1"), "{lines:?}");
}

#[test]
fn hook_that_panics_is_logged_and_the_others_are_called() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        trial.push(&[inside("trial.mark", "a", &[("tenant", "acme")]), mark("b")]);
        let (stopped, log) = run(&mut trial, isolation);
        assert_eq!((count(&stopped, "succeeded"), log.matches("\"hook panicked\"").count()), (2, 1), "{log}");
        assert!(log.contains("a hook panics"), "{log}");
        let told = "success trial.mark q 1 succeeded None Some(\"acme\") None true true";
        assert!(trial.ledger.lines().iter().any(|line| line == told), "{:?}", trial.ledger.lines());
        trial.assert_only(&[]);
    }
}
