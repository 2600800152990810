//! Limits the time of operations, and retries them while Redis is away.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::config::Config;

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The time limits of a client's operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// One attempt.
    timeout: Duration,
    /// All of them.
    longest: Duration,
}

/// The deadline of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(super) end: Instant,
    timeout: Duration,
}

impl Patience {
    pub(crate) fn new(config: &Config) -> Self {
        let timeout = config.redis.timeout;
        Self { timeout, longest: config.client.patience.map_or(timeout, |patience| patience.max(timeout)) }
    }

    /// Begins an operation.
    pub(crate) fn begin(&self) -> Until {
        Until { end: Instant::now() + self.longest, timeout: self.timeout }
    }
}

impl Until {
    /// The deadline of an attempt that begins now.
    pub(crate) fn attempt(&self) -> Instant {
        self.end.min(Instant::now() + self.timeout)
    }

    /// Retries, until the deadline, an operation that was certainly not applied and may succeed soon: Redis is restarting, or
    /// loads its data. The attempt gets its own deadline.
    pub(crate) async fn retry<T, F>(self, attempt: impl FnMut(Instant) -> F) -> Result<T, BrokerError>
    where
        F: Future<Output = Result<T, BrokerError>>,
    {
        self.retry_when(is_not_yet, attempt).await
    }

    /// The same for an idempotent request: after an error it can be sent again.
    pub(super) async fn repeat<T, F>(self, attempt: impl FnMut(Instant) -> F) -> Result<T, BrokerError>
    where
        F: Future<Output = Result<T, BrokerError>>,
    {
        let may_help = |error: &BrokerError| is_not_yet(error) || error.kind() == BrokerErrorKind::Uncertain;
        self.retry_when(may_help, attempt).await.map_err(BrokerError::without_effect)
    }

    async fn retry_when<T, F>(
        self,
        is_worth_it: impl Fn(&BrokerError) -> bool,
        mut attempt: impl FnMut(Instant) -> F,
    ) -> Result<T, BrokerError>
    where
        F: Future<Output = Result<T, BrokerError>>,
    {
        let mut pauses = None;
        loop {
            let error = match attempt(self.attempt()).await {
                Err(error) if is_worth_it(&error) => error,
                done => return done,
            };
            let pause = pauses.get_or_insert_with(pauses_between).next().unwrap_or(PAUSES.1);
            if Instant::now() + pause >= self.end {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// An endless sequence of pauses between attempts.
pub(super) fn pauses_between() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(PAUSES.0)
        .with_max_delay(PAUSES.1)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Whether the request was certainly not applied, and may succeed soon.
pub(super) fn is_not_yet(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Unreachable | BrokerErrorKind::NotReady)
}
