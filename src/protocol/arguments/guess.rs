//! Decides whether a list is one argument or holds the arguments, where the bytes do not say.

use serde::Deserialize;

use crate::protocol::decode::{DecodeError, Head, Reader, from_slice};

/// The only element of an array.
fn only_element(array: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(array);
    matches!(reader.head(), Ok(Head::Array(1))).then_some(reader.rest)
}

/// The one argument of a task: the payload itself, or else the only element of the array that it is.
#[inline]
pub(super) fn from_whole<'a, T: Deserialize<'a>>(whole: &'a [u8]) -> Result<T, DecodeError> {
    from_slice(whole).or_else(|error| match only_element(whole) {
        Some(element) => from_slice(element),
        None => Err(error),
    })
}

/// The one variadic argument of a task: the payload is the list, or an only argument, or an array with the list.
pub(super) fn variadic_from_whole<'a, T: Deserialize<'a>>(whole: &'a [u8]) -> Result<Vec<T>, DecodeError> {
    list_or_one(whole).or_else(|error| match only_element(whole) {
        Some(element) => from_slice(element).map_err(|_| error),
        None => Err(error),
    })
}

/// A variadic argument of Go: a list of its values, or else one of them. Text and bytes are one of them, or else a list
/// of bytes: empty, they could be read as a list of anything.
pub(super) fn list_or_one<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Result<Vec<T>, DecodeError> {
    if matches!(Reader::new(value).head(), Ok(Head::Str(_) | Head::Bin(_))) {
        return one_or_list(value);
    }
    from_slice(value)
        .or_else(|list| from_slice(value).map(|one| vec![one]).map_err(|one| meant(value, list, one)))
}

/// The same by place, as Python sends it: one value, or else a list of them.
pub(super) fn one_or_list<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Result<Vec<T>, DecodeError> {
    from_slice(value)
        .map(|one| vec![one])
        .or_else(|one| from_slice(value).map_err(|list| meant(value, list, one)))
}

/// The error that fits what came: that of a list when it is a list.
fn meant(value: &[u8], list: DecodeError, one: DecodeError) -> DecodeError {
    if matches!(Reader::new(value).head(), Ok(Head::Array(_))) { list } else { one }
}
