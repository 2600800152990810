//! Registers a function that is called when this process calls `exit`, before all earlier exit handlers.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

extern "C" fn call_hook() {
    if let Some(hook) = HOOK.get() {
        // A panic must not leave this function. Its message was already printed.
        let _ = std::panic::catch_unwind(hook);
    }
}

/// Registers the function; later calls do nothing.
#[expect(unsafe_code, reason = "atexit")]
pub(crate) fn on_exit(hook: fn()) {
    if HOOK.set(hook).is_ok() {
        // SAFETY: The function lives as long as the program, and does not unwind. If there is no room for it, it is not
        // called.
        unsafe { libc::atexit(call_hook) };
    }
}
