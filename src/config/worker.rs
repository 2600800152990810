//! Settings of a worker.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::Backoff;
use super::prefetch::Prefetch;
use super::queue::QueueWeight;
use super::queue_limit::QueueLimit;
use super::{ConfigError, LONGEST, limits, text};
use crate::isolation::{Isolation, Limits, Timeouts};

/// Settings of a worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// The queues that it serves, in order of preference. Default: `default`.
    pub queues: Vec<QueueWeight>,
    /// The limits of queues, such as `mail=github`: each call of the queue is limited by it, beside those that the call and its task
    /// name. Workers without this setting do not limit the calls. Default: none.
    pub queue_limits: Vec<QueueLimit>,
    /// How many calls run at the same time: 1 to 4096. Default: 10.
    pub concurrency: usize,
    /// How many calls are claimed in addition to those that run, so that the next begins as soon as one ends: up to 4096
    /// together with the concurrency. Default: [`Prefetch::Auto`].
    pub prefetch: Prefetch,
    /// How long the worker counts as alive without a heartbeat; then other workers get its calls: 1 s to 24 h. Default: 6 s. A
    /// short lease brings lost calls back sooner; a longer one survives longer pauses.
    #[serde(deserialize_with = "text::time")]
    pub lease: Duration,
    /// How long running calls may continue after a stop signal. Default: 25 s, below the 30 s after which most
    /// supervisors kill.
    #[serde(deserialize_with = "text::time")]
    pub shutdown: Duration,
    /// What happens to calls of tasks that this worker does not have. Default: [`Unknown::Bury`].
    pub unknown: Unknown,
    /// Whether the worker also sweeps, taking turns with other workers. Default: true.
    pub sweep: bool,
    /// Exit when the queues are empty, or hold only calls that were put back for others, and all calls are settled. Default:
    /// false.
    pub burst: bool,
    /// How many finished calls without a record each queue lists, for dashboards: 1 to 100,000, none older than 7 days. Calls with
    /// a record and dead letters are listed anyway. Default: `None`, the others are forgotten.
    pub keep_finished: Option<usize>,
    /// Where tasks without an isolation of their own run. Default: inline.
    pub isolation: Isolation,
    /// How long a run of a task without a timeout of its own may take. Default: `None`, no limit.
    #[serde(deserialize_with = "text::some_time")]
    pub timeout: Option<Duration>,
    /// How long a run may continue after its timeout, to end by itself. Default: 1 s.
    #[serde(deserialize_with = "text::some_time")]
    pub grace: Option<Duration>,
    /// How often a failed call is retried, if neither the call nor its task says how often or for how long; negative: without
    /// limit. Default: `None`, never, unless [`retry_for`](Self::retry_for) is set.
    pub retry: Option<i64>,
    /// For how long after its first failed attempt such a call is retried; without [`retry`](Self::retry), as often as its
    /// back-off allows until then. Default: `None`, no limit.
    #[serde(deserialize_with = "text::some_time")]
    pub retry_for: Option<Duration>,
    /// How long a failed call waits before it is retried. Default: 1 s, doubled after each attempt up to 10 min, plus up to a
    /// quarter at random.
    pub backoff: Backoff,
    /// Limits of the processes of isolated runs, for tasks without limits of their own. Default: none.
    #[serde(deserialize_with = "limits::limits")]
    pub limits: Limits,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            queues: vec![QueueWeight::default()],
            queue_limits: Vec::new(),
            concurrency: 10,
            prefetch: Prefetch::Auto,
            lease: Duration::from_secs(6),
            shutdown: Duration::from_secs(25),
            unknown: Unknown::Bury,
            sweep: true,
            burst: false,
            keep_finished: None,
            isolation: Isolation::Inline,
            timeout: None,
            grace: None,
            retry: None,
            retry_for: None,
            backoff: Backoff::default(),
            limits: Limits::NONE,
        }
    }
}

impl WorkerConfig {
    /// The largest number of slots of a worker.
    pub const MAX_CONCURRENCY: usize = 4096;

    /// The largest number of calls that [`Prefetch::Auto`] claims ahead. With more than four queues, it is 2048 divided by their
    /// number.
    pub const MAX_AUTO_PREFETCH: usize = 512;

    /// Each prefetched slot counts once for each queue.
    const SLOTS_OF_ALL_QUEUES: usize = 4 * Self::MAX_AUTO_PREFETCH;

    /// The largest number of finished calls that a queue lists.
    pub const MAX_KEEP_FINISHED: usize = 100_000;

    /// The largest number of calls that the worker owns at the same time.
    #[must_use]
    pub fn slots(&self) -> usize {
        let ahead = match self.prefetch {
            Prefetch::Fixed(count) => count,
            // Each slot has a name for each queue, so a worker of many queues has fewer of them.
            Prefetch::Auto => (Self::SLOTS_OF_ALL_QUEUES / self.queues.len().max(1))
                .min(Self::MAX_AUTO_PREFETCH)
                .min(Self::MAX_CONCURRENCY.saturating_sub(self.concurrency)),
        };
        self.concurrency.saturating_add(ahead)
    }

    /// The interval of the heartbeat: three may be missed before the lease ends.
    #[must_use]
    pub fn beat_period(&self) -> Duration {
        self.lease / 4
    }

    /// The timeout and grace of runs of tasks without their own.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        Timeouts { timeout: self.timeout, grace: self.grace }
    }

    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    ///
    /// ```
    /// let mut config = delayed::config::WorkerConfig::default();
    /// config.concurrency = 0;
    /// let error = config.validate().unwrap_err();
    /// assert_eq!(error.to_string(), "worker.concurrency: 0 is not from 1 to 4096");
    /// ```
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem: String| Err(ConfigError { field, problem });
        if self.queues.is_empty() {
            return refuse("worker.queues", "a worker needs at least one queue".into());
        }
        for (i, entry) in self.queues.iter().enumerate() {
            if self.queues[..i].iter().any(|before| before.queue == entry.queue) {
                return refuse("worker.queues", format!("the queue {:?} is listed twice", entry.queue));
            }
        }
        for entry in &self.queue_limits {
            if !self.queues.iter().any(|served| served.queue == entry.queue) {
                let problem = format!("the worker does not serve the queue {:?} of {entry}", entry.queue);
                return refuse("worker.queue_limits", problem);
            }
        }
        let weighted = self.queues.iter().filter(|entry| entry.weight.is_some()).count();
        if weighted != 0 && weighted != self.queues.len() {
            return refuse("worker.queues", "give every queue a weight (a=3), or none".into());
        }
        if !(1..=Self::MAX_CONCURRENCY).contains(&self.concurrency) {
            let problem = format!("{} is not from 1 to {}", self.concurrency, Self::MAX_CONCURRENCY);
            return refuse("worker.concurrency", problem);
        }
        let most = Self::MAX_CONCURRENCY - self.concurrency;
        if let Prefetch::Fixed(count) = self.prefetch
            && count > most
        {
            let problem = format!(
                "{count} is more than {most}, the maximum with a concurrency of {}",
                self.concurrency
            );
            return refuse("worker.prefetch", problem);
        }
        if let Some(count) = self.keep_finished
            && !(1..=Self::MAX_KEEP_FINISHED).contains(&count)
        {
            let problem = format!("{count} is not from 1 to {}", Self::MAX_KEEP_FINISHED);
            return refuse("worker.keep_finished", problem);
        }
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 60 * 60) {
            return refuse("worker.lease", format!("{:?} is not from 1s to 24h", self.lease));
        }
        if self.shutdown > LONGEST {
            return refuse("worker.shutdown", format!("{:?} is more than 365d", self.shutdown));
        }
        for (field, time) in [
            ("worker.retry_for", self.retry_for),
            ("worker.timeout", self.timeout),
            ("worker.grace", self.grace),
        ] {
            if let Some(time) = time
                && (time.is_zero() || time > LONGEST)
            {
                return refuse(field, format!("{time:?} is not above 0 and up to 365d"));
            }
        }
        limits::validate(&self.limits)
    }
}

/// What happens to calls of tasks that a worker does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// They become dead letters.
    Bury,
    /// They go back to the tail of the queue, for workers that have the task.
    Requeue,
    /// They are released without a run, as the workers of Python and Go do.
    Ignore,
}

impl FromStr for Unknown {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "bury" => Ok(Self::Bury),
            "requeue" => Ok(Self::Requeue),
            "ignore" => Ok(Self::Ignore),
            _ => Err(ConfigError {
                field: "worker.unknown",
                problem: format!("{text:?} is not one of bury, requeue, ignore"),
            }),
        }
    }
}
