//! Decides which refusals are written into the audit log: there may be very many.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval between two entries. Refusals in between are counted.
const PERIOD: Duration = Duration::from_secs(1);

/// When a refusal was written last, and how many there were since.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<(Option<Instant>, u64)>);

impl Refusals {
    /// Whether one may be written, and how many were not since the last one.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, others) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < PERIOD) {
            *others += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_written_once_a_second_and_counted() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        assert_eq!([now, now, now].map(|now| refusals.admit(now)), [Some(0), None, None]);
        assert_eq!(refusals.admit(now + PERIOD), Some(2));
        assert_eq!(refusals.admit(now + PERIOD), None);
    }
}
