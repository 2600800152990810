//! Matches the arguments of a message with the parameters of a function, by the rules of `docs/protocol.md`.

mod error;
mod guess;
mod param;
mod reader;
#[cfg(test)]
mod tests;

pub use self::error::{ArgumentError, ArgumentErrorKind};
pub(crate) use self::param::Parameter;
pub use self::param::{Param, Presence};
pub use self::reader::ArgumentReader;

/// The arguments of a message, not yet read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arguments<'a> {
    source: Source<'a>,
}

/// Where they stand, encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source<'a> {
    /// As Go sends them: one by itself, several in an array.
    Payload(&'a [u8]),
    /// As Python sends them: an array and a map.
    PlaceAndKeyword(&'a [u8], &'a [u8]),
}

/// A copy of the arguments of a message.
#[cfg_attr(not(feature = "worker"), allow(dead_code))]
#[derive(Debug, Clone)]
pub(crate) struct OwnedArguments {
    payload: Vec<u8>,
    keywords: Option<Vec<u8>>,
}

#[cfg_attr(not(feature = "worker"), allow(dead_code))]
impl OwnedArguments {
    pub(crate) fn borrow(&self) -> Arguments<'_> {
        match &self.keywords {
            Some(keywords) => Arguments::by_place_and_keyword(&self.payload, keywords),
            None => Arguments::from_payload(&self.payload),
        }
    }
}

impl From<Arguments<'_>> for OwnedArguments {
    fn from(arguments: Arguments<'_>) -> Self {
        let (payload, keywords) = arguments.parts();
        Self { payload: payload.to_vec(), keywords: keywords.map(<[u8]>::to_vec) }
    }
}

impl<'a> Arguments<'a> {
    /// The arguments in a payload, as [`Encoder`](crate::protocol::encode::Encoder) writes it: nothing or nil for
    /// none, one by itself, several in an array.
    #[must_use]
    pub const fn from_payload(payload: &'a [u8]) -> Self {
        Self { source: Source::Payload(payload) }
    }

    /// The arguments in an encoded array, by place, and in an encoded map, by keyword; both may be nil.
    #[must_use]
    pub(crate) const fn by_place_and_keyword(positional: &'a [u8], keywords: &'a [u8]) -> Self {
        Self { source: Source::PlaceAndKeyword(positional, keywords) }
    }

    /// The encoded payload or positional array, and the encoded keywords when they came as Python sends them.
    pub(crate) const fn parts(&self) -> (&'a [u8], Option<&'a [u8]>) {
        match self.source {
            Source::Payload(payload) => (payload, None),
            Source::PlaceAndKeyword(positional, keywords) => (positional, Some(keywords)),
        }
    }

    /// Begins to read them for the parameters `params`, in order.
    ///
    /// # Errors
    /// Too many arguments, an unknown keyword, or arguments that are no array or no map.
    pub fn reader(&self, params: &'static [Param]) -> Result<ArgumentReader<'a>, ArgumentError> {
        match self.source {
            Source::Payload(payload) => ArgumentReader::of_payload(params, payload),
            Source::PlaceAndKeyword(positional, keywords) => {
                ArgumentReader::of_place_and_keyword(params, positional, keywords)
            }
        }
    }
}
