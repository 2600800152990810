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
    /// It goes back to the head of the queue unchanged, to be tried again soon.
    PutBackFirst,
    /// It stays where it is: a sweeper brings it back when the worker is gone, and counts that.
    Leave,
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
        Outcome::Orphaned => Verdict::Leave,
        Outcome::Lost { .. } => Verdict::PutBackFirst,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Meta, native};
    use crate::runner::{Exit, Resource, TimeLimit};
    use crate::task::TaskError;
    use std::time::Duration;

    fn verdict(outcome: &Outcome, meta: Meta, retry: i64) -> Verdict {
        let bytes = native("f", b"\x05", &meta);
        let message = Message::decode(&bytes).unwrap();
        decide(outcome, Some(&message), TaskOptions::DEFAULT.with_retry(retry), Unknown::Bury)
    }

    fn buried(reason: &'static str, detail: &str, attempt: u32) -> Verdict {
        Verdict::Bury { reason, detail: detail.into(), attempt }
    }

    /// Outcomes of runs that came to no good end, with the reason and the detail of their dead letters.
    fn failures() -> Vec<(Outcome, &'static str, &'static str)> {
        let after = Duration::from_millis(1500);
        let timed_out = |limit, signal| Outcome::TimedOut { limit, after, signal };
        let exceeded = |resource, limit| Outcome::Exceeded { resource, limit };
        vec![
            (Outcome::Failed(TaskError::retry("no")), "failed", "no"),
            (Outcome::Panicked { message: "ouch".into() }, "panicked", "ouch"),
            (timed_out(TimeLimit::Soft, None), "timed_out", "timed out (soft) after 1.5s"),
            (
                timed_out(TimeLimit::Soft, Some(15)),
                "timed_out",
                "timed out (soft) after 1.5s, ended by SIGTERM",
            ),
            (
                timed_out(TimeLimit::Hard, Some(9)),
                "timed_out",
                "timed out (hard) after 1.5s, ended by SIGKILL",
            ),
            (exceeded(Resource::Memory, 5), "exceeded", "used more than 5 bytes of memory"),
            (exceeded(Resource::Cpu, 5), "exceeded", "used more than 5 s of CPU time"),
            (Outcome::Crashed(Exit::Code(3)), "crashed", "its process ended with code 3 before the task did"),
            (Outcome::Crashed(Exit::Signal(11)), "crashed", "its process died of SIGSEGV"),
            (
                Outcome::Crashed(Exit::OutOfMemory),
                "crashed",
                "the kernel killed its process for want of memory",
            ),
            (
                Outcome::Crashed(Exit::Garbage),
                "crashed",
                "its process wrote what is no report, and was killed",
            ),
        ]
    }

    #[test]
    fn a_run_that_came_to_no_good_end_is_tried_again_as_often_as_it_may_be() {
        for (outcome, reason, detail) in failures() {
            let again = |meta: Meta| {
                Verdict::Retry(native("f", b"\x05", &Meta { attempts: meta.attempts + 1, ..meta }))
            };
            let attempts = |attempts| Meta { attempts, ..Meta::default() };
            assert_eq!(verdict(&outcome, attempts(0), 0), buried(reason, detail, 1));
            assert_eq!(verdict(&outcome, attempts(1), 2), again(attempts(1)), "{outcome}");
            assert_eq!(verdict(&outcome, attempts(2), 2), buried(reason, detail, 3));
            assert_eq!(verdict(&outcome, attempts(999), -1), again(attempts(999)), "{outcome}");
            // What the call says comes before what its task says; its deadline and its timeout stay.
            let meta = Meta { retry: Some(1), deadline_ms: Some(7), timeout_ms: Some(9), ..Meta::default() };
            assert_eq!(verdict(&outcome, meta, 0), again(meta), "{outcome}");
            assert_eq!(verdict(&outcome, Meta { retry: Some(0), ..meta }, 5), buried(reason, detail, 1));
        }
    }

    #[test]
    fn what_is_of_no_use_any_more_is_never_tried_again() {
        for (outcome, reason, detail) in [
            (
                Outcome::Expired { late: Duration::from_millis(2500) },
                "expired",
                "its deadline had passed 2.5s before it could begin",
            ),
            (Outcome::Killed { by: "ann@host".into() }, "killed", "killed by ann@host"),
            (Outcome::Failed(TaskError::fatal("no")), "failed", "no"),
            (Outcome::Arguments { problem: "no".into() }, "arguments", "`f`: no"),
            (Outcome::Malformed { problem: "no".into() }, "malformed", "no"),
        ] {
            let meta = Meta { attempts: 1, retry: Some(-1), ..Meta::default() };
            assert_eq!(verdict(&outcome, meta, -1), buried(reason, detail, 2));
        }
    }

    #[test]
    fn what_could_not_run_for_our_own_fault_is_put_back_and_uses_no_attempt() {
        let lost = Outcome::Lost { problem: "no process could be had".into() };
        for attempts in [0, 5] {
            assert_eq!(verdict(&lost, Meta { attempts, ..Meta::default() }, 0), Verdict::PutBackFirst);
        }
    }

    #[test]
    fn an_unknown_task_is_what_the_worker_was_told() {
        for (unknown, verdict) in [
            (Unknown::Ignore, Verdict::Release),
            (Unknown::Requeue, Verdict::PutBack),
            (
                Unknown::Bury,
                buried(
                    "unknown",
                    "no task `f` is registered in this worker: link its crate, or use --unknown requeue",
                    1,
                ),
            ),
        ] {
            let bytes = native("f", b"", &Meta::default());
            let message = Message::decode(&bytes).unwrap();
            assert_eq!(decide(&Outcome::Unknown, Some(&message), TaskOptions::DEFAULT, unknown), verdict);
        }
    }
}
