//! Notification tokens.

/// A token, as all languages write it.
pub(super) const TOKEN: &[u8] = b"1";

/// Where the token is that woke a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Popped: only the worker knows it.
    Popped,
    /// In `Q_hand`, unless another worker has taken it from there. All tokens are alike.
    Moved,
}
