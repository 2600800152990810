//! Says what happens when a queue with a bound is full.

/// What becomes of a call for a queue in which [as many as may](crate::Call::max_len) wait. See [`Call::overflow`](crate::Call::overflow).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The call is refused: [`Error::QueueFull`](crate::Error::QueueFull).
    #[default]
    Reject,
    /// The oldest waiting call becomes a dead letter with the reason `overflow`, and the new one takes its place.
    BuryOldest,
}
