//! A client goes on in a process that a program forks by itself.

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER};

fn run(trial: &Trial, kind: &str) {
    let mut command = trial.command(WORKER);
    command.env("PRODUCER", kind).env("REDIS", trial.server.url());
    let mut program = Program::spawn(&mut command);
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{kind}: {}", program.printed());
}

fn names(trial: &mut Trial) -> Vec<String> {
    let message = |bytes: &Vec<u8>| {
        delayed::__private::protocol::message::Message::decode(bytes).unwrap().task().to_owned()
    };
    let state = trial.state();
    assert!(state.waiting.iter().all(|bytes| message(bytes) == "trial.mark"));
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    state.waiting.iter().map(text).collect()
}

#[test]
fn client_of_a_parent_reconnects_in_its_children() {
    for (kind, expected) in [
        ("forks", &["parent 1", "child 1", "grandchild", "child 2", "parent 2"][..]),
        ("forks with a runtime", &["parent 1", "child 1", "child 2", "parent 2"]),
    ] {
        let mut trial = Trial::new();
        run(&trial, kind);
        let found = names(&mut trial);
        assert_eq!(found.len(), expected.len(), "{kind}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "expected {expected:?} in {found:?}");
        }
    }
}

#[test]
fn fork_while_others_enqueue_leaves_both_sides_whole() {
    let mut trial = Trial::new();
    run(&trial, "forks while it enqueues");
    let found = names(&mut trial);
    let sum = found.iter().find_map(|name| name.split_once("sum ")).expect("the sum");
    let sum: usize = sum.1.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert_eq!(found.len(), sum + 1, "expected each call once");
}
