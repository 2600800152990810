//! Where is the Go program that has the ancestor's module?

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program of `tests/peers/go`, built when it is first asked for.
pub(crate) fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let source = super::root().join("tests/peers/go");
    assert!(source.join("go.mod").is_file(), "expected a Go module in {}", source.display());
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let built = place.join("delayed-go");
    // Another test process may be running the old one: what is built is moved into its place.
    let fresh = place.join(format!("delayed-go.{}", std::process::id()));
    let output = Command::new("go").arg("build").arg("-o").arg(&fresh).arg(".").current_dir(&source).output();
    let output = output.unwrap_or_else(|error| {
        panic!("expected to start `go` ({error}): run scripts/test, which installs it")
    });
    assert!(
        output.status.success(),
        "expected `go build` to succeed in {}: run scripts/test, which installs it\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&fresh, &built).expect("expected to move the built program into its place");
    built
}
