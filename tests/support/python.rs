//! Python: the interpreter that has the ancestor's package, and the program that follows calls.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::process::Program;
use super::root;
use super::trial::{PATIENCE, Trial};

/// Words for [`follow`], of a `Queue` and an `AsyncQueue`.
pub(crate) const QUEUES: [&[&str]; 2] = [&[], &["--asyncio"]];

/// The interpreter of `DELAYED_TEST_PYTHON`, else of `.venv` in the root of the repository.
pub(crate) fn interpreter() -> PathBuf {
    let given = std::env::var_os("DELAYED_TEST_PYTHON").map(PathBuf::from);
    let python = given.unwrap_or_else(|| root().join(".venv/bin/python"));
    assert!(
        python.is_file(),
        "expected the tests' Python at {}: run scripts/test, which installs it",
        python.display()
    );
    python
}

/// Has a Python program do what `lines` say. Returns what it says of each.
#[track_caller]
pub(crate) fn follow(trial: &Trial, more: &[&str], lines: &[Value]) -> Vec<Value> {
    let input = trial.server.directory().join("lines");
    let texts: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(&input, texts.join("\n")).unwrap();
    let mut command = Command::new(interpreter());
    command.arg(root().join("tests/peers/python/follow.py"));
    command.args(["--queue", "q", "--redis", &trial.server.url()]).args(more);
    command.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut program = Program::fed(&mut command, File::open(&input).unwrap());
    let status = program.wait_exit(PATIENCE);
    let printed = program.printed();
    assert!(status.success(), "expected Python to end well:\n{printed}");
    let said: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(said.len(), lines.len(), "expected a line of each:\n{printed}");
    said
}
