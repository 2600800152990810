//! A wall clock that differs: a library for `LD_PRELOAD`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::Program;
use super::root;

/// Compiles it into a directory.
pub(crate) fn build(directory: &Path) -> PathBuf {
    let built = directory.join("skew.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&built).arg(root().join("tests/chaos/skew.c"));
    let mut compiler = Program::spawn(&mut command);
    let status = compiler.wait_exit(Duration::from_secs(60));
    assert!(status.success(), "expected to compile the clock that differs:\n{}", compiler.printed());
    built
}
