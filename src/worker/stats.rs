//! What has a worker done so far?

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one worker, shared with whoever watches it.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        /// What a worker has done since it started.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Messages that it claimed.
    claimed,
    /// Runs that succeeded.
    succeeded,
    /// Runs that failed, panicked, or were made to end.
    failed,
    /// Messages that it queued for another attempt.
    retried,
    /// Messages that it put off, since their tasks snoozed.
    snoozed,
    /// Calls that were cancelled, and that it did not run, or ended.
    cancelled,
    /// Messages that it sent to the dead letters.
    buried,
    /// Messages that it put back unchanged.
    put_back,
    /// Runs that went on after their time was up, since nothing could stop them.
    overdue,
    /// Messages that were taken away from it because its lease had ended.
    lost,
}

/// Adds to a counter. Relaxed: counters are read by people.
pub(super) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
