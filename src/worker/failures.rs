//! Logs failed runs: the first few of a task in a minute, and then their number.
//!
//! Otherwise, a task that always fails would fill a disk. Its dead letters are kept individually.

use std::time::{Duration, Instant};

use tracing::field::{debug, display};

use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;
use crate::repeats::Repeats;
use crate::runner::Outcome;
use crate::worker::settlement::Settlement;

/// How many failures of a task for one reason, and dead letters of it, are logged per minute.
const FEW: u32 = 5;

/// What happened to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fate {
    Retried,
    Buried,
}

/// What the log says about a call whose run has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended<'a> {
    pub(super) task: &'a str,
    pub(super) call_id: Option<CallId>,
    /// `None` if it did not run.
    pub(super) duration: Option<Duration>,
    pub(super) attempt: u32,
}

/// The key by which failures count as equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Failure {
    queue: QueueName,
    task: String,
    reason: &'static str,
    fate: Fate,
}

/// The log of failed runs.
pub(super) struct Failures {
    runs: Repeats<Failure>,
}

impl Failures {
    pub(super) fn new() -> Self {
        Self { runs: Repeats::new(FEW) }
    }

    /// Logs a failed run whose message is retried.
    pub(super) fn retried(
        &mut self,
        queue: &QueueName,
        ended: Ended<'_>,
        delay: Option<Duration>,
        outcome: &Outcome,
    ) {
        let Ended { task, call_id, duration, attempt } = ended;
        let (call_id, duration) = (call_id.map(display), duration.map(debug));
        let delay = delay.map(debug);
        if self.note(queue, task, outcome.reason(), Fate::Retried) {
            tracing::warn!(%queue, task, call_id, attempt, duration, delay, error = %outcome, "task failed; retrying");
        } else {
            tracing::debug!(%queue, task, call_id, attempt, duration, delay, error = %outcome, "task failed; retrying");
        }
    }

    /// Logs a buried message.
    pub(super) fn buried(&mut self, queue: &QueueName, burial: &Settlement, dead_letter: Option<&str>) {
        let Settlement::Bury { reason, detail: error, attempt, call, .. } = burial else { return };
        let task = call.task.as_str();
        let (call_id, duration) = (call.id.map(display), call.duration.map(debug));
        if self.note(queue, task, reason, Fate::Buried) {
            tracing::error!(%queue, task, call_id, attempt, duration, reason, error, dead_letter, "message buried");
        } else {
            tracing::debug!(%queue, task, call_id, attempt, duration, reason, error, dead_letter, "message buried");
        }
    }

    /// Whether to log this line. Logs the number of suppressed lines first.
    fn note(&mut self, queue: &QueueName, task: &str, reason: &'static str, fate: Fate) -> bool {
        let failure = Failure { queue: queue.clone(), task: task.to_owned(), reason, fate };
        let printed = self.runs.note(failure.clone(), Instant::now());
        if let Some(repeated @ 1..) = printed {
            failure.print(repeated);
        }
        printed.is_some()
    }

    /// When [`Self::print_due`] has something to print.
    pub(super) fn due(&self) -> Option<Instant> {
        self.runs.due()
    }

    /// Logs the numbers whose minute is over.
    pub(super) fn print_due(&mut self, now: Instant) {
        self.runs.take_due(now).into_iter().for_each(|(failure, repeated)| failure.print(repeated));
    }

    /// Logs the remaining numbers, at the end.
    pub(super) fn print_all(&mut self) {
        self.runs.take_all().into_iter().for_each(|(failure, repeated)| failure.print(repeated));
    }
}

impl Failure {
    fn print(&self, repeated: u64) {
        let Self { queue, task, reason, fate } = self;
        match fate {
            Fate::Retried => {
                tracing::warn!(%queue, task, reason, repeated, "more runs of a task failed; retrying")
            }
            Fate::Buried => {
                tracing::error!(%queue, task, reason, repeated, "more messages buried")
            }
        }
    }
}
