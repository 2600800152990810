//! A program of `examples`, which is up to date in a run of all tests and is built in a run of a few.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::root;

/// Builds one program at a time: another build replaces those of the same name.
pub(crate) fn alone() -> MutexGuard<'static, Option<HashMap<&'static str, PathBuf>>> {
    static BUILT: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    BUILT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the example of that name is: a file of our own, which no other build replaces.
pub(crate) fn example(name: &'static str) -> PathBuf {
    let mut built = alone();
    built.get_or_insert_default().entry(name).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--workspace", "--all-features", "--example", name]);
    command.args(["--message-format", "json-render-diagnostics"]).current_dir(root());
    forget_run(&mut command);
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
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let new = own.with_extension(std::process::id().to_string());
    std::fs::hard_link(built.expect("expected cargo to say where the example is"), &new).unwrap();
    std::fs::rename(&new, &own).unwrap();
    // It stays if both are the same file.
    let _ = std::fs::remove_file(new);
    own
}

/// Takes away what cargo and `scripts/timed` tell a test: build scripts would run again, and all that depends on them.
pub(crate) fn forget_run(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let is_for_test = ["CARGO_MANIFEST_", "CARGO_PKG_", "RUSTC_BOOTSTRAP"]
            .iter()
            .any(|of| name.to_string_lossy().starts_with(of));
        if is_for_test {
            command.env_remove(name);
        }
    }
}
