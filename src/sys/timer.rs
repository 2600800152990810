//! Sleeps until an instant with a precision below a millisecond. tokio's timers count whole milliseconds, and are up to two
//! late.

use std::io;
use std::time::{Duration, Instant};

use nix::unistd::read;
use tokio::io::Interest;

use crate::sys::async_descriptor::AsyncDescriptor;
use crate::sys::system;

/// How long before the instant a kernel timer takes over: it uses a descriptor, and most waits end earlier.
const CLOSE: Duration = Duration::from_millis(3);

/// Sleeps until `at`, or slightly longer if the kernel has no timer left. Cancel-safe.
pub(crate) async fn sleep_until(at: Instant) {
    if let Some(close) = at.checked_sub(CLOSE) {
        tokio::time::sleep_until(close.into()).await;
    }
    if wait_until(at).await.is_err() {
        tokio::time::sleep_until(at.into()).await;
    }
}

async fn wait_until(at: Instant) -> io::Result<()> {
    let left = at.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(());
    }
    let timer = AsyncDescriptor::new(system::timer(left)?, Interest::READABLE)?;
    timer.when_ready(Interest::READABLE, |timer| Ok(read(timer, &mut [0; 8])?)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_moment_has_come() {
        for ahead in [0, 100, 2_900, 5_000].map(Duration::from_micros) {
            let at = Instant::now() + ahead;
            sleep_until(at).await;
            assert!(Instant::now() >= at, "expected {ahead:?} to have passed");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_keeps_the_time() {
        let at = Instant::now() + Duration::from_millis(1);
        wait_until(at).await.unwrap();
        assert!(Instant::now() >= at, "expected the timer to ring, and not before");
    }
}
