//! The example: a task that hangs, one that eats memory and one that segfaults end, and the one beside them is well.

use super::{letters, nobody};
use crate::support::example::example;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, call};

#[test]
fn what_hangs_eats_memory_or_segfaults_ends_as_what_it_is() {
    let mut trial = Trial::new();
    let task = |name: &str| call(&format!("timeouts::tasks::{name}"), &[]);
    trial.push(&[task("hang"), task("eat"), task("crash"), call("timeouts::tasks::greet", &["you".into()])]);
    let program = example("timeouts");
    let mut command = trial.command(program.to_str().unwrap());
    let url = trial.server.url();
    command.args(["worker", "--burst", "--queue", "q", "--concurrency", "4", "--redis", url.as_str()]);
    let mut worker = Program::spawn(&mut command);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
    nobody(&trial);
    worker.wait_for_line("Hello, you!");

    let mut ends: Vec<(String, String, String)> = letters(&mut trial)
        .into_iter()
        .map(|letter| (letter.task.replace("timeouts::tasks::", ""), letter.reason, letter.detail))
        .collect();
    ends.sort();
    let expected = [
        ("crash", "crashed", "", "SIGSEGV"),
        ("eat", "exceeded", "used more than 67108864 bytes of memory", ""),
        ("hang", "timed_out", "timed out (soft) after ", "s, ended by SIGTERM"),
    ];
    assert_eq!(ends.len(), expected.len(), "{ends:#?}");
    for ((task, reason, detail), wanted) in ends.iter().zip(expected) {
        assert_eq!((&**task, &**reason), (wanted.0, wanted.1), "{detail}");
        assert!(detail.starts_with(wanted.2) && detail.contains(wanted.3), "expected {wanted:?}: {detail}");
    }
    trial.assert_only(&["q_dead"]);
}
