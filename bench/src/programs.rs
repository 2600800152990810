//! How is the program of a system started? `bench/run` has put what it needs into `.peers`.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stands for the version of one that is not there.
pub const MISSING: &str = "not installed: see bench/run";

/// A program that knows the words of `peers/README.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// This program: its `worker` is that of any program whose `main` is `delayed::main()`.
    This,
    /// The program of `embedded/`.
    Embedded,
    /// This program: a bare loop, or what its word says.
    Bare(&'static str),
    /// `peers/<name>/peer.py`, in an environment of its own.
    Python(&'static str),
    /// `peers/<name>/peer.mjs`
    Node(&'static str),
    /// `.peers/bin/<name>`, in Go or Rust.
    Built(&'static str),
}

impl Program {
    /// The program of a peer, without its words.
    pub fn command(self) -> Command {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let peer = |name: &str, file: &str| bench.join("peers").join(name).join(file);
        match self {
            Self::This | Self::Bare(_) => Command::new(std::env::current_exe().expect("this program")),
            Self::Python(name) => {
                let mut command = Command::new(bench.join(".peers").join(name).join("bin/python"));
                command.arg(peer(name, "peer.py"));
                command.env("PYTHONPATH", bench.join("peers/python")).env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Self::Node(name) => {
                let mut command = Command::new("node");
                command.arg(peer(name, "peer.mjs")).env("NODE_ENV", "production");
                command
            }
            Self::Embedded => Command::new(embedded()),
            Self::Built(name) => Command::new(bench.join(".peers/bin").join(name)),
        }
    }

    /// What it is a version of, when it is there.
    pub fn version(self) -> Option<String> {
        let ours = match self {
            Self::This | Self::Bare(_) => Some(std::env::current_exe().expect("this program")),
            Self::Embedded => Some(embedded()),
            _ => None,
        };
        if let Some(program) = ours {
            return Some(format!("{}, build {:08x}", env!("CARGO_PKG_VERSION"), build(&program)?));
        }
        let output = self.command().arg("version").output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().into())
    }
}

/// A number that tells this build of a program from others, when it is there.
fn build(program: &Path) -> Option<u32> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(program).ok()?);
    Some(hasher.finish() as u32)
}

fn embedded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("embedded/target/release/bench-embedded")
}

/// Where files that are mapped are not written to a disk.
pub fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.into() } else { std::env::temp_dir() }
}
