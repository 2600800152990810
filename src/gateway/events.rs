//! `GET /v1/calls/{id}/events`: tells what happens to a call, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use serde_json::json;

use super::calls::{CallResult, Found, Place, has_ended};
use super::problem::Problem;
use super::shared::Shared;
use crate::inspect::CallRecord;

/// How often the progress of a run is read. Its end is pushed.
const READ: Duration = Duration::from_millis(500);

/// What was told last.
#[derive(PartialEq)]
struct Told {
    state: &'static str,
    attempt: Option<u64>,
    progress: Option<f64>,
    text: Option<String>,
    log: Vec<String>,
}

impl Told {
    fn of(call: &CallRecord) -> Self {
        Self {
            state: call.state.name(),
            attempt: call.attempt,
            progress: call.progress,
            text: call.progress_text.clone(),
            log: call.log.clone(),
        }
    }

    /// What has changed since.
    fn events(&self, before: Option<&Self>) -> Vec<Event> {
        let mut events = Vec::new();
        if before.is_none_or(|before| (before.state, before.attempt) != (self.state, self.attempt)) {
            events.push(event("state", &json!({ "state": self.state, "attempt": self.attempt })));
        }
        let has_progress = self.progress.is_some() || self.text.is_some();
        let is_same = |before: &Self| (before.progress, &before.text) == (self.progress, &self.text);
        if has_progress && !before.is_some_and(is_same) {
            events.push(event("progress", &json!({ "progress": self.progress, "text": self.text })));
        }
        let lines = before.map_or(&[][..], |before| &before.log);
        // The log keeps its last lines only.
        let new = self.log.strip_prefix(lines).unwrap_or(&self.log);
        events.extend(new.iter().map(|line| event("log", &json!({ "line": line }))));
        events
    }
}

fn event(name: &str, data: &serde_json::Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// Tells what happens to a call, as server-sent events: `state`, `progress` and `log` when they change, and `result` at its end.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}/events",
    tag = "calls",
    params(("id" = String, Path, description = "The id of the call, or the text that stands for it"), Place),
    responses(
        (status = 200, content_type = "text/event-stream", body = String, description = "The events, until the call has ended"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call is unknown"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The call keeps no record"),
    )
)]
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    place: Result<Query<Place>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let begun = async {
        let Query(place) = place.map_err(|error| Problem::malformed(error.body_text()))?;
        let found = shared.find(&headers, &id, place.queue()).await?;
        if !found.call.has_record && !has_ended(&found.call) {
            return Err(super::calls::no_record());
        }
        Ok((found, shared.place()?))
    };
    let (found, waiting) = match begun.await {
        Ok(begun) => begun,
        Err(problem) => return problem.into_response(),
    };
    let steps = stream::unfold((Some(found), None, waiting), move |(found, before, waiting)| {
        let shared = Arc::clone(&shared);
        async move {
            let found: Found = found?;
            let told = Told::of(&found.call);
            let mut events = told.events(before.as_ref());
            let is_over = has_ended(&found.call) || *shared.stops.borrow();
            if is_over {
                if has_ended(&found.call) {
                    let result = serde_json::to_value(CallResult::of(&found.call)).unwrap_or_default();
                    events.push(event("result", &result));
                }
                return Some((events, (None, None, waiting)));
            }
            let next = match found.after(&shared, READ).await {
                Ok(found) => Some(found),
                Err(problem) => {
                    events.push(event("error", &serde_json::to_value(problem).unwrap_or_default()));
                    None
                }
            };
            Some((events, (next, Some(told), waiting)))
        }
    });
    let events = steps.flat_map(|events| stream::iter(events.into_iter().map(Ok::<_, Infallible>)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
