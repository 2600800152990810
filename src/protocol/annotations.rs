//! Defines what a message carries beside its options: user headers and a trace context, which a worker hands to the run, and
//! the limits that the call names.

mod headers;
mod trace;

pub use self::headers::{HeaderError, Headers};
pub(crate) use self::trace::read as read_trace;
use self::trace::read_last;
pub use self::trace::{TraceContext, TraceError};

use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::protocol::meta::Pairs;

/// What a call carries beside its arguments and its options of a fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations {
    /// The user headers.
    pub headers: Headers,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
    /// The limits that the call names.
    pub limits: Vec<LimitName>,
}

impl Annotations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.trace.is_empty() && self.limits.is_empty()
    }
}

impl Pairs<'_> {
    /// The annotations in a meta map. Allocates nothing if there are none.
    pub(crate) fn annotations(self) -> Annotations {
        // A message whose headers cannot be read is malformed, and never gets here.
        let headers = self.find(b"h").and_then(|value| Headers::read(value).ok());
        let trace = self.find(b"w").and_then(TraceContext::read);
        let (headers, trace) = (headers.unwrap_or_default(), trace.unwrap_or_default());
        Annotations { headers, trace, limits: self.limits() }
    }
}

impl Message<'_> {
    /// What the message carries for its program.
    #[must_use]
    pub fn annotations(&self) -> Annotations {
        self.pairs().annotations()
    }

    /// The trace that the call belongs to.
    #[cfg_attr(not(feature = "otel"), allow(dead_code))]
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.pairs().find(b"w").and_then(TraceContext::read)
    }

    /// The `traceparent` of the run that failed last, if its worker made spans.
    #[cfg_attr(not(feature = "otel"), allow(dead_code))]
    pub(crate) fn last_run(&self) -> Option<&str> {
        self.pairs().find(b"w").and_then(read_last)
    }
}
