//! The examples print what they say.

use std::process::Command;

use crate::support::example::example;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial};
use crate::support::{python, root};

#[test]
fn life_of_a_call_prints_what_became_of_its_calls() {
    let trial = Trial::new();
    let program = example("life_of_a_call");
    let mut command = trial.command(program.to_str().unwrap());
    let output = command.arg(trial.server.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    let [twice, cancelled, paid, why] = lines[..] else { panic!("expected four lines: {printed}") };
    let expected = ["charged twice: false", "the reminder was Scheduled", "order 7 was paid in attempt 3"];
    assert_eq!([twice, cancelled, paid], expected);
    assert!(why.starts_with(&format!("the reminder: the call was cancelled by {host}/")), "{why}");
}

#[test]
fn life_of_a_call_in_python_prints_what_became_of_its_calls() {
    let trial = Trial::new();
    let (url, program) = (trial.server.url(), example("quickstart"));
    let words = ["worker", "--queue", "default", "--redis", &url];
    let mut worker = Program::start(program.to_str().unwrap(), words);
    let mut command = Command::new(python::interpreter());
    command.arg(root().join("examples/python_caller/life_of_a_call.py")).arg(&url);
    command.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut caller = Program::spawn(&mut command);
    let status = caller.wait_exit(PATIENCE);
    let printed = caller.printed();
    assert!(status.success(), "{printed}");
    let lines: Vec<&str> = printed.lines().collect();
    let [sum, twice, cancelled, exists, why] = lines[..] else { panic!("expected five lines: {printed}") };
    let expected =
        ["1 + 2 is 3", "3 + 4 is enqueued twice: False", "it was scheduled", "order:7 is scheduled already"];
    assert_eq!([sum, twice, cancelled, exists], expected);
    assert!(why.starts_with("order:7 was cancelled by "), "{why}");
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(worker.wait_exit(PATIENCE).success(), "{}", worker.printed());
}
