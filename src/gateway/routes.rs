//! Routes requests to their handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use super::shared::Shared;
use super::{calls, enqueue, events, openapi, tasks};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let call = get(calls::show).delete(calls::cancel);
    Router::new()
        .route("/v1/calls", post(enqueue::enqueue))
        .route("/v1/calls/{id}", call)
        .route("/v1/calls/{id}/result", get(calls::result))
        .route("/v1/calls/{id}/events", get(events::events))
        .route("/v1/tasks", get(tasks::list))
        .route("/openapi.json", get(openapi::document))
        .fallback(openapi::unknown)
        .method_not_allowed_fallback(openapi::not_allowed)
        // The handlers have their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}
