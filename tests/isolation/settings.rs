//! Which settings of isolation are refused, and which are shown?

use std::process::Output;

use crate::support::process::DELAYED;
use crate::support::trial::{Trial, WORKER};

fn run(trial: &Trial, program: &str, words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = trial.command(program).args(words).output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.code(), said)
}

#[test]
fn mistakes_are_named_before_anything_runs() {
    let trial = Trial::new();
    let url = trial.server.url();
    for (word, value) in [
        ("--isolation", "frok"),
        ("--isolation", ""),
        ("--timeout", "soon"),
        ("--timeout", "-1s"),
        ("--timeout", "0s"),
        ("--grace", "a while"),
        ("--children", "0"),
        ("--children", "many"),
    ] {
        let argument = format!("{word}={value}");
        let (code, said) = run(&trial, WORKER, &["worker", "--redis", &url, "--burst", &argument]);
        assert!(matches!(code, Some(2 | 5)), "expected `{argument}` to be refused, not {code:?}: {said}");
        let name = word.trim_start_matches('-');
        assert!(said.contains(name), "expected {name:?} to be named: {said}");
    }
    super::nobody(&trial);
}

#[test]
fn a_call_cannot_be_sent_with_what_is_no_time() {
    let trial = Trial::new();
    let url = trial.server.url();
    for timeout in ["soon", "-1s"] {
        let argument = format!("--timeout={timeout}");
        let (code, said) =
            run(&trial, WORKER, &["enqueue", "isolation.who", "[\"a\"]", "--redis", &url, &argument]);
        assert_eq!(code, Some(2), "{said}");
    }
}

#[test]
fn what_holds_is_shown() {
    let trial = Trial::new();
    let words = ["config", "--json"];
    let mut command = trial.command(DELAYED);
    command.env("DELAYED_ISOLATION", "prefork").env("DELAYED_TIMEOUT", "7s");
    let config = command.args(words).output().unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config.stdout).unwrap();
    let of = |key: &str| {
        let setting = config.as_array().unwrap().iter().find(|setting| setting["key"] == key);
        setting.unwrap_or_else(|| panic!("expected {key} in {config}"))["value"].clone()
    };
    assert_eq!(of("worker.isolation"), "prefork");
    assert_eq!(of("worker.timeout"), "7s");
}

#[test]
fn a_program_that_only_enqueues_has_no_other_processes() {
    let trial = Trial::new();
    let (code, said) = run(&trial, WORKER, &["tasks"]);
    assert_eq!(code, Some(0), "{said}");
    super::nobody(&trial);
}
