//! Reads a request: who asks, for which queue, and below which path the dashboard is mounted.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, OriginalUri, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::access::{Stranger, Visitor};
use super::failure::Failure;
use super::frame::bare;
use super::shared::Shared;
use super::text::{link, percent_encoded};
use super::users::Role;
use crate::http::Peer;
use crate::inspect::Inspector;
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// A request of somebody who may see the dashboard.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) shared: Arc<Shared>,
    pub(super) visitor: Visitor,
    /// What stands before the paths of the dashboard; empty if it is not mounted below another path.
    pub(super) base: String,
    /// The path of the page, without that.
    pub(super) path: String,
    query: HashMap<String, String>,
}

impl FromRequestParts<Arc<Shared>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Response> {
        let base = base(parts);
        let path = parts.uri.path().to_owned();
        let refused = |failure: Failure| bare(&base, &failure).into_response();
        if shared.is_local && !is_named_locally(&parts.headers) {
            return Err(refused(Failure::forbidden(
                "This dashboard is to be reached as localhost or 127.0.0.1: another name in the address may be that of a page \
                 that attacks it.",
            )));
        }
        let visitor = match shared.access.visitor(&parts.headers, peer(parts)) {
            Ok(visitor) => visitor,
            Err(Stranger::LogIn) if parts.method == "GET" && !wants_events(&parts.headers) => {
                let to = parts.uri.path_and_query().map_or("/", |to| to.as_str());
                let to = format!("{base}/login?to={}", percent_encoded(to));
                return Err(Redirect::to(&to).into_response());
            }
            Err(Stranger::LogIn) => return Err(refused(Failure::unauthorized("Log in first."))),
            Err(Stranger::Unnamed) => {
                let text = "The proxy in front of this dashboard has not said who you are.";
                return Err(refused(Failure::unauthorized(text)));
            }
        };
        let query = Query::<HashMap<String, String>>::try_from_uri(&parts.uri);
        let query = query.map(|Query(query)| query).unwrap_or_default();
        Ok(Self { shared: Arc::clone(shared), visitor, base, path, query })
    }
}

/// What stands before the path of a page, where the dashboard is mounted below another one.
pub(super) fn base(parts: &Parts) -> String {
    let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
    below(original, &parts.uri)
}

fn below(original: &Uri, inner: &Uri) -> String {
    let (original, inner) = (original.path(), inner.path());
    // The place itself, without a slash behind it.
    let place = (inner == "/" && !original.ends_with('/')).then_some(original);
    place.or_else(|| original.strip_suffix(inner)).unwrap_or_default().trim_end_matches('/').to_owned()
}

pub(super) fn peer(parts: &Parts) -> Option<IpAddr> {
    let own = parts.extensions.get::<Peer>().map(|Peer(peer)| *peer);
    let mounted = || parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    own.or_else(mounted).map(|peer| peer.ip())
}

pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok());
    accepts.is_some_and(|accepts| accepts.starts_with("text/event-stream"))
}

/// Whether the name in the address is one of this machine.
fn is_named_locally(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

impl Visit {
    /// A link to a page of the dashboard.
    pub(super) fn link(&self, path: &str, query: &[(&str, &str)]) -> String {
        link(&self.base, path, query)
    }

    /// A parameter that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }

    /// The queue that the page is about, if it is about one.
    pub(super) fn queue_or_all(&self) -> Result<Option<QueueName>, Failure> {
        Ok(self.get("queue").map(QueueName::parse).transpose()?)
    }

    pub(super) fn queue(&self) -> Result<QueueName, Failure> {
        self.queue_or_all()?.ok_or_else(|| Failure::invalid("The address names no queue."))
    }

    /// The queues that the page is about.
    pub(super) async fn queues(&self) -> Result<Vec<QueueName>, Failure> {
        match self.queue_or_all()? {
            Some(queue) => Ok(vec![queue]),
            None => self.shared.queue_names().await,
        }
    }

    pub(super) fn call_id(&self) -> Result<CallId, Failure> {
        let id = self.get("id").ok_or_else(|| Failure::invalid("The address names no call."))?;
        Ok(CallId::from(id))
    }

    pub(super) async fn inspector(&self) -> Result<&Inspector, Failure> {
        self.shared.inspector().await
    }

    /// Whether the visitor may act.
    pub(super) fn can_act(&self) -> bool {
        self.shared.allows_actions && self.visitor.role == Role::Operator
    }

    /// Who acts.
    pub(super) fn by(&self) -> &str {
        self.visitor.name.as_deref().unwrap_or("dashboard")
    }

    /// The address of this page, as a form sends it along to come back.
    pub(super) fn here(&self) -> String {
        let mut query: Vec<(&str, &str)> =
            self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        query.sort_unstable();
        link("", &self.path, &query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_is_what_the_application_has_put_before() {
        let base = |original: &str, inner: &str| below(&original.parse().unwrap(), &inner.parse().unwrap());
        assert_eq!(base("/queues", "/queues"), "");
        assert_eq!(base("/admin/delayed/queues?a=b", "/queues?a=b"), "/admin/delayed");
        assert_eq!(base("/delayed/", "/"), "/delayed");
        assert_eq!(base("/delayed", "/"), "/delayed");
        assert_eq!(base("/", "/"), "");
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (host, is_local) in [
            ("localhost:8081", true),
            ("127.0.0.1:8081", true),
            ("127.0.0.1", true),
            ("[::1]:8081", true),
            ("LocalHost", true),
            ("localhost.example.org:8081", false),
            ("example.org", false),
            ("10.0.0.1:8081", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            assert_eq!(is_named_locally(&headers), is_local, "{host}");
        }
        assert!(!is_named_locally(&HeaderMap::new()));
    }
}
