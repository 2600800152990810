//! Converts between the trace context of a message and that of OpenTelemetry.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

use crate::protocol::annotations::TraceContext;

/// What a message says of a span; `None` if it is invalid.
pub(super) fn span_context(trace: &TraceContext) -> Option<SpanContext> {
    let mut parts = trace.parent.split('-').skip(1);
    let (trace_id, span_id) = (TraceId::from_hex(parts.next()?).ok()?, SpanId::from_hex(parts.next()?).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let state = trace.state.parse::<TraceState>().unwrap_or_default();
    Some(SpanContext::new(trace_id, span_id, flags, true, state)).filter(SpanContext::is_valid)
}

/// The context whose children are spans of this trace.
pub(super) fn within(trace: &TraceContext) -> Option<Context> {
    Some(Context::new().with_remote_span_context(span_context(trace)?))
}

/// What a message says of a span; `None` without a tracer provider.
pub(super) fn trace_of(context: &Context) -> Option<TraceContext> {
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return None;
    }
    let flags = span.trace_flags().to_u8();
    let parent = format!("00-{:032x}-{:016x}-{flags:02x}", span.trace_id(), span.span_id());
    let trace = TraceContext { parent, state: span.trace_state().header() };
    // Vendors may add more than a message takes.
    if trace.check().is_ok() { Some(trace) } else { Some(TraceContext { state: String::new(), ..trace }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_context_comes_back_unchanged() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
        for (state, kept) in [("", ""), ("a=b,c=d", "a=b,c=d"), ("no state", "")] {
            let trace = TraceContext { parent: parent.clone(), state: state.to_owned() };
            let expected = TraceContext { state: kept.to_owned(), ..trace.clone() };
            assert_eq!(within(&trace).as_ref().and_then(trace_of), Some(expected), "{state:?}");
        }
        for bad in ["", "00", "00-xyz-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0-01"] {
            let trace = TraceContext { parent: bad.to_owned(), state: String::new() };
            assert!(span_context(&trace).is_none(), "{bad:?}");
        }
        assert_eq!(trace_of(&Context::new()), None);
    }
}
