//! Shows calls in every state: a [`CallRecord`] has what their messages, their records and their dead letters say.

mod cancel;
mod find;
mod list;
mod wait;

use serde::Serialize;

pub use self::list::CallFilter;

use crate::broker::{Record, StreamEntry};
use crate::inspect::{DeadLetter, MessageSummary};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::message::FailedAttempt;
use crate::protocol::names::{QueueName, WorkerId};
use crate::protocol::value::PlainValue;

/// A call, as far as Redis knows it. Times are milliseconds since 1970 by the server's clock. Without a record (see
/// [`Call::keep`](crate::Call::keep)) a call is known only by its message, and not at all once it has succeeded.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// The id of the call. `None` for a message without one.
    pub id: Option<String>,
    /// The queue.
    pub queue: String,
    /// The state. A call without a record counts as running as soon as a worker owns it.
    pub state: CallState,
    /// Whether the call has a record now.
    pub has_record: bool,
    /// When the call was enqueued or scheduled; only with a record.
    pub queued_ms: Option<u64>,
    /// When the call is due, or was.
    pub due_ms: Option<u64>,
    /// When the last attempt began. Without a record only of a long run, by the worker's clock: see
    /// [`Running::started_ms`](crate::inspect::Running::started_ms).
    pub began_ms: Option<u64>,
    /// When the call ended.
    pub ended_ms: Option<u64>,
    /// The number of the last attempt that began.
    pub attempt: Option<u64>,
    /// The worker that runs the call, or ran it last.
    pub worker: Option<String>,
    /// The slot of that worker.
    pub wire_id: Option<String>,
    /// The limit for which the call waits.
    pub limit: Option<String>,
    /// How much of the last run is done, from 0 to 1, as it said itself: see [`Context::progress`](crate::Context::progress).
    pub progress: Option<f64>,
    /// What the run did then.
    pub progress_text: Option<String>,
    /// The last 16 KiB of what its runs logged, a line each: see [`Context::log`](crate::Context::log). Empty in a list.
    pub log: Vec<String>,
    /// What the call returned. `None` in a list.
    pub result: Option<PlainValue>,
    /// Why the result of a call that succeeded is not kept.
    pub result_problem: Option<String>,
    /// Why the call is dead, in one word.
    pub reason: Option<String>,
    /// The error with which it became a dead letter.
    pub error: Option<String>,
    /// The id of the dead letter.
    pub letter: Option<String>,
    /// Who cancelled the call.
    pub by: Option<String>,
    /// The message. All but the task and the errors of failed attempts is empty once the message is gone.
    #[serde(flatten)]
    pub message: MessageSummary,
}

impl CallRecord {
    /// The id, as [`Inspector::cancel`](crate::Inspector::cancel) takes it.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        self.id.as_deref().and_then(|id| CallId::parse(id).ok())
    }

    /// When the call is due if it is scheduled, was enqueued if it waits, began if it runs, and has ended otherwise, in
    /// milliseconds since 1970, as far as that is known.
    #[must_use]
    pub fn at_ms(&self) -> Option<u64> {
        let queued_ms = || self.queued_ms.or_else(|| self.call_id()?.made_ms());
        match self.state {
            CallState::Scheduled | CallState::Retrying => self.due_ms,
            CallState::Waiting => queued_ms(),
            CallState::Running => self.began_ms.or_else(queued_ms),
            _ => self.ended_ms,
        }
    }

    /// A call by its message, which was found in the place of that state.
    fn of_message(queue: &QueueName, state: CallState, message: MessageSummary) -> Self {
        Self {
            id: message.call_id.clone(),
            queue: queue.to_string(),
            state,
            has_record: false,
            queued_ms: None,
            due_ms: None,
            began_ms: None,
            ended_ms: None,
            attempt: None,
            worker: None,
            wire_id: None,
            limit: None,
            progress: None,
            progress_text: None,
            log: Vec::new(),
            result: None,
            result_problem: None,
            reason: None,
            error: None,
            letter: None,
            by: None,
            message,
        }
    }

    /// A call in the timetable.
    fn scheduled(queue: &QueueName, id: CallId, due_ms: u64, message: MessageSummary) -> Self {
        let state = if message.attempts > 0 { CallState::Retrying } else { CallState::Scheduled };
        let call = Self::of_message(queue, state, message);
        Self { id: Some(id.to_string()), due_ms: Some(due_ms), ..call }
    }

    /// A call whose message a slot owns.
    fn owned(queue: &QueueName, wire_id: String, message: MessageSummary) -> Self {
        let worker = WorkerId::of_wire_id(queue, &wire_id).map(|worker| worker.to_string());
        Self { worker, wire_id: Some(wire_id), ..Self::of_message(queue, CallState::Running, message) }
    }

    /// A call that became a dead letter.
    fn buried(queue: &QueueName, letter: DeadLetter) -> Self {
        let expired = letter.reason == CallState::Expired.name();
        let state = if expired { CallState::Expired } else { CallState::Dead };
        Self {
            ended_ms: Some(letter.at_ms),
            attempt: Some(letter.attempt),
            reason: Some(letter.reason),
            error: Some(letter.detail),
            letter: Some(letter.id),
            ..Self::of_message(queue, state, letter.message)
        }
    }

    /// A call without a record that a worker has listed when it ended. `None`: the entry is another program's.
    fn finished(queue: &QueueName, entry: &StreamEntry) -> Option<Self> {
        let bytes = |name| entry.fields.get(name).map(Vec::as_slice);
        let text = |name| bytes(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let state = CallState::parse(&text("state")?)?;
        let ended_ms: u64 = entry.id.split('-').next()?.parse().ok()?;
        let id = bytes("id").and_then(|id| id.try_into().ok()).map(|id| CallId::from_bytes(id).to_string());
        let took: Option<u64> = text("took").and_then(|took| took.parse().ok());
        let message = MessageSummary { task: text("task"), call_id: id, ..MessageSummary::nothing() };
        let wire_id = text("slot");
        let worker = wire_id.as_deref().and_then(|wire_id| WorkerId::of_wire_id(queue, wire_id));
        Some(Self {
            began_ms: took.map(|took| ended_ms.saturating_sub(took)),
            ended_ms: Some(ended_ms),
            attempt: text("attempt").and_then(|attempt| attempt.parse().ok()).filter(|attempt| *attempt > 0),
            worker: worker.map(|worker| worker.to_string()),
            wire_id,
            by: text("by"),
            ..Self::of_message(queue, state, message)
        })
    }

    /// A call of which only the record is there. `None`: what stands there is no record.
    pub(crate) fn of_record(queue: &QueueName, id: CallId, record: &Record) -> Option<Self> {
        let message = MessageSummary::nothing();
        let call = Self { id: Some(id.to_string()), ..Self::of_message(queue, record.state()?, message) };
        Some(call.with_record(record))
    }

    /// Adds what the record says, which was read after the message.
    fn with_record(mut self, record: &Record) -> Self {
        let text = |name| record.text(name).map(str::to_owned);
        let Some(state) = record.state() else { return self };
        self.has_record = true;
        self.queued_ms = record.number("queued");
        self.state = state;
        self.due_ms = self.due_ms.or_else(|| record.number("due"));
        self.began_ms = record.number("began");
        self.ended_ms = record.number("ended").or(self.ended_ms);
        self.attempt = record.number("attempt").or(self.attempt);
        if let (None, Some(slot)) = (&self.wire_id, text("slot")) {
            let queue = QueueName::parse(&self.queue).ok();
            self.worker =
                queue.and_then(|queue| WorkerId::of_wire_id(&queue, &slot)).map(|id| id.to_string());
            self.wire_id = Some(slot);
        }
        let limit = text("limit").filter(|limit| state == CallState::Waiting && !limit.is_empty());
        self.limit = limit.or(self.limit);
        self.progress = record.text("progress").and_then(|share| share.parse().ok());
        self.progress_text = text("text").filter(|text| !text.is_empty());
        self.log = record.text("log").unwrap_or_default().lines().map(str::to_owned).collect();
        self.result = record.bytes("result").and_then(PlainValue::decode);
        let too_large = record
            .number("too_large")
            .map(|bytes| format!("it has {bytes} bytes, and at most 1 MiB is kept"));
        self.result_problem = too_large.or_else(|| text("unencodable"));
        self.reason = text("reason").or(self.reason);
        self.error = text("error").or(self.error);
        self.letter = text("letter").or(self.letter);
        self.by = text("by");
        if self.message.errors.is_empty() {
            self.message.errors = record.bytes("errors").map(FailedAttempt::decode_all).unwrap_or_default();
        }
        self.message.task = self.message.task.or_else(|| text("task"));
        self
    }
}
