//! Names the states of a call, and says what a cancellation found.

use std::fmt;

use serde::Serialize;

/// The state of a call that keeps a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CallState {
    /// In the timetable, until it is due.
    Scheduled,
    /// In its queue, or claimed by a worker that has not begun it.
    Waiting,
    /// A worker runs it.
    Running,
    /// In the timetable after a failed attempt.
    Retrying,
    /// It has run and succeeded.
    Succeeded,
    /// It is a dead letter.
    Dead,
    /// It was cancelled.
    Cancelled,
    /// It expired before it could run.
    Expired,
}

/// What the cancellation of a call found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cancelled {
    /// The call was scheduled, and has been removed.
    Scheduled,
    /// The call was waiting for a retry, and has been removed.
    Retrying,
    /// The call waited in its queue. A worker drops it instead of running it.
    Waiting,
    /// The call is running, or about to run: its worker was asked to end it.
    Running,
    /// The call had already ended, in this state. Nothing was changed.
    Ended(CallState),
    /// No call with this id is known. Nothing was changed.
    NotFound,
}

impl CallState {
    /// All of them, in the order of a call's life.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Waiting,
        Self::Running,
        Self::Retrying,
        Self::Succeeded,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The state in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Whether the call has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled | Self::Expired)
    }

    #[cfg_attr(not(feature = "broker"), expect(dead_code))]
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
