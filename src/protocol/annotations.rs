//! Defines what a message carries for its program: user headers and a trace context. A worker hands it to the run and decides nothing by it.

mod headers;
mod trace;

pub use self::headers::{HeaderError, Headers};
pub(crate) use self::trace::read as read_trace;
pub use self::trace::{TraceContext, TraceError};

use crate::protocol::message::Message;
use crate::protocol::meta::Pairs;

/// What a call carries for its program, beside its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations {
    /// The user headers.
    pub headers: Headers,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
}

impl Annotations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.trace.is_empty()
    }
}

impl Pairs<'_> {
    /// The annotations in a meta map. Allocates nothing if there are none.
    pub(crate) fn annotations(self) -> Annotations {
        // A message whose headers cannot be read is malformed, and never gets here.
        let headers = self.find(b"h").and_then(|value| Headers::read(value).ok());
        let trace = self.find(b"w").and_then(TraceContext::read);
        Annotations { headers: headers.unwrap_or_default(), trace: trace.unwrap_or_default() }
    }
}

impl Message<'_> {
    /// What the message carries for its program.
    #[must_use]
    pub fn annotations(&self) -> Annotations {
        self.pairs().annotations()
    }
}
