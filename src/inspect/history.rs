//! Tells how many calls of queues have ended in the last hour, day or week.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::history::{RESOLUTIONS, Resolution, read_marks};
use crate::protocol::names::QueueName;

/// How far back a history goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HistorySpan {
    /// An hour, by minutes.
    #[default]
    Hour,
    /// A day, by ten minutes.
    Day,
    /// A week, by hours.
    Week,
}

/// How many calls have ended, as Rust workers have counted them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct History {
    /// The length of a bucket in milliseconds.
    pub bucket_ms: u64,
    /// The buckets, oldest first. The last one is not over yet.
    pub buckets: Vec<HistoryBucket>,
    /// When workers have started: each time another version of a program, or any program that does not state its version.
    pub deployments: Vec<Deployment>,
}

/// How many calls have ended in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryBucket {
    /// When it begins, in milliseconds since 1970.
    pub begins_ms: u64,
    /// How many runs have succeeded.
    pub succeeded: u64,
    /// How many runs have failed, those included that were retried.
    pub failed: u64,
    /// How many calls have become dead letters of a worker.
    pub dead: u64,
}

/// The start of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deployment {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The version of its program; empty if it does not state one.
    pub version: String,
}

impl HistorySpan {
    const fn resolution(self) -> Resolution {
        match self {
            Self::Hour => RESOLUTIONS[0],
            Self::Day => RESOLUTIONS[1],
            Self::Week => RESOLUTIONS[2],
        }
    }
}

impl Inspector {
    /// Returns the history of these queues together. Workers write it every 5 seconds; those of Python and Go do not count.
    ///
    /// # Errors
    /// Redis cannot be reached, or the key of a history has a wrong type.
    pub async fn history(&self, queues: &[QueueName], span: HistorySpan) -> Result<History, Error> {
        let (now, resolution) = (self.server_ms().await?, span.resolution());
        let first = resolution.bucket(now) + 1 - resolution.count;
        let begins_ms = |nth: u64| (first + nth) * resolution.bucket_ms();
        let empty = |nth| HistoryBucket { begins_ms: begins_ms(nth), succeeded: 0, failed: 0, dead: 0 };
        let mut buckets: Vec<HistoryBucket> = (0..resolution.count).map(empty).collect();
        let mut deployments = BTreeMap::new();
        for queue in queues {
            let (counts, marks) = self.broker.ended_calls(queue, now, resolution).await?;
            for (bucket, [succeeded, failed, dead]) in buckets.iter_mut().zip(counts) {
                bucket.succeeded += succeeded;
                bucket.failed += failed;
                bucket.dead += dead;
            }
            let recent = read_marks(&marks).filter(|(at_ms, _)| *at_ms >= begins_ms(0));
            // A worker marks all of its queues.
            deployments.extend(recent.map(|(at_ms, version)| ((at_ms / 1000, version.to_owned()), at_ms)));
        }
        let deployments =
            deployments.into_iter().map(|((_, version), at_ms)| Deployment { at_ms, version }).collect();
        Ok(History { bucket_ms: resolution.bucket_ms(), buckets, deployments })
    }
}
