//! How does a worker run?

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::prefetch::Prefetch;
use super::queue::QueueWeight;
use super::{ConfigError, LONGEST, limits, text};
use crate::isolation::{Isolation, Limits, Timeouts};

/// How a worker runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// The queues that it serves, in order of preference. Default: `default`.
    pub queues: Vec<QueueWeight>,
    /// How many calls run at a time: 1 to 4096. Default: 10.
    pub concurrency: usize,
    /// How many calls are claimed ahead, beyond those that run, so that the next begins as soon as one ends: up to 4096
    /// together with the concurrency. Default: [`Prefetch::Auto`].
    pub prefetch: Prefetch,
    /// How long Redis waits for a sign of life before what the worker owns is given to others: 1 s to 24 h.
    /// Default: 6 s. A short lease brings lost work back sooner; a longer one survives longer pauses.
    #[serde(deserialize_with = "text::time")]
    pub lease: Duration,
    /// How long running calls may go on after the worker was told to stop. Default: 25 s, which is less than
    /// the 30 s after which most supervisors kill.
    #[serde(deserialize_with = "text::time")]
    pub shutdown: Duration,
    /// What becomes of calls of tasks that this worker does not know. Default: they are buried.
    pub unknown: Unknown,
    /// Whether the worker sweeps too, by turns with all others. Default: true.
    pub sweep: bool,
    /// Exit when the queues are empty, or hold only calls that were put back for others, and all is settled. Default:
    /// false.
    pub burst: bool,
    /// Where tasks run that do not say. Default: inline.
    pub isolation: Isolation,
    /// How long a run may go on, of a task that does not say. Default: without end.
    #[serde(deserialize_with = "text::some_time")]
    pub timeout: Option<Duration>,
    /// How long it then has to end by itself. Default: 1 s.
    #[serde(deserialize_with = "text::some_time")]
    pub grace: Option<Duration>,
    /// What the process of an isolated run may use, where its task does not say. Default: all that there is.
    #[serde(deserialize_with = "limits::limits")]
    pub limits: Limits,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            queues: vec![QueueWeight::default()],
            concurrency: 10,
            prefetch: Prefetch::Auto,
            lease: Duration::from_secs(6),
            shutdown: Duration::from_secs(25),
            unknown: Unknown::Bury,
            sweep: true,
            burst: false,
            isolation: Isolation::Inline,
            timeout: None,
            grace: None,
            limits: Limits::NONE,
        }
    }
}

impl WorkerConfig {
    /// The most slots that a worker may have.
    pub const MAX_CONCURRENCY: usize = 4096;

    /// How many calls a worker may claim ahead by itself, divided by the number of its queues.
    pub const MAX_AUTO_PREFETCH: usize = 512;

    /// How many calls the worker owns at a time at the most.
    #[must_use]
    pub fn slots(&self) -> usize {
        let ahead = match self.prefetch {
            Prefetch::Fixed(count) => count,
            // Each slot has a name for each queue, so a worker of many queues has fewer of them.
            Prefetch::Auto => (Self::MAX_AUTO_PREFETCH / self.queues.len().max(1))
                .min(Self::MAX_CONCURRENCY.saturating_sub(self.concurrency)),
        };
        self.concurrency.saturating_add(ahead)
    }

    /// How often the worker beats: three beats may be missed before its lease ends.
    #[must_use]
    pub fn beat_period(&self) -> Duration {
        self.lease / 4
    }

    /// How long a run may go on, of a task that does not say.
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
                return refuse("worker.queues", format!("the queue {:?} is named twice", entry.queue));
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
                "{count} is more than {most}, which is left by a concurrency of {}",
                self.concurrency
            );
            return refuse("worker.prefetch", problem);
        }
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 60 * 60) {
            return refuse("worker.lease", format!("{:?} is not from 1s to 24h", self.lease));
        }
        if self.shutdown > LONGEST {
            return refuse("worker.shutdown", format!("{:?} is more than 365d", self.shutdown));
        }
        for (field, time) in [("worker.timeout", self.timeout), ("worker.grace", self.grace)] {
            if let Some(time) = time
                && (time.is_zero() || time > LONGEST)
            {
                return refuse(field, format!("{time:?} is not above 0 and up to 365d"));
            }
        }
        limits::validate(&self.limits)
    }
}

/// What becomes of calls of tasks that a worker does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// To the dead letters.
    Bury,
    /// Back to the tail of the queue, for workers that know it.
    Requeue,
    /// Released without being run, as the ancestors do.
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
