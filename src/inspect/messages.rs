//! What waits? Messages of all languages, read for people.

use serde::Serialize;

use crate::error::Error;
use crate::inspect::{Inspector, Progress};
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::{Form, Message};
use crate::protocol::names::QueueName;
use crate::protocol::value::{PlainValue, describe_arguments};

/// How many messages one call drops: well below a millisecond of Redis.
const PURGE: u64 = 2000;
/// How many messages are read at a time, and the last place that a list can have.
const PAGE: u64 = 500;
const LAST: u64 = i64::MAX as u64;
/// How many bytes of a message that cannot be read are shown.
const HEX: usize = 1024;

/// One message, read for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The path of its task; none when it cannot be read. So for those below.
    pub task: Option<String>,
    /// `bare`, `payload`, `python` or `native`: see `docs/protocol.md`.
    pub form: Option<&'static str>,
    /// Its arguments by place. None also when they are no values.
    pub arguments: Option<PlainValue>,
    /// Its arguments by keyword, where there are any.
    pub keywords: Option<PlainValue>,
    /// All its arguments as text.
    pub arguments_text: Option<String>,
    /// How many attempts failed so far.
    pub attempts: u32,
    /// How often it may be retried, when it says so; negative is for ever.
    pub retry: Option<i64>,
    /// The id of its call, when it has one.
    pub call_id: Option<String>,
    /// Until when a run of it is of use, when it says so, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
    /// How long one run may go on, when it says so, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Its size in bytes.
    pub bytes: usize,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// The first bytes of one that cannot be read, in hexadecimal.
    pub hex: Option<String>,
}

impl MessageSummary {
    /// Reads a message; the text of its arguments is cut at `limit` characters.
    #[must_use]
    pub fn of(bytes: &[u8], limit: usize) -> Self {
        let nothing = Self {
            task: None,
            form: None,
            arguments: None,
            keywords: None,
            arguments_text: None,
            attempts: 0,
            retry: None,
            call_id: None,
            deadline_ms: None,
            timeout_ms: None,
            bytes: bytes.len(),
            problem: None,
            hex: None,
        };
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
                call_id: message.id().map(|id| id.to_string()),
                deadline_ms: message.deadline_ms(),
                timeout_ms: message.timeout_ms(),
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

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// Its place in the queue: 0 is next.
    pub position: u64,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

impl Inspector {
    /// Up to `count` waiting messages, oldest first, without the first `start`. The text of arguments is cut at `limit`
    /// characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or the queue's key is no list.
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

    /// Drops the messages that wait now, oldest first, a part at a time. Gives how many it
    /// dropped: fewer than there were where workers took some meanwhile.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type.
    pub async fn purge(&self, queue: &QueueName, progress: Progress<'_>) -> Result<u64, Error> {
        let keys = QueueKeys::new(queue);
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
        Ok(done)
    }
}
