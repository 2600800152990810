//! `GET /v1/tasks`: shows which tasks can be called, and how.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::body::Format;
use super::published::Elsewhere;
use super::schema;
use super::shared::Shared;
use crate::protocol::published::Published;
use crate::task::{Registration, Registry};

/// A task.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TaskDescription {
    /// Its path.
    pub(crate) task: String,
    /// Its signature in Rust.
    pub(crate) signature: String,
    /// Its documentation.
    pub(crate) doc: String,
    /// The queue of its calls, unless they name another.
    pub(crate) queue: String,
    /// The JSON Schema of its arguments by name.
    pub(crate) arguments: Value,
}

impl TaskDescription {
    /// The tasks of a program and the published ones, ordered by their paths.
    pub(super) fn all(registry: &Registry, elsewhere: &Elsewhere) -> Vec<Self> {
        let own = registry.iter().map(Self::of);
        let others = elsewhere.iter().filter(|(path, _)| registry.get(path).is_none());
        let mut tasks: Vec<_> = own.chain(others.map(|(path, task)| Self::elsewhere(path, task))).collect();
        tasks.sort_unstable_by(|one, other| one.task.cmp(&other.task));
        tasks
    }

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
    let mut tasks = TaskDescription::all(&shared.registry, &elsewhere);
    tasks.retain(|task| sender.sees(&task.task, &task.queue));
    Format::accepted(&headers).answer(StatusCode::OK, &tasks)
}
