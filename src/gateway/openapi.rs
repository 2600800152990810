//! Describes the gateway as OpenAPI 3.1, and answers what it does not have.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
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
    modifiers(&Tokens, &Problems),
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

/// Adds to each request how it may be refused, whatever it asks for.
struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let common = [
            ("400", "The request cannot be read"),
            ("401", "A token is needed, or it is unknown"),
            ("403", "The token is not for this task and queue"),
            ("422", "A value is not valid"),
            ("429", "The gateway holds as much as it may"),
            ("503", "Redis cannot be used"),
            ("504", "Redis did not reply in time"),
        ];
        for (path, item) in &mut document.paths.paths {
            let operations = [&mut item.get, &mut item.post, &mut item.delete];
            for operation in operations.into_iter().flatten().filter(|_| path.starts_with("/v1")) {
                for (status, description) in common {
                    let problem = RefOr::Ref(Ref::from_schema_name("Problem"));
                    let content = Content::new(Some(problem));
                    let response = ResponseBuilder::new().description(description);
                    let response = response.content("application/problem+json", content).build();
                    let responses = &mut operation.responses.responses;
                    responses.entry(status.to_owned()).or_insert(RefOr::T(response));
                }
            }
        }
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
