//! What is done about an outcome? Decided purely, here; carried out elsewhere.

use crate::config::Unknown;
use crate::protocol::message::Message;
use crate::runner::Outcome;
use crate::task::TaskOptions;

/// What is done with a message after its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done: it is forgotten.
    Release,
    /// It goes to the tail of the queue as these bytes, to be tried again.
    Retry(Vec<u8>),
    /// It goes to the dead letters.
    Bury {
        /// One word.
        reason: &'static str,
        /// A sentence.
        detail: String,
        /// Which attempt this was.
        attempt: u32,
    },
    /// It goes back to the tail of the queue unchanged, for another worker.
    PutBack,
}

/// Decides about a message; `message` is none when it could not be read, `options` are the task's where it is known.
pub(crate) fn decide(
    outcome: &Outcome,
    message: Option<&Message<'_>>,
    options: TaskOptions,
    unknown: Unknown,
) -> Verdict {
    let attempt = message.map_or(1, |message| message.attempts().saturating_add(1));
    let bury = |reason, detail| Verdict::Bury { reason, detail, attempt };
    let task = message.map_or("", Message::task);
    match outcome {
        Outcome::Succeeded => Verdict::Release,
        Outcome::Failed(error) if !error.is_retryable() => bury("failed", error.to_string()),
        Outcome::Failed(error) => retry_or(message, options, || bury("failed", error.to_string())),
        Outcome::Panicked { message: text } => retry_or(message, options, || bury("panicked", text.clone())),
        Outcome::TimedOut { .. } => retry_or(message, options, || bury("timed_out", outcome.to_string())),
        Outcome::Exceeded { .. } => retry_or(message, options, || bury("exceeded", outcome.to_string())),
        Outcome::Crashed(_) => retry_or(message, options, || bury("crashed", outcome.to_string())),
        Outcome::Expired { .. } => bury("expired", outcome.to_string()),
        Outcome::Killed { .. } => bury("killed", outcome.to_string()),
        Outcome::Lost { .. } => Verdict::PutBack,
        Outcome::Arguments { problem } => bury("arguments", format!("`{task}`: {problem}")),
        Outcome::Malformed { problem } => bury("malformed", problem.clone()),
        Outcome::Unknown => match unknown {
            Unknown::Bury => bury(
                "unknown",
                format!(
                    "no task `{task}` is registered in this worker: link its crate, or use --unknown requeue"
                ),
            ),
            Unknown::Requeue => Verdict::PutBack,
            Unknown::Ignore => Verdict::Release,
        },
    }
}

fn retry_or(message: Option<&Message<'_>>, options: TaskOptions, bury: impl FnOnce() -> Verdict) -> Verdict {
    let Some(message) = message else { return bury() };
    let limit = message.retry().unwrap_or(options.retry);
    if limit < 0 || i64::from(message.attempts()) < limit {
        Verdict::Retry(message.retried())
    } else {
        bury()
    }
}
