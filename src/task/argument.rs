//! Encodes and decodes arguments for the code that `#[delayed::task]` generates.
//!
//! That code names each type in `<T as EncodeArgument>::write` and the like, always at the span of the parameter's type, so
//! that the compiler reports a missing derive once, however often the type is used.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::arguments::{ArgumentError, ArgumentReader};
use crate::protocol::encode::Encoder;

/// What a caller can send as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a task: it does not implement `serde::Serialize`",
    label = "a caller cannot encode this",
    note = "add `#[derive(serde::Serialize)]` to the type, or to the types inside of it",
    note = "what the program shares with its tasks, such as a pool of connections, is a `delayed::State<T>`"
)]
pub trait EncodeArgument {
    /// Adds this argument to a call.
    fn write(&self, encoder: &mut Encoder, name: &'static str);
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> EncodeArgument for T {
    #[inline]
    fn write(&self, encoder: &mut Encoder, name: &'static str) {
        encoder.argument(name, self);
    }
}

/// What a worker can receive as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a task: it does not implement `serde::Deserialize` as an owned value",
    label = "a worker cannot decode this",
    note = "add `#[derive(serde::Deserialize)]` to the type, or to the types inside of it",
    note = "what the program shares with its tasks, such as a pool of connections, is a `delayed::State<T>`"
)]
pub trait DecodeArgument: Sized {
    /// Reads the next argument.
    ///
    /// # Errors
    /// It is missing or of another type.
    fn required(reader: &mut ArgumentReader<'_>) -> Result<Self, ArgumentError>;

    /// Reads the next argument, or `None` when it is missing or nil.
    ///
    /// # Errors
    /// It is there and of another type.
    fn optional(reader: &mut ArgumentReader<'_>) -> Result<Option<Self>, ArgumentError>;

    /// Reads the last argument: one list, or all arguments that are left.
    ///
    /// # Errors
    /// One of them is of another type.
    fn variadic(reader: &mut ArgumentReader<'_>) -> Result<Vec<Self>, ArgumentError>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> DecodeArgument for T {
    #[inline]
    fn required(reader: &mut ArgumentReader<'_>) -> Result<Self, ArgumentError> {
        reader.required()
    }

    #[inline]
    fn optional(reader: &mut ArgumentReader<'_>) -> Result<Option<Self>, ArgumentError> {
        reader.optional()
    }

    #[inline]
    fn variadic(reader: &mut ArgumentReader<'_>) -> Result<Vec<Self>, ArgumentError> {
        reader.variadic()
    }
}
