//! What tests stand on: a Redis of their own, processes, a ledger of executions.

#![allow(dead_code, reason = "a kit: not every tool is in use at every time")]

pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod example;
pub(crate) mod go;
pub(crate) mod http;
pub(crate) mod ledger;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod python;
pub(crate) mod redis;
pub(crate) mod sentinel;
pub(crate) mod skew;
pub(crate) mod tree;
pub(crate) mod trial;
pub(crate) mod wait;

use std::path::{Path, PathBuf};

/// A directory of one test, removed at its end. Near the root: a socket's path has at most about 100 bytes.
pub(crate) fn directory() -> tempfile::TempDir {
    let place = std::env::temp_dir();
    let place = if place.as_os_str().len() > 60 { PathBuf::from("/tmp") } else { place };
    let builder = tempfile::Builder::new().prefix("delayed-").tempdir_in(&place);
    builder.unwrap_or_else(|error| panic!("expected to make a directory in {}: {error}", place.display()))
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the variable `DELAYED_TEST_FULL` asks for more calls, more cases, and every test on each server.
pub(crate) fn is_full() -> bool {
    std::env::var_os("DELAYED_TEST_FULL").is_some()
}

/// Whether the variable `DELAYED_TEST_QUICK` asks for fewer random cases: for those that are tried again on other servers.
pub(crate) fn is_quick() -> bool {
    std::env::var_os("DELAYED_TEST_QUICK").is_some()
}

/// How many random cases to try of the usual number.
pub(crate) fn cases(usual: u32) -> u32 {
    if is_quick() { usual / 4 } else { usual }
}
