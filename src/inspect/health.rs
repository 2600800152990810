//! Is all well? What a server and its queues should be, and how to put it right.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::error::Error;
use crate::inspect::Inspector;

/// How many round trips are timed.
const ROUND_TRIPS: usize = 51;
/// A round trip that takes longer than this makes a worker slow.
const SLOW_US: u128 = 5_000;
/// Clocks that differ more than this make times hard to compare; the second, and a worker may be forgotten too soon.
const CLOCK_WARNING_MS: u64 = 1_000;
const CLOCK_PROBLEM_MS: u64 = 30_000;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Level {
    /// As it should be.
    Ok,
    /// To be looked at.
    Warning,
    /// Calls may be lost, or are not run.
    Problem,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at: `access`, `cluster`, `coverage`, `version`, `eviction`, `persistence`, `memory`, `writes`, `replicas`,
    /// `clock`, `latency`, `keys`, `foreign`, `names`, `unfound`, `locks`, `tokens`, `owners`, `live_keys`, `options`, `workers`, `versions`, `paused`,
    /// `outbox`, `dead` or `limits`.
    pub check: &'static str,
    /// The queue, where it is one's.
    pub queue: Option<String>,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, queue: None, text: text.into(), fix: None }
    }

    pub(super) fn warning(check: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warning, fix: Some(fix.into()), ..Self::ok(check, text) }
    }

    pub(super) fn problem(check: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Problem, fix: Some(fix.into()), ..Self::ok(check, text) }
    }

    /// That the server answered, but not as it should. None where it did not answer, or what it said is not understood.
    pub(crate) fn refused(check: &'static str, error: &BrokerError) -> Option<Self> {
        use BrokerErrorKind::{Denied, Full, NotReady, ReadOnly, Unsupported, WrongType};
        let (fix, text) = error.advice_and_detail();
        matches!(error.kind(), Denied | Full | NotReady | ReadOnly | Unsupported | WrongType)
            .then(|| Self::problem(check, text, fix))
    }

    /// A finding, or what the server refused while it was looked for.
    pub(super) fn or_refused(
        check: &'static str,
        found: Result<Self, BrokerError>,
    ) -> Result<Self, BrokerError> {
        found.or_else(|error| Self::refused(check, &error).ok_or(error))
    }
}

impl Inspector {
    /// Asks Redis for the time, and returns how long the answer took.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn ping(&self) -> Result<Duration, Error> {
        let began = Instant::now();
        self.broker.time().await?;
        Ok(began.elapsed())
    }

    /// Looks at the server and at every queue. It changes nothing: what it writes, to see whether it may, is nothing.
    ///
    /// # Errors
    /// Redis cannot be reached, or does not say what it is.
    pub async fn check(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = self.check_servers().await?;
        findings.push(Finding::or_refused("clock", self.clock().await)?);
        findings.push(Finding::or_refused("latency", self.latency().await)?);
        findings.extend(self.check_queues().await.or_else(|error| match &error {
            Error::Broker(refused) => {
                Finding::refused("access", refused).map(|found| vec![found]).ok_or(error)
            }
            _ => Err(error),
        })?);
        findings.extend(self.or_silent(self.check_limits().await)?);
        Ok(findings)
    }

    async fn clock(&self) -> Result<Finding, BrokerError> {
        let before = SystemTime::now();
        let server = self.server_ms().await?;
        let took = before.elapsed().unwrap_or_default();
        let here = (before + took / 2).duration_since(UNIX_EPOCH).unwrap_or_default();
        let difference = server.abs_diff(u64::try_from(here.as_millis()).unwrap_or(u64::MAX));
        let text = format!("the clocks of the server and of this machine differ by {difference} ms");
        let fix = "synchronize both clocks with NTP";
        if difference > CLOCK_PROBLEM_MS {
            return Ok(Finding::problem("clock", text, fix));
        }
        if difference > CLOCK_WARNING_MS {
            return Ok(Finding::warning("clock", text, fix));
        }
        Ok(Finding::ok("clock", text))
    }

    async fn latency(&self) -> Result<Finding, BrokerError> {
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            self.broker.time().await?;
            times.push(began.elapsed().as_micros());
        }
        times.sort_unstable();
        let median = times[ROUND_TRIPS / 2];
        let text = format!("a round trip takes {median} µs (median of {ROUND_TRIPS})");
        if median > SLOW_US {
            let fix = "run workers near the server: each claim of a worker takes a round trip";
            return Ok(Finding::warning("latency", text, fix));
        }
        Ok(Finding::ok("latency", text))
    }
}

/// A number, and what is said of one or of several: `1 message waits`, `2 messages wait`.
pub(super) fn plural(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
