//! Tracks whether a task is quick enough to be polled where it was claimed.
//!
//! If the first poll of a task is short, polling in place is cheaper than spawning. A task that computes long, or blocks,
//! would hold up every other slot. So a task is spawned at first, is polled in place after several quick polls, and is
//! spawned again after a single long poll.

use std::sync::atomic::{AtomicI8, Ordering};
use std::time::Duration;

/// A first poll of up to this length is quick.
const QUICK: Duration = Duration::from_micros(30);
/// A first poll of this length makes the task spawned again.
const SLOW: Duration = Duration::from_micros(300);
/// How many quick polls in a row are needed before a task is polled in place.
const EARN: i8 = -2;
const EARN_AGAIN: i8 = -64;

/// The state of one task. Below 0: the number of quick polls still needed.
#[derive(Debug)]
pub(crate) struct Speed(AtomicI8);

impl Speed {
    pub(crate) fn new() -> Self {
        Self(AtomicI8::new(EARN))
    }

    /// Whether the task may be polled in place.
    pub(crate) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 0
    }

    /// Records the duration of a first poll, or of a whole run of a blocking task.
    pub(crate) fn learn(&self, took: Duration) {
        let score = self.0.load(Ordering::Relaxed);
        let next = if took >= SLOW {
            EARN_AGAIN
        } else if score < 0 {
            if took <= QUICK { score + 1 } else { EARN.min(score) }
        } else {
            return;
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_earned_lost_and_hard_to_earn_again() {
        let speed = Speed::new();
        assert!(!speed.is_quick());
        speed.learn(Duration::from_micros(3));
        speed.learn(Duration::from_micros(3));
        assert!(speed.is_quick());
        speed.learn(Duration::from_micros(200));
        assert!(speed.is_quick(), "one that is only a little late stays");
        speed.learn(Duration::from_millis(1));
        assert!(!speed.is_quick());
        for _ in 0..63 {
            speed.learn(Duration::from_micros(3));
        }
        assert!(!speed.is_quick());
        speed.learn(Duration::from_micros(3));
        assert!(speed.is_quick());
    }
}
