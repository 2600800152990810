//! How do the arguments of a message meet the parameters of a function? (stub)
use serde::Deserialize;

/// A parameter that travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its name in Rust, which is also its keyword.
    pub name: &'static str,
    /// Its type as written.
    pub ty: &'static str,
    /// Whether it may be missing.
    pub presence: Presence,
}

/// Whether a parameter may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must be there.
    Required,
    /// An `Option`, or a parameter with a default.
    Optional,
    /// The last one: takes a list, or all that is left.
    Variadic,
}

/// Why the arguments of a message do not fit its task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("arguments")]
pub struct ArgumentError;

/// The arguments of a message, not yet read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arguments<'a> {
    pub(crate) _bytes: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// Begins to read them for the parameters `params`, in order.
    ///
    /// # Errors
    /// Too many arguments, an unknown keyword, or arguments that are no array or no map.
    pub fn reader(&self, _params: &'static [Param]) -> Result<ArgumentReader<'a>, ArgumentError> {
        Ok(ArgumentReader { _bytes: self._bytes })
    }
}

/// Reads the arguments, one call for each parameter, in their order.
#[derive(Debug)]
pub struct ArgumentReader<'a> {
    _bytes: &'a [u8],
}

impl<'a> ArgumentReader<'a> {
    /// The next parameter, which must be there.
    ///
    /// # Errors
    /// It is missing or of another type.
    pub fn required<T: Deserialize<'a>>(&mut self) -> Result<T, ArgumentError> {
        Err(ArgumentError)
    }

    /// The next parameter, or `None` when it is missing.
    ///
    /// # Errors
    /// It is there and of another type.
    pub fn optional<T: Deserialize<'a>>(&mut self) -> Result<Option<T>, ArgumentError> {
        Err(ArgumentError)
    }

    /// The last parameter: one list, or all arguments that are left.
    ///
    /// # Errors
    /// One of them is of another type.
    pub fn variadic<T: Deserialize<'a>>(&mut self) -> Result<Vec<T>, ArgumentError> {
        Err(ArgumentError)
    }

    /// Refuses what is left.
    ///
    /// # Errors
    /// Bytes after the last argument.
    pub fn finish(self) -> Result<(), ArgumentError> {
        Ok(())
    }
}
