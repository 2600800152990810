//! The span of an enqueue.

use std::fmt::Display;

use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};

use super::context::{trace_of, within};
use super::switch::{SCOPE, is_on};
use crate::protocol::annotations::TraceContext;

/// The span of an enqueue. It ends when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct SendSpan(Option<Box<Context>>);

impl SendSpan {
    /// Begins. The parent is the trace context of the call, or else the current one of OpenTelemetry.
    pub(crate) fn start(task: &str, queue: &str, parent: &TraceContext) -> Self {
        // A call with an invalid trace context is refused when it is encoded.
        if !is_on() || parent.check().is_err() {
            return Self::default();
        }
        let parent = within(parent).unwrap_or_else(Context::current);
        let tracer = global::tracer(SCOPE);
        let builder = tracer.span_builder(format!("send {task}")).with_kind(SpanKind::Producer);
        let builder = builder.with_attributes([
            KeyValue::new("messaging.system", "delayed"),
            KeyValue::new("messaging.operation.name", "send"),
            KeyValue::new("messaging.operation.type", "send"),
            KeyValue::new("messaging.destination.name", queue.to_owned()),
            KeyValue::new("delayed.task", task.to_owned()),
        ]);
        let span = tracer.build_with_context(builder, &parent);
        Self(Some(Box::new(Context::new().with_span(span))))
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_made(&self) -> bool {
        self.0.is_some()
    }

    /// What the call says of the span.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.0.as_deref().and_then(trace_of)
    }

    /// Notes why the call was not enqueued.
    pub(crate) fn note<E: Display>(&self, error: E) -> E {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(error.to_string()));
        }
        error
    }
}
