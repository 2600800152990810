//! Answers scrapers and probes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::metrics::{Scrape, classic};
use crate::meter::Sources;

/// OpenMetrics, for those who ask for it.
const OPEN: &str = "application/openmetrics-text";

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sources: Sources,
    pub(super) scrape: Scrape,
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(shared)
}

async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let text = match shared.scrape.text(&shared.sources).await {
        Ok(text) => text,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, text) = match accepts.contains(OPEN) {
        true => ("application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        false => ("text/plain; version=0.0.4; charset=utf-8", classic(&text)),
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Whether the process is to be kept: it answers, and its workers have not ended.
async fn live(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    let sources = shared.sources.all();
    match !sources.is_empty() && sources.iter().all(|source| source.has_ended()) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "the worker has ended\n"),
        false => (StatusCode::OK, "alive\n"),
    }
}

/// Whether the process can do its work: Redis answers, and a worker has not ended.
async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    let has_ended = shared.sources.all().iter().any(|source| source.has_ended());
    match (has_ended, shared.scrape.is_up().await) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "the worker has ended\n"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "Redis does not answer\n"),
        (false, true) => (StatusCode::OK, "ready\n"),
    }
}
