//! Says how to see the log of a worker in a program that has no subscriber for it.

use std::sync::Once;

use crate::sys::streams::write_error_line;

/// The hint, for the author of the program.
const HINT: &str = "delayed: this program has no subscriber of `tracing`, so the worker's log is lost; to see it, call \
                    tracing_subscriber::fmt().init() first in main";

/// Writes the hint to standard error, once per process, if there is no subscriber.
pub(super) fn show_without_subscriber() {
    static SHOWN: Once = Once::new();
    if !tracing::dispatcher::has_been_set() {
        SHOWN.call_once(|| write_error_line(HINT));
    }
}
