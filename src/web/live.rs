//! Shows a page, and sends it again whenever it has changed, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use futures_util::stream;

use super::failure::Failure;
use super::page::{View, answer};
use super::session::{cookie, set};
use super::shared::Shared;
use super::text::{percent_decoded, percent_encoded};
use super::visit::{Visit, wants_events};

/// How often an open page is made again.
const PERIOD: Duration = Duration::from_secs(2);
/// The cookie that says on the next page what was done.
const NOTICE: &str = "delayed_notice";
/// For how many seconds that page may come.
const NOTICE_SECONDS: u64 = 20;
/// The longest notice, in bytes of the cookie.
const MAX_NOTICE: usize = 2000;

/// A page that is made by a function. A browser that asks for events gets its content again and again.
pub(super) fn live<F, Fut>(make: F) -> MethodRouter<Arc<Shared>>
where
    F: Fn(Arc<Visit>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<View, Failure>> + Send + 'static,
{
    get(move |visit: Visit, headers: HeaderMap| {
        let make = make.clone();
        async move {
            let visit = Arc::new(visit);
            if wants_events(&headers) {
                return events(visit, make);
            }
            let view = make(Arc::clone(&visit)).await;
            let notice = cookie(&headers, NOTICE).and_then(percent_decoded);
            let mut response = answer(&visit, view, notice.as_deref(), true);
            if notice.is_some() {
                add_cookie(&mut response, &set(NOTICE, "", &visit.base, 0));
            }
            response
        }
    })
}

/// Says on the next page what was done.
pub(super) fn with_notice(mut response: Response, base: &str, text: &str) -> Response {
    let mut text = percent_encoded(text);
    if text.len() > MAX_NOTICE {
        text.truncate(MAX_NOTICE);
        // Half a character cannot be read.
        let end = text.rfind("%20").unwrap_or(0);
        text.truncate(end);
        text.push_str("%20%E2%80%A6");
    }
    add_cookie(&mut response, &set(NOTICE, &text, base, NOTICE_SECONDS));
    response
}

pub(super) fn add_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// What was sent last.
enum Sent {
    Nothing,
    Page(String),
    Trouble(String),
}

fn events<F, Fut>(visit: Arc<Visit>, make: F) -> Response
where
    F: Fn(Arc<Visit>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<View, Failure>> + Send + 'static,
{
    let steps = stream::unfold(Sent::Nothing, move |mut last| {
        let (visit, make) = (Arc::clone(&visit), make.clone());
        async move {
            loop {
                // The page itself has just been made.
                tokio::select! {
                    () = tokio::time::sleep(PERIOD) => {}
                    () = visit.shared.stopping() => return None,
                }
                match (make(Arc::clone(&visit)).await, last) {
                    (Ok(view), before) => {
                        let html = view.body.into_string();
                        if matches!(&before, Sent::Page(sent) if *sent == html) {
                            last = before;
                            continue;
                        }
                        let event = Event::default().event("page").data(one_line(&html));
                        return Some((Ok::<_, Infallible>(event), Sent::Page(html)));
                    }
                    (Err(failure), before) => {
                        let text = format!("{}: {}", failure.title, failure.text);
                        if matches!(&before, Sent::Trouble(sent) if *sent == text) {
                            last = before;
                            continue;
                        }
                        let event = Event::default().event("trouble").data(one_line(&text));
                        return Some((Ok(event), Sent::Trouble(text)));
                    }
                }
            }
        }
    });
    Sse::new(steps).keep_alive(KeepAlive::default()).into_response()
}

/// The data of an event cannot have carriage returns.
fn one_line(text: &str) -> String {
    text.replace('\r', " ")
}
