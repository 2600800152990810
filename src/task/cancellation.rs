//! Tells a run that it should end: a flag that works in any executor, as it needs no tokio.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

/// Tells runs that they should end. Clones are the same flag.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    deadline: Option<Instant>,
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl Cancellation {
    /// A flag that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag and wakes all who wait for it. Once raised it stays so.
    pub fn cancel(&self) {
        // The wakers are taken under the lock and woken outside of it: waking may run code that locks.
        let wakers = {
            let mut waiting = self.waiting();
            self.0.cancelled.store(true, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// Whether the flag is raised.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Says when the runs will be given up; a later call replaces an earlier one.
    pub fn set_deadline(&self, deadline: Instant) {
        self.waiting().deadline = Some(deadline);
    }

    /// When the runs will be given up, once that is known.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting().deadline
    }

    /// Waits until the flag is raised. Cancel-safe: dropped, it leaves nothing behind.
    pub async fn cancelled(&self) {
        Cancelled { cancellation: self, key: None }.await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code of others runs under the lock, so what it guards is whole. A waker is dropped outside of it: that may
        // drop a task, and with it another one of these futures.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("cancelled", &self.is_cancelled())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

struct Cancelled<'a> {
    cancellation: &'a Cancellation,
    key: Option<u64>,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        if self.cancellation.is_cancelled() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let mut waiting = self.cancellation.waiting();
        // Again, under the lock: from here on `cancel` finds the waker.
        if self.cancellation.is_cancelled() {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| {
            waiting.next += 1;
            waiting.next
        });
        let former = waiting.wakers.insert(key, waker);
        drop(waiting);
        drop(former);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.cancellation.waiting().wakers.remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_wait_are_woken_and_later_ones_do_not_wait() {
        let cancellation = Cancellation::new();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                tokio::spawn({
                    let c = cancellation.clone();
                    async move { c.cancelled().await }
                })
            })
            .collect();
        while cancellation.waiting().wakers.len() < 3 {
            tokio::task::yield_now().await;
        }
        assert!(!cancellation.is_cancelled());
        cancellation.cancel();
        for run in waiting {
            run.await.unwrap();
        }
        cancellation.cancelled().await;
        assert!(cancellation.is_cancelled());
    }

    #[tokio::test]
    async fn a_future_that_is_dropped_leaves_nothing_behind() {
        let cancellation = Cancellation::new();
        for _ in 0..3 {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => unreachable!("nobody cancels"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(cancellation.waiting().wakers.is_empty());
    }

    #[test]
    fn the_deadline_can_be_set_later_and_again() {
        let (cancellation, now) = (Cancellation::new(), Instant::now());
        assert_eq!(cancellation.deadline(), None);
        cancellation.clone().set_deadline(now);
        assert_eq!(cancellation.deadline(), Some(now));
        let later = now + std::time::Duration::from_secs(1);
        cancellation.set_deadline(later);
        assert_eq!(cancellation.deadline(), Some(later));
    }
}
