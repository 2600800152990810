//! Runs one message and says what happened. Knows nothing of queues, and never imports the broker.

mod inline;
mod outcome;

pub(crate) use self::inline::{Run, run_blocking, start};
pub(crate) use self::outcome::{Exit, Outcome, Resource, TimeLimit, Traces, Usage};
