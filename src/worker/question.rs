//! Asks the event loop a question from another thread, without using the runtime or waiting for a blocked loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::worker::phase::WorkerHandle;

/// A question to the event loop, and its latest answer.
#[derive(Debug)]
pub(super) struct Question<T> {
    is_asked: AtomicBool,
    answer: Mutex<Option<T>>,
}

impl<T> Default for Question<T> {
    fn default() -> Self {
        Self { is_asked: AtomicBool::new(false), answer: Mutex::default() }
    }
}

impl<T> Question<T> {
    /// Wakes the event loop, which answers unless it is blocked.
    pub(super) fn ask(&self, handle: &WorkerHandle) {
        self.is_asked.store(true, Ordering::Relaxed);
        handle.wake();
    }

    /// Answers if there was a question. Called by the event loop.
    pub(super) fn answer(&self, answer: impl FnOnce() -> T) {
        if self.is_asked.swap(false, Ordering::Relaxed) {
            *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer());
        }
    }

    /// Takes the answer, if it has arrived.
    pub(super) fn take(&self) -> Option<T> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
