//! Notification tokens.

/// A notification, as all languages write it.
pub(super) const TOKEN: &[u8] = b"1";

/// Where the token is that a worker was woken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Popped: only the worker knows of it.
    Popped,
    /// In the queue's hand, unless another worker has taken it from there: they are all alike.
    Moved,
}
