//! Reads waiting messages of all languages in a human-readable form, and drops them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Error;
use crate::inspect::{Inspector, Progress};
use crate::protocol::flow::Member;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::{FailedAttempt, Form, Message};
use crate::protocol::names::QueueName;
use crate::protocol::value::{PlainValue, describe_arguments};

/// How many messages one script call drops, in well under a millisecond of Redis's time.
const PURGE: u64 = 2000;
/// How many messages are read at a time, and the last place that a list can have.
const PAGE: u64 = 500;
const LAST: u64 = i64::MAX as u64;
/// How many bytes of a malformed message are shown.
const HEX: usize = 1024;

/// A message in a human-readable form. Fields are `None` if the message cannot be read, or does not have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The path of the task.
    pub task: Option<String>,
    /// `bare`, `payload`, `python` or `native`: see `docs/protocol.md`.
    pub form: Option<&'static str>,
    /// The positional arguments. `None` also if they cannot be decoded.
    pub arguments: Option<PlainValue>,
    /// The keyword arguments.
    pub keywords: Option<PlainValue>,
    /// All arguments as text.
    pub arguments_text: Option<String>,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The number of retries allowed; negative: no limit.
    pub retry: Option<i64>,
    /// For how long after its first failed attempt it is retried, in milliseconds.
    pub retry_for_ms: Option<u64>,
    /// The back-off after a failed attempt, such as `fixed:30s`.
    pub backoff: Option<String>,
    /// The last failed attempts, oldest first, up to ten.
    pub errors: Vec<FailedAttempt>,
    /// The id of the call.
    pub call_id: Option<String>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The timeout of one run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The headers, by name.
    pub headers: BTreeMap<String, String>,
    /// The queue and the id of the flow that the call is a step of.
    pub flow: Option<(String, String)>,
    /// The trace that the call belongs to, as W3C's `traceparent`.
    pub traceparent: Option<String>,
    /// The size in bytes.
    pub bytes: usize,
    /// Why the message cannot be read.
    pub problem: Option<String>,
    /// The first bytes of a message that cannot be read, in hexadecimal.
    pub hex: Option<String>,
}

impl MessageSummary {
    /// Of a message that is not there.
    pub(super) fn nothing() -> Self {
        Self {
            task: None,
            form: None,
            arguments: None,
            keywords: None,
            arguments_text: None,
            attempts: 0,
            retry: None,
            retry_for_ms: None,
            backoff: None,
            errors: Vec::new(),
            call_id: None,
            expires_ms: None,
            timeout_ms: None,
            headers: BTreeMap::new(),
            flow: None,
            traceparent: None,
            bytes: 0,
            problem: None,
            hex: None,
        }
    }

    /// Reads a message; the text of its arguments is cut at `limit` characters.
    #[must_use]
    pub fn of(bytes: &[u8], limit: usize) -> Self {
        let nothing = Self { bytes: bytes.len(), ..Self::nothing() };
        match Message::decode(bytes) {
            Ok(message) => Self {
                task: Some(message.task().to_owned()),
                form: Some(match message.form() {
                    Form::Bare => "bare",
                    Form::Payload => "payload",
                    Form::Python => "python",
                    Form::Native => "native",
                }),
                arguments: PlainValue::by_place(&message),
                keywords: PlainValue::by_keyword(&message),
                arguments_text: Some(describe_arguments(&message, limit)),
                attempts: message.attempts(),
                retry: message.retry(),
                retry_for_ms: message.retry_for_ms(),
                backoff: message.backoff().map(|backoff| backoff.to_string()),
                errors: message.errors(),
                call_id: message.id().map(|id| id.to_string()),
                expires_ms: message.expires_ms(),
                timeout_ms: message.timeout_ms(),
                headers: message.annotations().headers.into(),
                flow: message
                    .member()
                    .and_then(Member::decode)
                    .map(|step| (step.home.to_string(), step.flow.to_string())),
                traceparent: message.traceparent().map(str::to_owned),
                ..nothing
            },
            Err(error) => Self {
                problem: Some(error.to_string()),
                hex: Some(bytes[..bytes.len().min(HEX)].iter().map(|byte| format!("{byte:02x}")).collect()),
                ..nothing
            },
        }
    }
}

/// A waiting message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The place in the queue, from 0.
    pub position: u64,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

impl Inspector {
    /// Returns up to `count` waiting messages, oldest first, after skipping `start`. The text of arguments is cut at `limit`
    /// characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or the queue's key is not a list.
    pub async fn peek(
        &self,
        queue: &QueueName,
        start: u64,
        count: u64,
        limit: usize,
    ) -> Result<Vec<Waiting>, Error> {
        let (keys, mut waiting) = (QueueKeys::new(queue), Vec::new());
        let end = start.saturating_add(count).min(LAST);
        let mut next = start;
        while next < end {
            let asked = PAGE.min(end - next);
            let messages = self.broker.waiting(&keys, next, asked).await?;
            let last = (messages.len() as u64) < asked;
            waiting.extend(
                (next..)
                    .zip(&messages)
                    .map(|(position, bytes)| Waiting { position, message: MessageSummary::of(bytes, limit) }),
            );
            if last {
                break;
            }
            next += asked;
        }
        Ok(waiting)
    }

    /// Drops the messages that wait now, oldest first, in chunks; also those that wait for limits. Returns how many it dropped, which is less than the number of
    /// waiting messages if workers claim some meanwhile.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type.
    pub async fn purge(&self, queue: &QueueName, progress: Progress<'_>) -> Result<u64, Error> {
        let keys = QueueKeys::new(queue);
        let limited = self.broker.purge_limited(&keys).await?;
        let [total, ..] = self.broker.lengths(&keys).await?;
        let mut done = 0;
        while done < total {
            let dropped = self.broker.purge(&keys, PURGE.min(total - done)).await?;
            if dropped == 0 {
                break; // workers were quicker
            }
            done += dropped;
            progress(done, total);
        }
        Ok(limited + done)
    }
}
