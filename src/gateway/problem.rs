//! Says why a request is refused, as problem details (RFC 9457).

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::broker::BrokerErrorKind;
use crate::error::Error;
use crate::json::ArgumentsError;
use crate::protocol::names::NameError;
use crate::task::error::chain;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
/// In how many seconds it is worth trying again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request, or one call of it, was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The status of HTTP.
    status: u16,
    /// One word for programs, such as `unknown_task`.
    code: &'static str,
    /// A sentence for people, which says what to do.
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status: status.as_u16(), code, detail: detail.into() }
    }

    /// The request is not what it should be.
    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    /// The call is described well, and cannot be made.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// The same, and a fact beside it.
    pub(super) fn with(mut self, fact: &str) -> Self {
        self.detail.push_str(fact);
        self
    }

    /// The sentence for people.
    #[cfg(feature = "web")]
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Whether the same request may succeed later.
    fn passes(&self) -> bool {
        matches!(self.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
        if self.passes() {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status() == StatusCode::PAYLOAD_TOO_LARGE || self.status() == StatusCode::REQUEST_TIMEOUT {
            // What is left of the body is not read.
            headers.insert(HeaderName::from_static("connection"), HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<ArgumentsError> for Problem {
    fn from(error: ArgumentsError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "arguments", error.to_string())
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = match &error {
            Error::Broker(error) => match error.kind() {
                BrokerErrorKind::Uncertain => (StatusCode::GATEWAY_TIMEOUT, "uncertain"),
                BrokerErrorKind::Unreachable | BrokerErrorKind::NotReady => {
                    (StatusCode::SERVICE_UNAVAILABLE, "redis_unavailable")
                }
                _ => (StatusCode::SERVICE_UNAVAILABLE, "redis_refused"),
            },
            Error::Exists { .. } | Error::AlreadyScheduled { .. } => (StatusCode::CONFLICT, "exists"),
            Error::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "queue_full"),
            Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::Encode { .. } | Error::Name(_) | Error::Limit(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid")
            }
            Error::Refused { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, code, chain(&error))
    }
}
