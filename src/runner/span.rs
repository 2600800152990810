//! Creates the `tracing` span of a run, which contains every event of the task.
//!
//! Without an interested subscriber, this costs one comparison and no allocation.

use tracing::{Instrument, Level, Span};

use crate::protocol::call_id::CallId;
use crate::protocol::message::Message;
use crate::task::Scope;
use crate::task::handler::RunFuture;

/// The target of the span, for filters such as `info,delayed::run=debug`.
pub(super) const TARGET: &str = "delayed::run";

/// The fields of the span.
struct Fields<'a> {
    task: &'a str,
    call_id: Option<CallId>,
    slot: Option<usize>,
    queue: &'a str,
    attempt: u32,
    worker: Option<&'a str>,
    traceparent: Option<&'a str>,
}

/// A call without an id is identified by where it runs.
impl Fields<'_> {
    /// The span of a run in this process; disabled if no subscriber wants it, because creating a span takes longer than an
    /// empty task.
    #[inline]
    fn inline(&self) -> Span {
        let Self { task, call_id, slot, queue, attempt, worker, traceparent } = *self;
        let trace_id = trace_id(traceparent);
        let (slot, call_id) = (slot.filter(|_| call_id.is_none()), call_id.map(tracing::field::display));
        tracing::debug_span!(target: TARGET, "run", task, call_id, slot, queue, attempt, worker, traceparent, trace_id)
    }

    /// The span of a run in its own process.
    fn isolated(&self) -> Span {
        let Self { task, call_id, slot, queue, attempt, worker, traceparent } = *self;
        let trace_id = trace_id(traceparent);
        let (slot, call_id) = (slot.filter(|_| call_id.is_none()), call_id.map(tracing::field::display));
        tracing::info_span!(target: TARGET, "run", task, call_id, slot, queue, attempt, worker, traceparent, trace_id)
    }
}

/// The trace id of a `traceparent`: what log lines of many processes are joined by.
fn trace_id(traceparent: Option<&str>) -> Option<&str> {
    traceparent?.split('-').nth(1)
}

/// The span of a run with this scope.
#[inline]
pub(super) fn of_scope(scope: &Scope<'_>) -> Span {
    let Scope { task, queue, attempt, id: call_id, worker, slot, .. } = *scope;
    let worker = worker.map(|worker| worker.as_str());
    let traceparent = scope.traceparent();
    Fields { task, call_id, slot, queue: queue.as_str(), attempt, worker, traceparent }.inline()
}

/// Wraps the future in the span of its run.
#[inline]
pub(super) fn within(future: RunFuture, scope: &Scope<'_>) -> RunFuture {
    let span = of_scope(scope);
    if span.is_disabled() { future } else { Box::pin(future.instrument(span)) }
}

/// The span of a run in a child, for events that the child sends to its worker's log.
pub(super) fn of_message(task: &str, message: &[u8], queue: &str, worker: &str, slot: usize) -> Span {
    if !tracing::span_enabled!(target: TARGET, Level::INFO) {
        return Span::none();
    }
    // A message that cannot be decoded does not run.
    let Ok(message) = Message::decode(message) else { return Span::none() };
    let attempt = message.attempts().saturating_add(1);
    let (call_id, traceparent) = (message.id(), message.traceparent());
    Fields { task, call_id, slot: Some(slot), queue, attempt, worker: Some(worker), traceparent }.isolated()
}
