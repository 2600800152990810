//! Limits how many messages a worker owns: those that run, and those that will probably begin soon.
//!
//! A worker that owns only what it runs waits for Redis after each quick run. A worker that owns much more withholds
//! messages that others could run. So a worker prefetches as many messages as will probably begin within a millisecond,
//! judging by its recent runs. If a run takes much longer than those before it, the prefetched messages are put back for
//! others.

use std::time::{Duration, Instant};

use crate::config::{Prefetch, WorkerConfig};

/// How long a prefetched message should wait before it begins.
const SOON: Duration = Duration::from_millis(1);
/// Runs that take this long gain nothing from prefetching.
const LONG: Duration = Duration::from_millis(2);
/// Messages that have waited this long are put back.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);
/// Maximum number of bytes to prefetch.
const BYTES: usize = 1 << 20;
/// The weight of the last run in a mean.
const SHARE: f64 = 1.0 / 8.0;

/// Computes how many messages a worker may own from its recent runs.
#[derive(Debug)]
pub(super) struct PrefetchLimiter {
    concurrency: usize,
    /// Maximum number of messages to prefetch.
    most: usize,
    /// `None` if recent runs do not count.
    seen: Option<RunTimes>,
    ahead: usize,
}

/// Statistics of recent runs: means, in seconds.
#[derive(Debug)]
struct RunTimes {
    /// Duration of a run.
    run: f64,
    /// Interval between two starts.
    interval: f64,
    /// When the last run ended that others waited for.
    ended: Option<Instant>,
}

impl PrefetchLimiter {
    pub(super) fn new(config: &WorkerConfig) -> Self {
        let (concurrency, most) = (config.concurrency, config.slots() - config.concurrency);
        let mut limiter = Self { concurrency, most, seen: None, ahead: most };
        if config.prefetch == Prefetch::Auto {
            limiter.seen = Some(RunTimes { run: 0.0, interval: 0.0, ended: None });
            limiter.back_off();
        }
        limiter
    }

    /// How many messages of this size, in bytes, the worker may own.
    pub(super) fn limit(&self, size: usize) -> usize {
        let ahead = if self.is_fixed() { self.ahead } else { self.ahead.min(BYTES / size.max(1)) };
        self.concurrency + ahead
    }

    /// Whether the number of prefetched messages is fixed, regardless of their waiting time and size.
    pub(super) fn is_fixed(&self) -> bool {
        self.seen.is_none()
    }

    /// Records a run that ended at `now`: its duration, and whether others wait for its slot.
    pub(super) fn learn(&mut self, took: Duration, now: Instant, others_wait: bool) {
        let Some(seen) = &mut self.seen else { return };
        let took = took.as_secs_f64();
        let interval = match seen.ended {
            Some(ended) => now.saturating_duration_since(ended).as_secs_f64(),
            // As if all slots were in use and took as long.
            None => took / self.concurrency as f64,
        };
        seen.run += (took - seen.run) * SHARE;
        seen.interval += (interval - seen.interval) * SHARE;
        seen.ended = others_wait.then_some(now);
    }

    /// Notes that runs take longer than expected, until other runs show that they do not.
    pub(super) fn back_off(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.run = seen.run.max(2.0 * LONG.as_secs_f64());
            seen.interval = seen.interval.max(2.0 * SOON.as_secs_f64());
            seen.ended = None;
        }
        self.update();
    }

    /// Applies what was learned.
    pub(super) fn update(&mut self) {
        if let Some(seen) = &self.seen {
            let is_long = seen.run >= LONG.as_secs_f64();
            let soon = if is_long { 0.0 } else { SOON.as_secs_f64() / seen.interval };
            self.ahead = (soon as usize).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = WorkerConfig::MAX_AUTO_PREFETCH;

    fn limiter(concurrency: usize, prefetch: Prefetch) -> PrefetchLimiter {
        PrefetchLimiter::new(&WorkerConfig { concurrency, prefetch, ..WorkerConfig::default() })
    }

    fn limit(limiter: &mut PrefetchLimiter) -> usize {
        limiter.update();
        limiter.limit(100)
    }

    /// Records this many runs that no other message waited for.
    fn after(limiter: &mut PrefetchLimiter, runs: usize, took: Duration) -> usize {
        (0..runs).for_each(|_| limiter.learn(took, Instant::now(), false));
        limit(limiter)
    }

    #[test]
    fn as_much_is_claimed_ahead_as_begins_soon() {
        for concurrency in [1, 10, 64] {
            let limiter = &mut limiter(concurrency, Prefetch::Auto);
            assert_eq!(limiter.limit(100), concurrency, "expected nothing ahead of what is not known");
            assert_eq!(after(limiter, 200, Duration::from_micros(499)), 3 * concurrency);
            assert_eq!(after(limiter, 200, Duration::from_micros(999)), 2 * concurrency);
            assert_eq!(after(limiter, 200, Duration::from_millis(3)), concurrency);
            assert_eq!(after(limiter, 400, Duration::from_nanos(1)), concurrency + MOST);
            assert_eq!(limiter.limit(BYTES / 4), concurrency + 4, "expected few that are large");
            assert_eq!(limiter.limit(2 * BYTES), concurrency);
        }
    }

    #[test]
    fn slots_that_are_held_for_long_count_for_nothing() {
        let limiter = &mut limiter(64, Prefetch::Auto);
        let took = Duration::from_micros(100);
        assert_eq!(after(limiter, 200, took), 64 + MOST);
        // One run ends every 100 µs; the others do not end.
        let mut now = Instant::now();
        for _ in 0..100 {
            now += took;
            limiter.learn(took, now, true);
        }
        assert!((73..=75).contains(&limit(limiter)), "{limiter:?}");
        // Nothing waits any more: back to the initial behavior.
        assert_eq!(after(limiter, 200, took), 64 + MOST);
    }

    #[test]
    fn one_long_run_stops_prefetching_until_many_quick_ones() {
        let limiter = &mut limiter(1, Prefetch::Auto);
        let (quick, slow) = (Duration::from_micros(1), Duration::from_millis(100));
        assert_eq!(after(limiter, 400, quick), 1 + MOST);
        assert_eq!(after(limiter, 1, slow), 1);
        assert!(after(limiter, 20, quick) < 3);
        assert_eq!(after(limiter, 80, quick), 1 + MOST);
        limiter.back_off();
        assert_eq!(limiter.limit(100), 1);
        assert_eq!(after(limiter, 80, quick), 1 + MOST);
    }

    #[test]
    fn what_is_fixed_stays() {
        let limiter = &mut limiter(3, Prefetch::Fixed(4));
        assert_eq!(after(limiter, 20, Duration::from_secs(1)), 7);
        limiter.back_off();
        assert_eq!((limiter.limit(2 * BYTES), limiter.is_fixed()), (7, true));
    }
}
