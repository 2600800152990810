//! Tells how many calls of queues have ended in the last hour, day or week.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::broker::BrokerErrorKind;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::history::{DURATIONS, RESOLUTIONS, Resolution, class_end_micros, read_marks};
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

/// How the runs of a task have ended in the last 24 hours, as Rust workers have counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskHistory {
    /// How many runs have succeeded.
    pub succeeded: u64,
    /// How many runs have failed, those included that were retried.
    pub failed: u64,
    /// Half of the runs took less than this, in microseconds: 1, 2, 4, 8, … `None`: there were no runs.
    pub p50_micros: Option<u64>,
    /// 95 % of the runs took less than this.
    pub p95_micros: Option<u64>,
    /// 99 % of the runs took less than this.
    pub p99_micros: Option<u64>,
}

impl TaskHistory {
    fn of(counts: &[u64; 2 + DURATIONS]) -> Self {
        let [succeeded, failed, classes @ ..] = counts;
        let all = classes.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let less_than = |percent: u64| {
            let (mut sum, least) = (0_u64, all.saturating_mul(percent).div_ceil(100));
            let found = classes.iter().position(|count| {
                sum = sum.saturating_add(*count);
                sum >= least
            });
            found.filter(|_| all > 0).map(class_end_micros)
        };
        Self {
            succeeded: *succeeded,
            failed: *failed,
            p50_micros: less_than(50),
            p95_micros: less_than(95),
            p99_micros: less_than(99),
        }
    }
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
            let (counts, marks) = match self.broker.ended_calls(queue, now, resolution).await {
                // The key is another program's.
                Err(error) if error.kind() == BrokerErrorKind::WrongType => continue,
                read => read?,
            };
            for (bucket, [succeeded, failed, dead]) in buckets.iter_mut().zip(counts) {
                bucket.succeeded = bucket.succeeded.saturating_add(succeeded);
                bucket.failed = bucket.failed.saturating_add(failed);
                bucket.dead = bucket.dead.saturating_add(dead);
            }
            let recent = read_marks(&marks).filter(|(at_ms, _)| *at_ms >= begins_ms(0));
            // A worker marks all of its queues.
            deployments.extend(recent.map(|(at_ms, version)| ((at_ms / 1000, version.to_owned()), at_ms)));
        }
        let deployments =
            deployments.into_iter().map(|((_, version), at_ms)| Deployment { at_ms, version }).collect();
        Ok(History { bucket_ms: resolution.bucket_ms(), buckets, deployments })
    }

    /// Returns how the runs of these tasks have ended in the last 24 hours, in their order. Workers write it every 5 seconds; those of
    /// Python and Go do not count.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn task_history(&self, tasks: &[&str]) -> Result<Vec<TaskHistory>, Error> {
        let counts = self.broker.task_counts(tasks, self.server_ms().await?).await?;
        Ok(counts.iter().map(TaskHistory::of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_classes() {
        let mut counts = [0; 2 + DURATIONS];
        assert_eq!(TaskHistory::of(&counts).p50_micros, None);
        (counts[0], counts[1]) = (95, 5);
        (counts[2 + 3], counts[2 + 10], counts[2 + 20]) = (50, 45, 5);
        let history = TaskHistory::of(&counts);
        assert_eq!((history.succeeded, history.failed), (95, 5));
        assert_eq!(
            [history.p50_micros, history.p95_micros, history.p99_micros],
            [Some(8), Some(1024), Some(1 << 20)]
        );
    }
}
