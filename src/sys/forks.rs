//! Tracks, without a system call, whether this process was forked from the one in which a value was created.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The number of forks between this process and the one that called this first. A value created at another number belongs
/// to an ancestor: its threads do not exist here, and its connections are not those of this process.
#[expect(unsafe_code, reason = "a handler that runs in each forked child")]
pub(crate) fn generation() -> u64 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: The handler runs in a child right after the fork, where only async-signal-safe operations are allowed: it
        // adds to an atomic number. It is a function of this program, which is not unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(count)) };
        debug_assert_eq!(refused, 0, "no memory for a handler");
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
