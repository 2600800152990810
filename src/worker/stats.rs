//! Counts what a worker has done.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one worker, shared with its observers.
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
    /// Messages that the worker claimed.
    claimed,
    /// Runs that succeeded.
    succeeded,
    /// Runs that failed, panicked, or were stopped.
    failed,
    /// Messages that the worker queued for another attempt.
    retried,
    /// Messages that the worker deferred because their tasks snoozed.
    snoozed,
    /// Cancelled calls that the worker did not run, or stopped.
    cancelled,
    /// Messages that the worker moved to the dead letters.
    buried,
    /// Messages that the worker put back unchanged.
    put_back,
    /// Runs that continued past their deadlines because nothing could stop them.
    overdue,
    /// Messages that the worker lost because its lease had ended.
    lost,
}

/// Adds to a counter. Relaxed: counters are read by people.
pub(super) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
