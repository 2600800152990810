//! `POST /v1/calls`: checks calls and enqueues them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::body::{Format, Received, busy, receive};
use super::new_call::{self, NewCall};
use super::problem::Problem;
use super::published::Elsewhere;
use super::shared::Shared;
use super::tokens::{Sender, digest};
use crate::client::Conflict;
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::task::Call;

/// How long an idempotency key counts.
const KEY_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// What became of a call.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Accepted {
    /// 202.
    status: u16,
    /// The id of the call, by which it can be followed; `null` for a call of Python or Go that is not scheduled.
    id: Option<String>,
    /// Its queue.
    queue: String,
    /// Whether it is a new call. Otherwise it is unique, and the id is that of the call which exists.
    new: bool,
}

/// What became of one call of many.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Outcome {
    Accepted(Accepted),
    Refused(Problem),
}

/// The key of a request that is to be carried out once.
struct Key {
    /// A digest of the key and its sender.
    key: String,
    /// A digest of the request.
    request: String,
}

/// Enqueues a call, or an array of calls, and answers when they are in Redis.
///
/// An array is answered with an array: an outcome for each call, in the same order, each with its own `status`. The status of the
/// answer is 202 if at least one call was accepted, or else that of the first.
#[utoipa::path(
    post,
    path = "/v1/calls",
    tag = "calls",
    params(("Idempotency-Key" = Option<String>, Header, description =
        "Requests with one key and the same body make the calls once, and get the same answer, for 24 hours")),
    request_body(content((NewCall = "application/json"), (NewCall = "application/msgpack")),
        description = "A call, or an array of calls"),
    responses(
        (status = 202, body = Accepted, description = "The call is in Redis"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The body cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "A token is needed"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The token is not for this task or queue"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The task is unknown"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The id or the key is taken"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body or the message is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is of another type"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "An argument or option does not fit"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "The gateway or the queue is full"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Redis cannot be used; nothing was enqueued"),
        (status = 504, body = Problem, content_type = "application/problem+json", description = "Redis did not reply: the call may have been enqueued"),
    )
)]
pub(super) async fn enqueue(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> Response {
    let format = Format::accepted(&headers);
    match accept(&shared, &headers, body).await {
        Ok(Answer::One(accepted)) => format.answer(StatusCode::ACCEPTED, &accepted),
        Ok(Answer::Many(outcomes)) => {
            let accepted = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Accepted(_)));
            let status = match outcomes.first() {
                Some(Outcome::Refused(problem)) if !accepted => problem.status(),
                _ => StatusCode::ACCEPTED,
            };
            format.answer(status, &outcomes)
        }
        Err(problem) => problem.into_response(),
    }
}

enum Answer {
    One(Accepted),
    Many(Vec<Outcome>),
}

async fn accept(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Answer, Problem> {
    let sender = shared.sender(headers).await?;
    let received = receive(body, headers, shared.bounds.body, &shared.memory).await?;
    let value = received.value(headers)?;
    let key = key(headers, &sender, &received)?;
    let count = match &value {
        Value::Array(values) => values.len(),
        _ => 1,
    };
    if count > shared.bounds.batch {
        let detail = format!("{count} calls at a time are more than the limit of {}", shared.bounds.batch);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many", detail));
    }
    // Held until the calls are in Redis.
    let Ok(_places) = shared.calls.try_acquire_many(count as u32) else { return Err(busy()) };
    let (values, is_one) = match value {
        Value::Array(values) => (values, false),
        value => (vec![value], true),
    };
    let elsewhere = elsewhere(shared, &values).await?;
    let prepare = |(index, value)| {
        let key = key.as_ref().map(|key| (key, index));
        prepare(shared, &elsewhere, &sender, headers, value, key)
    };
    let calls: Vec<Result<Call, Problem>> = values.into_iter().enumerate().map(prepare).collect();
    // A request of which nothing can be done may be corrected, and sent again with its key.
    if let Some(key) = &key
        && calls.iter().any(Result::is_ok)
    {
        key.take(shared).await?;
    }
    let mut sent = calls.into_iter().map(|call| send(shared, call, key.is_some()));
    match sent.next() {
        Some(only) if is_one => only.await.map(Answer::One),
        first => {
            let outcomes =
                join_all(first.into_iter().chain(sent)).await.into_iter().map(|outcome| match outcome {
                    Ok(accepted) => Outcome::Accepted(accepted),
                    Err(problem) => Outcome::Refused(problem),
                });
            Ok(Answer::Many(outcomes.collect()))
        }
    }
}

/// Enqueues a call as it would be for a request without a token. Returns its id, its queue, and whether it is a new call.
#[cfg(feature = "web")]
pub(super) async fn enqueue_one(
    shared: &Shared,
    call: Value,
) -> Result<(Option<String>, String, bool), Problem> {
    let elsewhere = shared.published(&[]).await?;
    let new = NewCall::of(call)?;
    let task = new.find(&shared.registry, &elsewhere, shared.accepts_unknown)?;
    let queue = new.queue_name(Some(&task))?;
    let accepted = send(shared, new.into_call(task, queue), false).await?;
    Ok((accepted.id, accepted.queue, accepted.new))
}

/// The published tasks, if these calls need them.
async fn elsewhere(shared: &Shared, values: &[Value]) -> Result<Elsewhere, Problem> {
    let is_foreign =
        |value: &&Value| matches!(value.get("language"), Some(Value::String(name)) if name != "rust");
    let paths =
        values.iter().filter(|value| !is_foreign(value)).filter_map(|value| value.get("task")?.as_str());
    let unknown: Vec<&str> = paths.filter(|path| shared.registry.get(path).is_none()).collect();
    match unknown.is_empty() || shared.accepts_unknown {
        true => Ok(Elsewhere::default()),
        false => shared.published(&unknown).await,
    }
}

/// The call of a description, checked.
fn prepare(
    shared: &Shared,
    elsewhere: &Elsewhere,
    sender: &Sender,
    headers: &HeaderMap,
    value: Value,
    key: Option<(&Key, usize)>,
) -> Result<Call, Problem> {
    let new = NewCall::of(value)?;
    let task = new.find(&shared.registry, elsewhere, shared.accepts_unknown);
    // Before any other answer, which would tell whether the task exists, and how it is called.
    let queue = new.queue_name(task.as_ref().ok())?;
    sender.check(&new.task, &queue)?;
    let task = task?;
    if key.is_some() && (!new.is_native() || new.is_unique(task)) {
        return Err(Problem::invalid(
            "a request with an Idempotency-Key cannot make calls of Python or Go, or unique or ordered calls",
        ));
    }
    let has_id = new.has_id();
    if key.is_some() && has_id {
        return Err(Problem::invalid(
            "a request with an Idempotency-Key gives its calls their ids: leave out `id`",
        ));
    }
    let is_native = new.is_native();
    let call = new.into_call(task, queue)?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let call = match is_native {
        true => new_call::in_trace(call, text("traceparent"), text("tracestate")),
        false => call,
    };
    Ok(match key {
        Some((key, index)) => {
            let name = format!("{}:{}:{index}", key.key, key.request);
            new_call::once(
                call.with_known_id(CallId::from(name.as_str())),
                format!("{}:{index}", key.key),
                KEY_PERIOD,
            )
        }
        None => call,
    })
}

/// Enqueues a call, if it can be made. `once`: a call with this id is the same call.
async fn send(shared: &Shared, call: Result<Call, Problem>, once: bool) -> Result<Accepted, Problem> {
    let call = call?;
    let own_id = call.call_id();
    let handle = match shared.client.enqueue(call).await {
        // Of an earlier request with the same key.
        Err(Error::Exists { id, queue, .. }) if once && Some(id) == own_id => {
            shared.client.handle_of(&queue, id)
        }
        enqueued => enqueued.map_err(|error| told(error, own_id))?,
    };
    let is_same = once && handle.id() == own_id;
    if once && !is_same {
        let detail = "another request with this Idempotency-Key had another body";
        return Err(Problem::new(StatusCode::CONFLICT, "key_taken", detail));
    }
    Ok(Accepted {
        status: StatusCode::ACCEPTED.as_u16(),
        id: handle.id().map(|id| id.to_string()),
        queue: handle.queue().to_string(),
        new: is_same || !matches!(handle.conflict(), Some(Conflict::Held(_))),
    })
}

/// Why a call was not enqueued. One that may have been names its id, by which that can be found out.
fn told(error: Error, id: Option<CallId>) -> Problem {
    let is_uncertain = error.may_have_been_applied();
    let problem = Problem::from(error);
    match id.filter(|_| is_uncertain) {
        Some(id) => problem.with(&format!("; if it was, its id is {id}")),
        None => problem,
    }
}

/// The idempotency key of a request.
fn key(headers: &HeaderMap, sender: &Sender, received: &Received) -> Result<Option<Key>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Problem::malformed(format!("the Idempotency-Key must have 1 to {MAX_KEY} bytes")));
    }
    let name = sender.name.as_deref().unwrap_or_default();
    let own = [name.as_bytes(), b"\n", key.as_bytes()].concat();
    Ok(Some(Key { key: digest(&own), request: digest(received.bytes()) }))
}

impl Key {
    /// Connects the key with this request.
    ///
    /// # Errors
    /// It is connected with another one.
    async fn take(&self, shared: &Shared) -> Result<(), Problem> {
        let broker = shared.inspector().await?.broker();
        let taken = broker.take_key(&self.key, &self.request, KEY_PERIOD).await.map_err(Error::from)?;
        if taken == self.request {
            return Ok(());
        }
        let detail = "another request with this Idempotency-Key had another body: use a new key for it";
        Err(Problem::new(StatusCode::CONFLICT, "key_taken", detail))
    }
}
