//! The limits that calls of this worker hold, which its heartbeat renews.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::protocol::limit::LimitName;

/// The holders of each limit.
type Holders = BTreeMap<LimitName, BTreeSet<String>>;

/// All limits held by this worker.
#[derive(Debug, Default)]
pub(in crate::worker) struct HeldLimits(Mutex<Holders>);

impl HeldLimits {
    pub(super) fn add(&self, limit: &LimitName, holder: &str) {
        self.with(|holders| holders.entry(limit.clone()).or_default().insert(holder.to_owned()));
    }

    pub(super) fn remove(&self, limit: &LimitName, holder: &str) {
        self.with(|holders| {
            if let Some(of_limit) = holders.get_mut(limit) {
                of_limit.remove(holder);
                if of_limit.is_empty() {
                    holders.remove(limit);
                }
            }
        });
    }

    /// The limits and their holders at this moment.
    pub(in crate::worker) fn all(&self) -> Vec<(LimitName, Vec<String>)> {
        self.with(|holders| {
            let of_limit = |(limit, of_limit): (&LimitName, &BTreeSet<String>)| {
                (limit.clone(), of_limit.iter().cloned().collect())
            };
            holders.iter().map(of_limit).collect()
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Holders) -> T) -> T {
        // No foreign code runs under the lock, so a panic leaves nothing half done.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
