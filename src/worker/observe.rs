//! Reports to a test how each run ended and what was decided about its call.

use std::time::Duration;

use crate::protocol::names::QueueName;
use crate::runner::Outcome;
use crate::worker::decide::Decision;
use crate::worker::executor::FinishedRun;
use crate::worker::settlement::{Part, Settlement};

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) queue: QueueName,
    /// The message as claimed.
    pub(crate) message: Vec<u8>,
    pub(crate) outcome: Outcome,
    pub(crate) next: Next,
}

/// What happens to the call of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// The call is done.
    Gone,
    /// The call runs again after this time.
    Again(Duration),
    /// The call runs again after this time, and this attempt does not count.
    Snoozed(Duration),
    /// The call is a dead letter with this reason and detail.
    Dead(&'static str, String),
    /// The call waits in its queue, unchanged.
    PutBack,
}

impl EndedRun {
    pub(super) fn new(queue: &QueueName, run: &FinishedRun, decision: &Decision) -> Self {
        let is_snoozed = matches!(&decision.outcome, Outcome::Failed(error) if error.is_snooze());
        let next = match &decision.settlement {
            Settlement::Release { .. } | Settlement::Finish { .. } => Next::Gone,
            Settlement::Retry { .. } => Next::Again(Duration::ZERO),
            Settlement::RetryLater { delay, .. } if is_snoozed => Next::Snoozed(*delay),
            Settlement::RetryLater { delay, .. } => Next::Again(*delay),
            Settlement::Bury { reason, detail, .. } => Next::Dead(reason, detail.clone()),
            Settlement::Split { parts, .. } => of_items(parts),
            Settlement::PutBack { .. }
            | Settlement::Park { .. }
            | Settlement::Defer { .. }
            | Settlement::Leave => Next::PutBack,
        };
        Self { queue: queue.clone(), message: run.message.to_vec(), outcome: decision.outcome.clone(), next }
    }
}

/// What happens to the items of a batch that failed: that one of them is a dead letter matters most.
fn of_items(parts: &[Part]) -> Next {
    let dead = parts.iter().find_map(|part| match part {
        Part::Bury { detail, .. } => Some(Next::Dead("failed", detail.clone())),
        Part::Retry { .. } | Part::RetryLater { .. } => None,
    });
    let delay = parts.iter().filter_map(|part| match part {
        Part::RetryLater { delay, .. } => Some(*delay),
        Part::Retry { .. } | Part::Bury { .. } => None,
    });
    dead.unwrap_or_else(|| Next::Again(delay.min().unwrap_or_default()))
}
