//! Forwards log events of a child to the worker, which logs them.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use tracing::callsite::{Callsite, DefaultCallsite, Identifier};
use tracing::field::{Field, FieldSet, Visit};
use tracing::metadata::{Kind, LevelFilter};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Span, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::excerpt::{Excerpt, LONGEST, excerpt, panic_text};
use crate::runner::frame::{LogLine, Report, encode};
use crate::runner::span;
use crate::sys::packets;

/// The logger of children. The zygote creates it, so that no child has to.
#[derive(Debug, Clone)]
pub(super) struct Forwarder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The connection to the worker, known only in a child.
    reports: OnceLock<Arc<OwnedFd>>,
    level: AtomicU8,
}

impl Forwarder {
    /// Takes over the logging of this process. If the program installed its own logger before the zygote started, that one
    /// stays, and writes wherever it did before.
    pub(super) fn install() -> Self {
        let forwarder = Self(Arc::new(Shared { reports: OnceLock::new(), level: AtomicU8::new(0) }));
        let _ = tracing::subscriber::set_global_default(Registry::default().with(forwarder.clone()));
        forwarder
    }

    /// Shortens panic messages in this process before they are written to standard error.
    pub(super) fn shorten_panics() {
        let write = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic_text(panic);
            if text.len() <= LONGEST {
                return write(panic);
            }
            let location = panic.location().map(ToString::to_string);
            tracing::error!(location, error = excerpt(text), "panicked");
        }));
    }

    /// Sends events to this connection.
    pub(super) fn connect(&self, reports: Arc<OwnedFd>) {
        // A process is the child of one worker only.
        let _ = self.0.reports.set(reports);
    }

    /// Sets the level that is sent: 0 nothing, 1 errors … 5 everything.
    pub(super) fn set_level(&self, level: u8) {
        self.0.level.store(level, Ordering::Relaxed);
    }
}

/// The number of a level: 1 is an error, 5 a trace.
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The log level of this process, as [`Forwarder::set_level`] takes it.
pub(super) fn level_now() -> u8 {
    LevelFilter::current().into_level().map_or(0, number)
}

/// The fields of a span, as text.
struct SpanText(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Forwarder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // The worker has its own span for this run, and logs the events there.
        let is_of_run = metadata.is_span() && metadata.target() == span::TARGET;
        !is_of_run && number(*metadata.level()) <= self.0.level.load(Ordering::Relaxed)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanText(text.fields.into_text()));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(SpanText(fields)) = span.extensions().get::<SpanText>() {
                text.add_fields(fields);
            }
        }
        event.record(&mut text);
        let target = event.metadata().target();
        let end = (0..=target.len().min(MAX_TARGET)).rev().find(|end| target.is_char_boundary(*end));
        let line = LogLine {
            level: number(*event.metadata().level()),
            target: target[..end.unwrap_or(0)].to_owned(),
            message: text.message.into_text(),
            fields: text.fields.into_text(),
        };
        let Some(reports) = self.0.reports.get() else { return };
        // The worker may be gone.
        let _ = packets::send(&**reports, &encode(&Report::Log(Box::new(line))), &[]);
    }
}

/// The message of an event, and its other fields.
#[derive(Default)]
struct Text {
    message: Excerpt,
    fields: Excerpt,
}

impl Text {
    fn add_fields(&mut self, fields: &str) {
        if self.fields.total() > 0 && !fields.is_empty() {
            self.fields.push(b" ");
        }
        self.fields.push(fields.as_bytes());
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push(value.as_bytes());
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => {
                // Writing to a `String` cannot fail.
                let _ = write!(self.message, "{value:?}");
            }
            name => {
                let value = excerpt(format_args!("{value:?}"));
                self.add_fields(&format!("{name}={}", in_one_line(&value)));
            }
        }
    }
}

/// Converts arbitrary text to a part of a log line.
pub(super) fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => line.push(character),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

/// The run that a line belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) task: &'a str,
    pub(super) queue: &'a str,
    pub(super) pid: i32,
    /// The span of the run.
    pub(super) span: Option<&'a Span>,
}

impl Origin<'static> {
    /// No run.
    pub(super) const NOBODY: Self = Self { task: "", queue: "", pid: 0, span: None };
}

/// Logs a line of a child here, under its own level and target, with the details of its run.
pub(super) fn log(line: &LogLine, origin: Origin<'_>) {
    let Some(metadata) = metadata_for(line) else { return };
    let _entered = origin.span.map(Span::enter);
    tracing::dispatcher::get_default(|dispatch| {
        if !dispatch.enabled(metadata) {
            return;
        }
        let fields = metadata.fields();
        let (Some(message), Some(task), Some(queue), Some(pid), Some(rest)) = (
            fields.field("message"),
            fields.field("task"),
            fields.field("queue"),
            fields.field("pid"),
            fields.field("fields"),
        ) else {
            return;
        };
        let text = tracing::field::display(&line.message);
        let more = (!line.fields.is_empty()).then(|| tracing::field::display(&line.fields));
        let values: [(&Field, Option<&dyn tracing::Value>); 5] = [
            (&message, Some(&text)),
            (&task, Some(&origin.task)),
            (&queue, Some(&origin.queue)),
            (&pid, Some(&origin.pid)),
            (&rest, more.as_ref().map(|more| more as &dyn tracing::Value)),
        ];
        dispatch.event(&Event::new(metadata, &fields.value_set(&values)));
    });
}

const FIELDS: &[&str] = &["message", "task", "queue", "pid", "fields"];
/// How many pairs of a level and a target are kept. A program has as many as modules that log.
const MOST_TARGETS: usize = 4096;
/// The maximum length of a target in bytes: a target is the path of a module.
const MAX_TARGET: usize = 256;

/// `tracing` needs metadata that lives as long as the program, so each is created once.
fn metadata_for(line: &LogLine) -> Option<&'static Metadata<'static>> {
    type Known = HashMap<(u8, String), &'static Metadata<'static>>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let level = match line.level {
        1 => Level::ERROR,
        2 => Level::WARN,
        3 => Level::INFO,
        4 => Level::DEBUG,
        5 => Level::TRACE,
        _ => return None,
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (line.level, line.target.clone());
    if let Some(metadata) = known.get(&key) {
        return Some(metadata);
    }
    // A longer target does not come from the child's logger, and must not fill the memory.
    if known.len() >= MOST_TARGETS || line.target.len() > MAX_TARGET {
        return None;
    }
    let target: &'static str = Box::leak(line.target.clone().into_boxed_str());
    let callsite: &'static LogCallsite = Box::leak(Box::default());
    let fields = FieldSet::new(FIELDS, Identifier(callsite));
    let metadata = Metadata::new("event", target, level, None, None, None, fields, Kind::EVENT);
    let metadata = Box::leak(Box::new(metadata));
    known.insert(key, metadata);
    Some(metadata)
}

/// A callsite that is identified by its address only; interest is checked for each event.
#[derive(Default)]
struct LogCallsite {
    // Never read: it gives each callsite a distinct address.
    _size: u8,
}

impl Callsite for LogCallsite {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        PLACE.metadata()
    }
}

static PLACE: DefaultCallsite = DefaultCallsite::new(&PLACE_METADATA);
static PLACE_METADATA: Metadata<'static> = Metadata::new(
    "event",
    "delayed::child",
    Level::INFO,
    None,
    None,
    None,
    FieldSet::new(FIELDS, Identifier(&PLACE)),
    Kind::EVENT,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: String) -> LogLine {
        LogLine { level: 3, target, message: "sent".into(), fields: String::new() }
    }

    #[test]
    fn only_targets_that_a_child_can_have_are_kept_for_ever() {
        assert!(metadata_for(&line("m".repeat(MAX_TARGET))).is_some());
        assert!(metadata_for(&line("m".repeat(MAX_TARGET + 1))).is_none());
        assert!(metadata_for(&LogLine { level: 6, ..line("m".into()) }).is_none());
    }
}
