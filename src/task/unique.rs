//! Says for how long a call is unique.

use std::time::Duration;

/// Which calls count as the same: a second one is not enqueued while the first holds the lock. See [`Call::unique`](crate::Call::unique).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// Until the first one begins to run.
    UntilStarted,
    /// Until the first one has ended: succeeded, become a dead letter, expired, or been cancelled. It keeps the lock while it
    /// waits for a retry.
    UntilDone,
    /// For this time from the enqueue of the first one, however it ends.
    For(Duration),
    /// While the first one is scheduled, a second one takes its place: with its own arguments and due time, and the id of the
    /// first.
    Replace,
}
