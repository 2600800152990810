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
use crate::protocol::published::Published;
use crate::task::Registration;

/// A task.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskDescription {
    /// Its path.
    task: String,
    /// Its signature in Rust.
    signature: String,
    /// Its documentation.
    doc: String,
    /// The queue of its calls, unless they name another.
    queue: String,
    /// The JSON Schema of its arguments by name.
    arguments: Value,
}

impl TaskDescription {
    fn of(task: &'static Registration) -> Self {
        let params = task.params.iter().map(|param| (param.name, param.ty, param.presence));
        Self {
            task: task.name.to_owned(),
            signature: task.signature(),
            doc: task.doc.trim().to_owned(),
            queue: task.options.queue.unwrap_or("default").to_owned(),
            arguments: schema::arguments(params),
        }
    }

    fn elsewhere(path: &str, task: &Published) -> Self {
        let params = task.params.iter().map(|param| (param.name.as_str(), param.ty.as_str(), param.presence));
        Self {
            task: path.to_owned(),
            signature: task.signature.clone(),
            doc: task.doc.clone(),
            queue: task.queue.clone(),
            arguments: schema::arguments(params),
        }
    }
}

/// Lists the tasks that the token may call, of this program and of workers, with the JSON Schema of their arguments.
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
    let elsewhere = match shared.published(&[]).await {
        Ok(elsewhere) => elsewhere,
        Err(problem) => return problem.into_response(),
    };
    let own = shared.registry.iter().map(TaskDescription::of);
    let others = elsewhere.iter().filter(|(path, _)| shared.registry.get(path).is_none());
    let others = others.map(|(path, task)| TaskDescription::elsewhere(path, task));
    let mut tasks: Vec<_> = own.chain(others).filter(|task| sender.sees(&task.task, &task.queue)).collect();
    tasks.sort_unstable_by(|one, other| one.task.cmp(&other.task));
    Format::accepted(&headers).answer(StatusCode::OK, &tasks)
}
