//! Describes the gateway as OpenAPI 3.1, and answers what it does not have.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::problem::Problem;
use super::{calls, enqueue, events, new_call, problem, tasks};

#[derive(OpenApi)]
#[openapi(
    info(title = "delayed gateway", description = "Enqueues calls over HTTP, and tells how they end."),
    paths(enqueue::enqueue, calls::show, calls::cancel, calls::result, events::events, tasks::list, document),
    components(schemas(
        new_call::NewCall,
        enqueue::Accepted,
        enqueue::Outcome,
        calls::CallResult,
        calls::CancelledCall,
        tasks::TaskDescription,
        problem::Problem
    )),
    modifiers(&Tokens),
    security(("token" = []), ())
)]
struct Document;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "tasks", responses((status = 200, body = Object)))]
pub(super) async fn document() -> Response {
    let text = Document::openapi().to_json().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

pub(super) async fn unknown(uri: Uri) -> Problem {
    Problem::not_found(format!("{} is not here: GET /openapi.json describes what is", uri.path()))
}

pub(super) async fn not_allowed() -> Problem {
    let detail = "this path has other methods: GET /openapi.json describes them";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}
