//! Are the files of `deploy/` right? Tools that read such files check them.

mod containers;
mod image;
mod kubernetes;
mod live;
mod monitoring;
mod package;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{python, root};

fn path(file: &str) -> PathBuf {
    root().join("deploy").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("expected deploy/{file}: {error}"))
}

/// Runs a tool, which has to succeed. Returns what it prints.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let tool = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{tool}: {error}: `scripts/install --tools` installs it"));
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}: {printed}", output.status);
    printed
}

/// The documents of a file in YAML, read by Python.
#[track_caller]
fn yaml(file: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let printed = succeed(Command::new(python::interpreter()).args(["-c", script]).arg(path(file)));
    serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("expected documents in {file}: {error}: {printed}"))
}

/// The texts of an array; none if there is no array.
fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap_or_else(|| panic!("expected a text: {item}")).to_owned()).collect()
}

/// For how many seconds a worker that stops lets calls run, by default.
fn shutdown() -> u64 {
    delayed::config::WorkerConfig::default().shutdown.as_secs()
}
