//! How long to leave Redis alone after an error?

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double with every failure, with jitter, so that many workers do not come back at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Notes a failure; gives the pause that follows.
    pub(super) fn fail(&mut self) -> Duration {
        let whole = LONGEST.min(FIRST * 2_u32.saturating_pow(self.failures.min(16)));
        self.failures += 1;
        // Half of it is sure, half of it is drawn.
        let drawn = uuid::Uuid::new_v4().as_u128() as u32;
        let pause = whole / 2 + (whole / 2).mul_f64(f64::from(drawn) / f64::from(u32::MAX));
        self.until = Some(Instant::now() + pause);
        pause
    }

    /// Notes a success.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// When the next request may be made; none is now.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }

    /// Whether the last request failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }
}
