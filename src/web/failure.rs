//! Says why a page cannot be shown, or an action was not done.

use axum::http::StatusCode;

use crate::error::Error;
use crate::gateway::Problem;
use crate::protocol::names::NameError;
use crate::task::error::chain;

/// Why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    /// A few words.
    pub(super) title: &'static str,
    /// A sentence that says what to do.
    pub(super) text: String,
}

impl Failure {
    fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self { status, title, text: text.into() }
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", text)
    }

    /// What was sent is not what it should be.
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Not done", text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Not allowed", text)
    }

    pub(super) fn unauthorized(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Who are you?", text)
    }

    /// What was wanted has not become so.
    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Not done", text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Broker(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Redis cannot be used", chain(&error))
            }
            _ => Self::invalid(chain(&error)),
        }
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let title = if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
            "Redis cannot be used"
        } else {
            "Not done"
        };
        Self::new(problem.status(), title, problem.detail())
    }
}
