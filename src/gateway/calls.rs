//! `/v1/calls/{id}`: shows a call, cancels it, and waits for its result.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::{IntoParams, ToSchema};

use super::body::{Format, busy};
use super::problem::Problem;
use super::shared::Shared;
use crate::client::Handle;
use crate::error::Error;
use crate::inspect::{CallRecord, PlainValue};
use crate::json::words::duration;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::names::QueueName;

/// At how many characters arguments are cut.
const SHOWN: usize = 100_000;

/// Where a call is.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Place {
    /// The queue of the call; default: all queues are searched.
    queue: Option<String>,
}

/// Where a call is, and how long to wait for it.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wait {
    /// The queue of the call; default: all queues are searched.
    queue: Option<String>,
    /// How long to wait for the end of the call, such as `30s`, at most a minute; default: not at all.
    wait: Option<String>,
}

/// What a call has come to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CallResult {
    id: String,
    queue: String,
    task: Option<String>,
    /// `succeeded`, `dead`, `cancelled` or `expired` when the call has ended.
    state: String,
    /// What the task returned, if it succeeded. What JSON does not have is written as docs/cli.md says.
    #[schema(value_type = serde_json::Value)]
    result: Option<PlainValue>,
    /// Why it has no result although it succeeded.
    result_problem: Option<String>,
    /// Why it is dead, in one word.
    reason: Option<String>,
    /// The error of its last attempt.
    error: Option<String>,
}

/// What a cancellation has found.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CancelledCall {
    id: String,
    queue: String,
    /// The state in which the call was found.
    found: String,
}

impl CallResult {
    pub(super) fn of(call: &CallRecord) -> Self {
        let CallRecord { id, queue, state, result, result_problem, reason, error, .. } = call.clone();
        Self {
            id: id.unwrap_or_default(),
            queue,
            task: call.message.task.clone(),
            state: state.name().to_owned(),
            result,
            result_problem,
            reason,
            error,
        }
    }
}

/// A call that was found.
pub(super) struct Found {
    pub(super) queue: QueueName,
    pub(super) id: CallId,
    pub(super) call: CallRecord,
}

impl Shared {
    /// Finds a call that the sender may see.
    pub(super) async fn find(
        &self,
        headers: &HeaderMap,
        id: &str,
        queue: Option<&str>,
    ) -> Result<Found, Problem> {
        let sender = self.sender(headers).await?;
        if id.is_empty() {
            return Err(Problem::malformed("the id is empty"));
        }
        let id = CallId::from(id);
        let inspector = self.inspector().await?;
        let queues: Vec<QueueName> = match queue {
            Some(queue) => vec![QueueName::parse(queue)?],
            None => inspector.queue_names().await.map_err(Error::from)?.into_iter().collect(),
        };
        for queue in queues {
            let Some(call) = inspector.call(&queue, id, SHOWN).await? else { continue };
            sender.check(call.message.task.as_deref().unwrap_or_default(), &queue)?;
            return Ok(Found { queue, id, call });
        }
        Err(Problem::not_found(format!(
            "no call {id} is known: it may have run without a record, or its record has expired (see `keep`)"
        )))
    }

    /// A place for a request that waits.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| busy())
    }
}

impl Found {
    /// The call after it has ended, or after this time.
    ///
    /// # Errors
    /// It has no record, so that nobody hears of its end.
    pub(super) async fn after(self, shared: &Shared, time: Duration) -> Result<Self, Problem> {
        let Self { queue, id, call } = self;
        if call.state.is_final() || time.is_zero() {
            return Ok(Self { queue, id, call });
        }
        if !call.has_record {
            return Err(no_record());
        }
        let handle: Handle = shared.client.handle_of(&queue, id);
        let ended = tokio::select! {
            ended = handle.ended(time) => ended?,
            // Whoever waits is answered at once.
            () = shared.stopping() => None,
        };
        // The record has more than was pushed. That of a call without `keep` is gone.
        let now = shared.inspector().await?.call(&queue, id, SHOWN).await?;
        let pushed = || ended.and_then(|record| CallRecord::of_record(&queue, id, &record));
        let call = now.or_else(pushed).unwrap_or(call);
        Ok(Self { queue, id, call })
    }
}

/// Shows a call in any state: the fields of `calls show --json`.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}",
    tag = "calls",
    params(("id" = String, Path, description = "The id of the call, or the text that stands for it"), Place),
    responses(
        (status = 200, body = Object, description = "The call, as docs/cli.md describes it"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call is unknown"),
    )
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    place: Result<Query<Place>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let Query(place) = place.map_err(|error| Problem::malformed(error.body_text()))?;
        shared.find(&headers, &id, place.queue.as_deref()).await
    };
    match shown.await {
        Ok(found) => Format::accepted(&headers).answer(StatusCode::OK, &found.call),
        Err(problem) => problem.into_response(),
    }
}

/// Cancels a call, whatever its state. Cancelling again is harmless.
#[utoipa::path(
    delete,
    path = "/v1/calls/{id}",
    tag = "calls",
    params(("id" = String, Path, description = "The id of the call, or the text that stands for it"), Place),
    responses(
        (status = 200, body = CancelledCall, description = "The call is cancelled, or had ended already"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call is unknown"),
    )
)]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    place: Result<Query<Place>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let cancelled = async {
        let Query(place) = place.map_err(|error| Problem::malformed(error.body_text()))?;
        let Found { queue, id, call } = shared.find(&headers, &id, place.queue.as_deref()).await?;
        let handle: Handle = shared.client.handle_of(&queue, id);
        let found = match handle.cancel().await? {
            Cancelled::Scheduled => CallState::Scheduled,
            Cancelled::Retrying => CallState::Retrying,
            Cancelled::Waiting => CallState::Waiting,
            Cancelled::Running => CallState::Running,
            Cancelled::Ended(state) => state,
            // It ended between the two requests.
            Cancelled::NotFound => call.state,
        };
        Ok(CancelledCall { id: id.to_string(), queue: queue.to_string(), found: found.name().to_owned() })
    };
    match cancelled.await {
        Ok(cancelled) => Format::accepted(&headers).answer(StatusCode::OK, &cancelled),
        Err::<_, Problem>(problem) => problem.into_response(),
    }
}

/// Returns what a call has come to, if it wants to, after waiting for its end.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}/result",
    tag = "calls",
    params(("id" = String, Path, description = "The id of the call, or the text that stands for it"), Wait),
    responses(
        (status = 200, body = CallResult, description = "The call has ended: `state` says how"),
        (status = 202, body = CallResult, description = "The call has not ended"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call is unknown"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The call keeps no record"),
    )
)]
pub(super) async fn result(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    wait: Result<Query<Wait>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let result = async {
        let Query(Wait { queue, wait }) = wait.map_err(|error| Problem::malformed(error.body_text()))?;
        let time = wait.as_deref().map(duration).transpose();
        let time = time.map_err(|error| Problem::malformed(format!("`wait`: {error}")))?.unwrap_or_default();
        let found = shared.find(&headers, &id, queue.as_deref()).await?;
        let _place = shared.place()?;
        found.after(&shared, time.min(shared.bounds.wait)).await
    };
    match result.await {
        Ok(Found { call, .. }) => {
            let status = if call.state.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
            Format::accepted(&headers).answer(status, &CallResult::of(&call))
        }
        Err::<_, Problem>(problem) => problem.into_response(),
    }
}

impl Place {
    pub(super) fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }
}

/// That nobody hears of the end of a call.
pub(super) fn no_record() -> Problem {
    let detail = "the call keeps no record, so that its end is not known: enqueue it with `keep`";
    Problem::new(StatusCode::CONFLICT, "no_record", detail)
}

/// Whether nothing more happens to a call.
pub(super) fn has_ended(call: &CallRecord) -> bool {
    CallState::is_final(call.state)
}
