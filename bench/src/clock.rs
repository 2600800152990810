//! What time is it, for all processes of the machine?

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Seconds between two times; less than nothing when they stand the other way round.
pub fn seconds(from: u64, to: u64) -> f64 {
    (to as f64 - from as f64) / 1e9
}
