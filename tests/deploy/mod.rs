//! Are the files of `deploy/` right? Tools that read such files check them.

mod monitoring;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::root;

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
