//! Counts the connections that clients of this process have made.
//!
//! A client that a task uses opens descriptors and starts threads that later runs also use, so they do not count as
//! leftovers of a run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Counts a connection of a client.
#[cfg(feature = "client")]
pub(crate) fn add() {
    SESSIONS.fetch_add(1, Relaxed);
}

/// How often clients have connected.
pub(crate) fn count() -> u64 {
    SESSIONS.load(Relaxed)
}
