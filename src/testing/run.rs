//! What became of a run, as a test sees it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::protocol::call_id::CallId;
use crate::protocol::message::Message;
use crate::protocol::value::describe_arguments;
use crate::worker::{EndedRun, Next};

/// As many characters of arguments are shown.
pub(super) const SHOWN: usize = 200;

/// A run of a call that has ended.
///
/// Its `Display` is for the messages of assertions: `shop::mail::send("ann@example.org"), attempt 1: failed: no route; retried
/// after 1.1s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    task: String,
    arguments: String,
    queue: String,
    id: Option<CallId>,
    attempt: u32,
    outcome: RunOutcome,
}

/// How a run ended, and what that means for its call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The task returned without an error.
    Succeeded,
    /// The run failed, and the call runs again.
    Retried {
        /// One word, such as `failed`, `panicked` or `timed_out`: those of dead letters.
        reason: &'static str,
        /// The error.
        error: String,
        /// After how long: the back-off and up to a quarter more, or what [`TaskError::retry_after`](crate::TaskError::retry_after)
        /// named.
        delay: Duration,
    },
    /// The task returned [`TaskError::snooze`](crate::TaskError::snooze).
    Snoozed {
        /// After how long the call runs again.
        delay: Duration,
    },
    /// The call is a dead letter: the run failed and no retry is left, or it could not run.
    Dead {
        /// One word, such as `failed`, `arguments` or `unknown`: that of the dead letter.
        reason: &'static str,
        /// The reason as a sentence.
        error: String,
    },
}

impl Run {
    /// `None` for a call that was put back into its queue, as if it had not run.
    pub(super) fn of(ended: EndedRun) -> Option<Self> {
        let outcome = outcome(&ended)?;
        let message = Message::decode(&ended.message).ok();
        Some(Self {
            task: message.map_or("", |message| message.task()).to_owned(),
            arguments: message.map_or_else(String::new, |message| describe_arguments(&message, SHOWN)),
            queue: ended.queue.to_string(),
            id: message.and_then(|message| message.id()),
            attempt: message.map_or(1, |message| message.attempts().saturating_add(1)),
            outcome,
        })
    }

    /// The path of the task; empty if the message could not be read.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The id of the call, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.id
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    /// Whether the task returned without an error.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == RunOutcome::Succeeded
    }

    /// Whether the call became a dead letter.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.outcome, RunOutcome::Dead { .. })
    }

    /// The error, if the run failed.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            RunOutcome::Retried { error, .. } | RunOutcome::Dead { error, .. } => Some(error),
            RunOutcome::Succeeded | RunOutcome::Snoozed { .. } => None,
        }
    }

    /// After how long the call runs again, if it does.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        match self.outcome {
            RunOutcome::Retried { delay, .. } | RunOutcome::Snoozed { delay } => Some(delay),
            RunOutcome::Succeeded | RunOutcome::Dead { .. } => None,
        }
    }
}

fn outcome(ended: &EndedRun) -> Option<RunOutcome> {
    Some(match &ended.next {
        Next::Gone => RunOutcome::Succeeded,
        Next::Snoozed(delay) => RunOutcome::Snoozed { delay: *delay },
        Next::Again(delay) => RunOutcome::Retried {
            reason: ended.outcome.reason(),
            error: ended.outcome.detail(),
            delay: *delay,
        },
        Next::Dead(reason, error) => RunOutcome::Dead { reason, error: error.clone() },
        Next::PutBack => return None,
    })
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, arguments, attempt, outcome, .. } = self;
        let task = if task.is_empty() { "(no message)" } else { task };
        write!(f, "{task}{arguments}, attempt {attempt}: {outcome}")
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Retried { reason, error, delay } if delay.is_zero() => {
                write!(f, "{reason}: {error}; retried at once")
            }
            Self::Retried { reason, error, delay } => {
                write!(f, "{reason}: {error}; retried after {delay:.1?}")
            }
            Self::Snoozed { delay } => write!(f, "snoozed for {delay:?}"),
            Self::Dead { reason, error } => write!(f, "{reason}: {error}; dead"),
        }
    }
}

/// The runs of a [`Drain`](crate::testing::Drain), in the order in which they ended: a slice of [`Run`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(Vec<Run>);

impl Runs {
    pub(super) fn new(runs: Vec<Run>) -> Self {
        Self(runs)
    }

    /// Checks that all runs succeeded.
    ///
    /// ```standalone_crate
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # #[delayed::task] fn add(a: i64, b: i64) {}
    /// # let redis = delayed::testing::Redis::start().await;
    /// let runs = redis.drain().await.expect_success();
    /// # }
    /// ```
    ///
    /// # Panics
    /// Not all runs succeeded. The message lists all of them.
    #[track_caller]
    #[allow(clippy::must_use_candidate, reason = "the check is enough")]
    pub fn expect_success(self) -> Self {
        assert!(self.iter().all(Run::succeeded), "expected all runs to succeed:\n{self}");
        self
    }
}

impl Deref for Runs {
    type Target = [Run];

    fn deref(&self) -> &[Run] {
        &self.0
    }
}

impl IntoIterator for Runs {
    type Item = Run;
    type IntoIter = std::vec::IntoIter<Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = &'a Run;
    type IntoIter = std::slice::Iter<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Runs {
    /// One run a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.iter().enumerate() {
            write!(f, "{}  {run}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}
