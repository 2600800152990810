//! Counts how the calls of a queue end, until the counts are written to its history.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::history::KINDS;

/// How many calls have succeeded, failed, and become dead letters since the last write.
#[derive(Debug, Default)]
pub(in crate::worker) struct Tally([AtomicU64; KINDS.len()]);

impl Tally {
    /// Counts a call: whether it has succeeded, failed, and become a dead letter.
    pub(in crate::worker) fn add(&self, what: [bool; KINDS.len()]) {
        for (count, _) in self.0.iter().zip(what).filter(|(_, is_so)| *is_so) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the counts.
    pub(in crate::worker) fn take(&self) -> [u64; KINDS.len()] {
        self.0.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Gives back counts that could not be written.
    pub(in crate::worker) fn give_back(&self, counts: [u64; KINDS.len()]) {
        for (count, back) in self.0.iter().zip(counts) {
            count.fetch_add(back, Ordering::Relaxed);
        }
    }
}
