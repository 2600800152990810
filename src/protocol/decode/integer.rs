//! Integers: any width that fits the type.

use std::str::FromStr;

use super::Decoder;
use super::error::DecodeError;
use super::reader::Head;

/// Reads an integer of any width; `expected` names the type.
#[inline]
pub(super) fn narrow<T: TryFrom<u64> + TryFrom<i64>>(
    decoder: &mut Decoder<'_>,
    expected: &'static str,
) -> Result<T, DecodeError> {
    let at = decoder.reader.rest;
    match decoder.reader.head()? {
        Head::Unsigned(value) => T::try_from(value).map_err(|_| DecodeError::out_of_range(expected, at)),
        Head::Negative(value) => T::try_from(value).map_err(|_| DecodeError::out_of_range(expected, at)),
        _ => Err(DecodeError::mismatch(expected, at)),
    }
}

/// The same for the types that MessagePack has no width for: `rmp-serde` writes them as 16 bytes, other languages can
/// only send their digits.
pub(super) fn wide<T: From<u64> + TryFrom<i64> + FromStr>(
    decoder: &mut Decoder<'_>,
    expected: &'static str,
    from_bytes: fn([u8; 16]) -> T,
) -> Result<T, DecodeError> {
    let at = decoder.reader.rest;
    match decoder.reader.head()? {
        Head::Unsigned(value) => Ok(T::from(value)),
        Head::Negative(value) => T::try_from(value).map_err(|_| DecodeError::out_of_range(expected, at)),
        Head::Bin(length) => match decoder.reader.take(length).try_into() {
            Ok(bytes) => Ok(from_bytes(bytes)),
            Err(_) => Err(DecodeError::mismatch(expected, at)),
        },
        Head::Str(length) => std::str::from_utf8(decoder.reader.take(length))
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| DecodeError::mismatch(expected, at)),
        _ => Err(DecodeError::mismatch(expected, at)),
    }
}

macro_rules! deserialize_integers {
    ($($method:ident $visit:ident $type:ident),* $(,)?) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            visitor.$visit(integer::narrow(self, concat!("an integer of type ", stringify!($type)))?)
        }
    )*};
}
pub(super) use deserialize_integers;
