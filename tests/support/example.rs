//! A program of `examples`, which is up to date in a run of all tests and is built in a run of a few.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::root;

/// Where the example of that name is.
pub(crate) fn example(name: &'static str) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap();
    built.get_or_insert_default().entry(name).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--all-features", "--example", name]);
    command.args(["--message-format", "json-render-diagnostics"]).current_dir(root());
    // What cargo tells a test about its package would make build scripts run again, and all that depends on them.
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|of| name.to_string_lossy().starts_with(of));
        if is_of_package {
            command.env_remove(name);
        }
    }
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.stderr(Stdio::inherit()).output().expect("expected to start cargo");
    assert!(output.status.success(), "expected the example {name} to compile");
    let lines = String::from_utf8(output.stdout).unwrap();
    let built = lines.lines().find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let ours = line["target"]["name"] == name;
        line["executable"].as_str().filter(|_| ours).map(PathBuf::from)
    });
    built.expect("expected cargo to say where the example is")
}
