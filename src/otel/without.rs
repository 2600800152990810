//! Stands for OpenTelemetry in a program that is built without it: there are no spans.

use crate::protocol::annotations::TraceContext;
#[cfg(feature = "worker")]
use crate::protocol::message::Message;

#[inline]
pub(crate) fn is_on() -> bool {
    false
}

pub(crate) fn disable() {}

/// The span of an enqueue.
#[derive(Debug, Default)]
pub(crate) struct SendSpan(());

impl SendSpan {
    pub(crate) fn start(_task: &str, _queue: &str, _parent: &TraceContext) -> Self {
        Self(())
    }

    #[inline]
    pub(crate) fn is_made(&self) -> bool {
        false
    }

    pub(crate) fn trace(&self) -> Option<TraceContext> {
        None
    }

    #[inline]
    pub(crate) fn note<E>(&self, error: E) -> E {
        error
    }
}

/// The span of a run.
#[derive(Debug, Default)]
pub(crate) struct RunSpan(());

#[cfg(feature = "worker")]
impl RunSpan {
    pub(crate) fn start(
        _message: &Message<'_>,
        _queue: &str,
        _worker: &str,
        _isolation: &'static str,
    ) -> Self {
        Self(())
    }

    #[inline]
    pub(crate) fn is_made(&self) -> bool {
        false
    }

    pub(crate) fn message(&self, _message: &Message<'_>) -> Option<Vec<u8>> {
        None
    }

    pub(crate) fn linked(&self, _message: &[u8]) -> Option<Vec<u8>> {
        None
    }

    pub(crate) fn end(&self, _outcome: &'static str, _error: Option<String>) {}
}
