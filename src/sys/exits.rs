//! Registers a function that is called when this process calls `exit`, before all earlier exit handlers.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

extern "C" fn call_hook() {
    if let Some(hook) = HOOK.get() {
        // A panic must not leave this function; its message was printed.
        let _ = std::panic::catch_unwind(hook);
    }
}

/// Registers the function; later calls do nothing.
#[expect(unsafe_code, reason = "atexit")]
pub(crate) fn on_exit(hook: fn()) {
    if HOOK.set(hook).is_ok() {
        // SAFETY: The function is there as long as the program, and does not unwind. Without room for it, nothing is said.
        unsafe { libc::atexit(call_hook) };
    }
}
