//! Waits for a descriptor in tokio's event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that does not block, and that tokio watches.
#[derive(Debug)]
pub(crate) struct AsyncDescriptor(AsyncFd<OwnedFd>);

impl AsyncDescriptor {
    /// Starts to watch a descriptor. Call it within a runtime.
    #[expect(unsafe_code, reason = "AsyncFd::register_with_interest")]
    pub(crate) fn new(descriptor: OwnedFd, interest: Interest) -> io::Result<Self> {
        // SAFETY: An `OwnedFd` is the same open descriptor until it is dropped, and it is never given away.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
        Ok(Self(watched?))
    }

    /// Resolves when there may be something to read. Cancel-safe.
    pub(crate) async fn readable(&self) {
        // Also resolves when the event loop has ended; the following read reports that.
        let _ = self.0.readable().await.map(|mut guard| guard.retain_ready());
    }

    /// Runs `operation` until it returns something other than `WouldBlock`. Cancel-safe if `operation` is.
    pub(crate) async fn when_ready<T>(
        &self,
        interest: Interest,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.async_io(interest, |descriptor| operation(descriptor.as_fd())).await
    }
}

impl AsFd for AsyncDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
