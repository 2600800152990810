//! Remembers what is done in the background, and how far it is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::text::now_ms;

/// How many jobs are remembered.
const KEPT: usize = 100;

/// The jobs of this process.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    next: AtomicU64,
    jobs: Mutex<BTreeMap<u64, Arc<Job>>>,
}

/// Something that takes long.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) by: String,
    pub(super) began_ms: u64,
    done: AtomicU64,
    total: AtomicU64,
    end: Mutex<Option<Result<String, String>>>,
    has_ended: Notify,
}

impl Jobs {
    pub(super) fn add(&self, title: String, by: &str) -> Arc<Job> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(Job {
            number,
            title,
            by: by.to_owned(),
            began_ms: now_ms(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            end: Mutex::new(None),
            has_ended: Notify::new(),
        });
        let mut all = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, Arc::clone(&job));
        while all.len() > KEPT {
            all.pop_first();
        }
        job
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }
}

impl Job {
    /// Says how far it is.
    pub(super) fn progress(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// How much is done, and of how much.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Says that it has ended.
    pub(super) fn finish(&self, result: Result<String, String>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.has_ended.notify_one();
    }

    /// Its result, if it has ended.
    pub(super) fn result(&self) -> Option<Result<String, String>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when it has ended; for one who waits.
    pub(super) async fn ended(&self) {
        self.has_ended.notified().await;
    }
}
