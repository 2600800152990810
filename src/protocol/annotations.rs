//! Defines what a message carries for its program: user headers. A worker hands it to the run and decides nothing by it.

mod headers;

pub use self::headers::{HeaderError, Headers};

use crate::protocol::message::Message;
use crate::protocol::meta::Pairs;

/// What a call carries for its program, beside its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations {
    /// The user headers.
    pub headers: Headers,
}

impl Annotations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Checks them against the limits of a message.
    ///
    /// # Errors
    /// Too many or too large headers, or one without a name.
    pub fn check(&self) -> Result<(), HeaderError> {
        self.headers.check()
    }
}

impl Pairs<'_> {
    /// The annotations in a meta map. Allocates nothing if there are none.
    pub(crate) fn annotations(self) -> Annotations {
        // A message whose headers cannot be read is malformed, and never gets here.
        let headers = self.find(b"h").and_then(|value| Headers::read(value).ok());
        Annotations { headers: headers.unwrap_or_default() }
    }
}

impl Message<'_> {
    /// What the message carries for its program.
    #[must_use]
    pub fn annotations(&self) -> Annotations {
        self.pairs().annotations()
    }
}
