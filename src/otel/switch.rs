//! Whether this process makes spans.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether spans are made. Off costs an enqueue and a run one relaxed load each.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The name of the instrumentation scope.
pub(super) const SCOPE: &str = "delayed";

/// Makes the spans of this process with the global tracer provider of `opentelemetry`, which the program has set and shuts down.
/// Without a provider they have no ids, and nothing changes.
///
/// Start a [`Zygote`](crate::Zygote) first: the provider has a thread. Child processes make no spans; their runs have one in the
/// worker.
pub fn enable() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Makes no more spans. Those that were begun still end.
pub fn disable() {
    IS_ON.store(false, Ordering::Relaxed);
}

#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}
