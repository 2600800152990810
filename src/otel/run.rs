//! The span of a run, and that of the wait before it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Link, Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};

use super::context::{span_context, trace_of, within};
use super::switch::{SCOPE, is_on};
use crate::protocol::annotations::TraceContext;
use crate::protocol::encode;
use crate::protocol::message::{Form, Message, Next};
use crate::protocol::meta;

/// The span of a run, which its worker makes, wherever the run takes place. It ends when it is told to or dropped.
#[derive(Debug, Default)]
pub(crate) struct RunSpan(Option<Box<Context>>);

impl RunSpan {
    /// Begins now; before it ends the wait of the call, if it is known when that began.
    #[inline]
    pub(crate) fn start(message: &Message<'_>, queue: &str, worker: &str, isolation: &'static str) -> Self {
        if is_on() { Self::begin(message, queue, worker, isolation) } else { Self::default() }
    }

    #[cold]
    fn begin(message: &Message<'_>, queue: &str, worker: &str, isolation: &'static str) -> Self {
        let (tracer, task, now) = (global::tracer(SCOPE), message.task(), SystemTime::now());
        let about = |name: &'static str, kind: &'static str| {
            let mut about = vec![
                KeyValue::new("messaging.system", "delayed"),
                KeyValue::new("messaging.operation.name", name),
                KeyValue::new("messaging.operation.type", kind),
                KeyValue::new("messaging.destination.name", queue.to_owned()),
                KeyValue::new("messaging.client.id", worker.to_owned()),
                KeyValue::new("delayed.task", task.to_owned()),
                KeyValue::new("delayed.attempt", i64::from(message.attempts()) + 1),
            ];
            about.extend(message.id().map(|id| KeyValue::new("messaging.message.id", id.to_string())));
            about
        };
        let parent = message.trace().as_ref().and_then(within);
        if let (Some(parent), Some(since)) = (&parent, waits_since(message)) {
            let wait = tracer.span_builder(format!("wait {task}")).with_kind(SpanKind::Internal);
            let wait = wait.with_start_time(since.min(now)).with_attributes(about("wait", "receive"));
            tracer.build_with_context(wait, parent).end_with_timestamp(now);
        }
        let mut attributes = about("run", "process");
        attributes.push(KeyValue::new("delayed.isolation", isolation));
        let run: SpanBuilder = tracer.span_builder(format!("run {task}")).with_kind(SpanKind::Consumer);
        let run = run.with_start_time(now).with_attributes(attributes).with_links(links(message));
        // Never a child of what happens to be current in the worker.
        let span = tracer.build_with_context(run, &parent.unwrap_or_default());
        let context = Context::new().with_span(span);
        // Without a tracer provider there is nothing to tell.
        let is_valid = context.span().span_context().is_valid();
        Self(is_valid.then(|| Box::new(context)))
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_made(&self) -> bool {
        self.0.is_some()
    }

    fn trace(&self) -> Option<TraceContext> {
        trace_of(self.0.as_deref()?)
    }

    /// The message as the code of the run sees it: its trace context is this span.
    pub(crate) fn message(&self, message: &Message<'_>) -> Option<Vec<u8>> {
        let value = encode::trace_value(&self.trace()?, None);
        Some(with_trace(message, &value))
    }

    /// The message of the next attempt, which remembers this one. A call without a trace belongs to that of its first attempt.
    pub(crate) fn linked(&self, message: &[u8]) -> Option<Vec<u8>> {
        let own = self.trace()?;
        let message = Message::decode(message).ok()?;
        let trace = message.trace();
        let value = encode::trace_value(trace.as_ref().unwrap_or(&own), Some(&own.parent));
        Some(with_trace(&message, &value))
    }

    /// Ends it, with the outcome in one word, and the error of a run that failed.
    pub(crate) fn end(&self, outcome: &'static str, error: Option<String>) {
        let Some(context) = &self.0 else { return };
        let span = context.span();
        span.set_attribute(KeyValue::new("delayed.outcome", outcome));
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", outcome));
            span.set_status(Status::error(error));
        }
        span.end();
    }
}

/// Since when the call waits: since it was made, which its id tells, or since its last attempt failed. Unknown for one that
/// snoozed. It may be later than now: by the clock of another host, and because the message has it in whole milliseconds.
fn waits_since(message: &Message<'_>) -> Option<SystemTime> {
    let since = match message.attempts() {
        0 if message.last_run().is_some() => None,
        0 => message.id()?.made_ms(),
        _ => message.errors().last().map(|error| error.at_ms),
    };
    UNIX_EPOCH.checked_add(Duration::from_millis(since?))
}

/// The run before a retry.
fn links(message: &Message<'_>) -> Vec<Link> {
    let last = message.last_run().map(|last| TraceContext { parent: last.to_owned(), state: String::new() });
    let last = last.as_ref().and_then(span_context);
    last.map(Link::with_context).into_iter().collect()
}

fn with_trace(message: &Message<'_>, value: &[u8]) -> Vec<u8> {
    let ours = (message.form() != Form::Native).then(|| message.next(Next::default()));
    let ours = ours.as_deref().and_then(|ours| Message::decode(ours).ok());
    ours.as_ref().unwrap_or(message).with_pairs(&[(meta::TRACE, value)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::annotations::Annotations;
    use crate::protocol::encode::{Meta, annotated, native, py_task};

    const RUN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn span() -> RunSpan {
        let trace = TraceContext { parent: RUN.to_owned(), state: "a=b".to_owned() };
        RunSpan(Some(Box::new(within(&trace).unwrap())))
    }

    #[test]
    fn message_of_every_form_gets_the_span_of_its_run() {
        for (bytes, attempts) in [
            (b"\xa1f".to_vec(), 0),
            (native("f", b"\x05", &Meta::default()), 0),
            (py_task("f", b"\x91\x05", b"", 3), 0),
            (native("f", b"\x05", &Meta { attempts: 2, ..Meta::default() }), 2),
        ] {
            let message = Message::decode(&bytes).unwrap();
            let own = span().message(&message).unwrap();
            let own = Message::decode(&own).unwrap();
            assert_eq!((own.task(), own.attempts(), own.traceparent()), ("f", attempts, Some(RUN)));
            assert_eq!((own.trace().unwrap().state.as_str(), own.last_run()), ("a=b", None));
            assert_eq!(own.retry(), message.retry());
        }
    }

    #[test]
    fn retry_stays_in_its_trace_and_remembers_its_last_run() {
        let parent = RUN.replace('7', "8");
        let mut annotations = Annotations::default();
        annotations.trace.parent.clone_from(&parent);
        for (bytes, expected) in [
            (annotated("f", b"\x05", &Meta::default(), &annotations), (&*parent, "")),
            (native("f", b"\x05", &Meta { attempts: 1, ..Meta::default() }), (RUN, "a=b")),
        ] {
            let once = span().linked(&bytes).unwrap();
            let twice = span().linked(&once).unwrap();
            for linked in [once, twice] {
                let linked = Message::decode(&linked).unwrap();
                let trace = linked.trace().unwrap();
                assert_eq!((&*trace.parent, &*trace.state), expected);
                assert_eq!(linked.last_run(), Some(RUN));
            }
        }
    }

    #[test]
    fn without_a_span_a_message_stays_as_it_is() {
        let bytes = native("f", b"\x05", &Meta::default());
        let none = RunSpan::default();
        assert_eq!(none.message(&Message::decode(&bytes).unwrap()), None);
        assert_eq!((none.linked(&bytes), none.is_made()), (None, false));
    }
}
