//! Pauses after errors, which double with each failure.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
/// Short enough that work goes on soon when Redis, or another master, is there again.
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double with each failure, with jitter, so that many workers do not return at once.
#[derive(Debug, Default)]
pub(in crate::worker) struct Cooldown {
    failures: u32,
    until: Option<Instant>,
}

impl Cooldown {
    /// Notes a failure. Returns the pause that follows.
    pub(in crate::worker) fn fail(&mut self) -> Duration {
        let whole = LONGEST.min(FIRST * 2_u32.saturating_pow(self.failures.min(16)));
        self.failures += 1;
        // Half of the pause is fixed, half is random.
        let drawn = uuid::Uuid::new_v4().as_u128() as u32;
        let pause = whole / 2 + (whole / 2).mul_f64(f64::from(drawn) / f64::from(u32::MAX));
        self.until = Some(Instant::now() + pause);
        pause
    }

    /// Notes a failure, unless a pause is in progress: then the failure belongs to that pause. Returns the new pause.
    pub(in crate::worker) fn fail_once(&mut self) -> Option<Duration> {
        if self.until.is_none() { Some(self.fail()) } else { None }
    }

    /// Notes a success.
    pub(in crate::worker) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// When the next request may be made; `None` means now. Stays set until [`Self::expire`] is called after that time, so
    /// that timers can rely on it.
    pub(in crate::worker) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Ends a pause that is over.
    pub(in crate::worker) fn expire(&mut self, now: Instant) {
        self.until = self.until.filter(|until| *until > now);
    }

    /// Whether the last request failed.
    pub(in crate::worker) fn is_failing(&self) -> bool {
        self.failures > 0
    }
}
