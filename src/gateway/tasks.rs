//! `GET /v1/tasks`: shows which tasks can be called, and how.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::body::Format;
use super::schema;
use super::shared::Shared;
use crate::task::Registration;

/// A task.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskDescription {
    /// Its path.
    task: &'static str,
    /// Its signature in Rust.
    signature: String,
    /// Its documentation.
    doc: &'static str,
    /// The queue of its calls, unless they name another.
    queue: &'static str,
    /// The JSON Schema of its arguments by name.
    arguments: Value,
}

impl TaskDescription {
    fn of(task: &'static Registration) -> Self {
        Self {
            task: task.name,
            signature: task.signature(),
            doc: task.doc.trim(),
            queue: task.options.queue.unwrap_or("default"),
            arguments: schema::arguments(task),
        }
    }
}

/// Lists the tasks that the token may call, with the JSON Schema of their arguments.
#[utoipa::path(
    get,
    path = "/v1/tasks",
    tag = "tasks",
    responses((status = 200, body = Vec<TaskDescription>, description = "The tasks, ordered by their paths"))
)]
pub(super) async fn list(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let sender = match shared.sender(&headers).await {
        Ok(sender) => sender,
        Err(problem) => return problem.into_response(),
    };
    let tasks = shared.registry.iter().map(TaskDescription::of);
    let tasks: Vec<_> = tasks.filter(|task| sender.sees(task.task, task.queue)).collect();
    Format::accepted(&headers).answer(StatusCode::OK, &tasks)
}
