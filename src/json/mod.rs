//! Reads arguments that are written in JSON, for the command line and the gateway.

mod arguments;
mod exact;
mod notation;
pub(crate) mod words;

pub(crate) use self::arguments::{Given, checked, keywords, payload};
#[cfg_attr(not(feature = "gateway"), allow(unused_imports))]
pub(crate) use self::exact::parse;
pub(crate) use self::notation::Argument;

/// Why arguments cannot be sent, as a sentence for whoever wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ArgumentsError(String);

impl ArgumentsError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
