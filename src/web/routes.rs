//! Says which page is where, and what holds for all of them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::assets::{ICON, SCRIPT, STYLE};
use super::audit::NOBODY;
use super::failure::Failure;
use super::live::live;
use super::page::answer;
use super::shared::Shared;
use super::visit::{Visit, peer};
use super::{
    action, audit, calls, dead, doctor, enqueue, flows, job, limits, login, overview, periodic, queues,
    tasks, workers,
};

/// The largest form, in bytes: a call with its arguments.
const MAX_FORM: usize = 1 << 20;
/// What a page may load and do: nothing from elsewhere, no code of its own, and it is shown in no other page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", live(overview::overview))
        .route("/queues", live(queues::list))
        .route("/queue", live(queues::one))
        .route("/calls", live(calls::list))
        .route("/call", live(calls::one))
        .route("/workers", live(workers::list))
        .route("/tasks", live(tasks::list))
        .route("/task", live(tasks::one))
        .route("/enqueue", live(enqueue::form))
        .route("/periodic", live(periodic::list))
        .route("/periodic/task", live(periodic::one))
        .route("/limits", live(limits::list))
        .route("/flows", live(flows::list))
        .route("/flow", live(flows::one))
        .route("/dead", live(dead::list))
        .route("/letter", live(dead::one))
        .route("/doctor", live(doctor::findings))
        .route("/audit", live(audit::list))
        .route("/job", live(job::one))
        .route("/action", post(action::run))
        .route("/login", get(login::form).post(login::begin))
        .route("/logout", post(login::end))
        .route("/assets/style.css", get(|| async { STYLE.answer() }))
        .route("/assets/app.js", get(|| async { SCRIPT.answer() }))
        .route("/assets/icon.svg", get(|| async { ICON.answer() }))
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(doctor::ready))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn nothing(visit: Visit) -> Response {
    answer(&visit, Err(Failure::not_found("There is no such page.")), None, false)
}

/// Refuses what another site sends, and adds to each answer what browsers must not do with it.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_safe && comes_from_elsewhere(request.headers(), request.uri()) {
        let (parts, _) = request.into_parts();
        let visitor = shared.access.visitor(&parts.headers, peer(&parts)).ok();
        let by = visitor.and_then(|visitor| visitor.name).unwrap_or_else(|| NOBODY.to_owned());
        let origin = parts.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let action = format!("{} {}", parts.method, parts.uri.path());
        shared.refused(&by, &action, origin.unwrap_or_default(), "it comes from another site");
        return (StatusCode::FORBIDDEN, "this request comes from another site\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether a browser says that a page of another site has sent this. Programs that are no browsers say nothing.
fn comes_from_elsewhere(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text("origin") else { return false };
    let host = text("host").or_else(|| uri.authority().map(|authority| authority.as_str()));
    let of_origin = origin.split_once("://").map(|(_, host)| host);
    of_origin.is_none() || of_origin != host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_of_another_site_is_recognized() {
        for (headers, is_from_elsewhere) in [
            (&[][..], false),
            (&[("sec-fetch-site", "same-origin")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site"), ("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "http://b:1"), ("host", "a:1")], true),
            (&[("origin", "null"), ("host", "a:1")], true),
            (&[("origin", "http://a:1")], true),
        ] {
            let headers: HeaderMap = (headers.iter())
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .collect::<Vec<(header::HeaderName, HeaderValue)>>()
                .into_iter()
                .collect();
            let found = comes_from_elsewhere(&headers, &Uri::from_static("/action"));
            assert_eq!(found, is_from_elsewhere, "{headers:?}");
        }
    }
}
