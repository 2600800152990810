//! Lets users log in and out.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Form;
use axum::extract::{OriginalUri, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::audit::NOBODY;
use super::frame::plain;
use super::live::add_cookie;
use super::session;
use super::shared::Shared;
use super::text::{at, is_own, link};

type Pairs = HashMap<String, String>;

/// Asks for a name and a password.
pub(super) async fn form(
    State(shared): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    Query(query): Query<Pairs>,
) -> Response {
    let base = base(&uri);
    if shared.access.users().is_none() {
        return Redirect::to(&at(&base, "/")).into_response();
    }
    page(&base, to(&query), None).into_response()
}

/// Checks them.
pub(super) async fn begin(
    State(shared): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    Form(mut form): Form<Pairs>,
) -> Response {
    let base = base(&uri);
    let to = to(&form).to_owned();
    let Some(users) = shared.access.users().cloned() else {
        return Redirect::to(&at(&base, "/")).into_response();
    };
    let (name, password) = (form.remove("name").unwrap_or_default(), form.remove("password"));
    let Ok(_place) = shared.login_places.try_acquire() else {
        let problem = "Too many passwords are being checked. Try again in a moment.";
        return (StatusCode::TOO_MANY_REQUESTS, page(&base, &to, Some(problem))).into_response();
    };
    let checked = {
        // Closed never.
        let _turn = shared.logins.acquire().await;
        let (users, name) = (users.clone(), name.clone());
        let check = move || users.has_password(&name, &password.unwrap_or_default());
        tokio::task::spawn_blocking(check).await
    };
    let cookie = match checked {
        Ok(true) => session::begin(&users, &name, &base, is_encrypted(&headers)),
        _ => None,
    };
    let Some(cookie) = cookie else {
        // A password may stand in the place of the name.
        let by = users.role(&name).map_or(NOBODY, |_| &name);
        let problem = "The name or the password is wrong.";
        shared.refused(by, "login", "", problem);
        return (StatusCode::UNAUTHORIZED, page(&base, &to, Some(problem))).into_response();
    };
    let mut response = Redirect::to(&at(&base, &to)).into_response();
    add_cookie(&mut response, &cookie);
    response
}

/// Whether the browser has sent this over TLS, as a proxy says.
fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

/// Ends the session.
pub(super) async fn end(OriginalUri(uri): OriginalUri) -> Response {
    let base = uri.path().strip_suffix("/logout").unwrap_or_default().to_owned();
    let mut response = Redirect::to(&format!("{base}/login")).into_response();
    add_cookie(&mut response, &session::end(&base));
    response
}

fn base(uri: &Uri) -> String {
    uri.path().strip_suffix("/login").unwrap_or_default().to_owned()
}

/// The page of this dashboard to go to.
fn to(pairs: &Pairs) -> &str {
    pairs.get("to").map(String::as_str).filter(|to| is_own(to)).unwrap_or("/")
}

fn page(base: &str, to: &str, problem: Option<&str>) -> Markup {
    let body = html! {
        h1 { "delayed" }
        form.login method="post" action=(link(base, "/login", &[])) {
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            input type="hidden" name="to" value=(to);
            label for="name" { "Name" }
            input #name name="name" autocomplete="username" required autofocus;
            label for="password" { "Password" }
            input #password type="password" name="password" autocomplete="current-password" required;
            button.primary { "Log in" }
        }
    };
    plain(base, "Log in", &body)
}
