//! Which bytes does a call become? (stub)
use serde::Serialize;

/// Why an argument could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("encode")]
pub struct EncodeError;

/// Writes the payload of a call, argument by argument.
#[derive(Debug)]
pub struct Encoder {
    result: Result<Vec<u8>, EncodeError>,
}

impl Encoder {
    /// Begins the payload of a call with `count` arguments (one argument stands by itself, none is nil).
    #[must_use]
    pub fn new(_count: usize) -> Self {
        Self { result: Ok(Vec::new()) }
    }

    /// Appends the next argument; `name` is named in an error.
    pub fn argument<T: Serialize + ?Sized>(&mut self, _name: &'static str, _value: &T) {}

    /// The payload.
    ///
    /// # Errors
    /// The first argument that could not be written.
    pub fn finish(self) -> Result<Vec<u8>, EncodeError> {
        self.result
    }
}
