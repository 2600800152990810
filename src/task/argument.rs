//! What may travel as an argument? The code that `#[delayed::task]` writes reads and writes through here, so that a
//! type that does not fit is told in our words.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::arguments::{ArgumentError, ArgumentReader};
use crate::protocol::encode::Encoder;

/// What may be an argument of a task.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a task",
    label = "this does not travel",
    note = "an argument, and all that it holds, is `serde::Serialize` where the call is made and \
            `serde::Deserialize`, into an owned value, where it runs",
    note = "`#[derive(serde::Serialize, serde::Deserialize)]` on the type is the usual way; what the program shares \
            with its tasks, such as a pool of connections, is a `delayed::State<T>`"
)]
pub trait Argument: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Argument for T {}

/// Writes the next argument.
#[inline]
pub fn write<T: Argument>(encoder: &mut Encoder, name: &'static str, value: &T) {
    encoder.argument(name, value);
}

/// Reads the next argument, which must be there.
///
/// # Errors
/// It is missing or of another type.
#[inline]
pub fn required<T: Argument>(reader: &mut ArgumentReader<'_>) -> Result<T, ArgumentError> {
    reader.required()
}

/// Reads the next argument, or `None` when it is missing or nil.
///
/// # Errors
/// It is there and of another type.
#[inline]
pub fn optional<T: Argument>(reader: &mut ArgumentReader<'_>) -> Result<Option<T>, ArgumentError> {
    reader.optional()
}

/// Reads the last argument: one list, or all arguments that are left.
///
/// # Errors
/// One of them is of another type.
#[inline]
pub fn variadic<T: Argument>(reader: &mut ArgumentReader<'_>) -> Result<Vec<T>, ArgumentError> {
    reader.variadic()
}
