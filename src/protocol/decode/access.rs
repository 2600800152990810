//! Gives serde the elements of lists, maps and enums.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor, value,
};
use serde::forward_to_deserialize_any;

use super::error::DecodeError;
use super::reader::{Head, Reader};
use super::{Decoder, MAX_DEPTH};

/// The elements of an array.
pub(super) struct Elements<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    count: usize,
    left: usize,
    fields: &'static [&'static str],
}

impl<'a, 'de> Elements<'a, 'de> {
    #[inline]
    pub(super) fn new(decoder: &'a mut Decoder<'de>, count: usize, fields: &'static [&'static str]) -> Self {
        Self { decoder, count, left: count, fields }
    }

    #[inline]
    pub(super) fn unread(&self) -> usize {
        self.left
    }

    #[cold]
    fn place(&self, error: DecodeError) -> DecodeError {
        let index = self.count - self.left - 1;
        match self.fields.get(index) {
            Some(field) => error.at_field(field),
            None => error.at_index(index),
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match seed.deserialize(&mut *self.decoder) {
            Ok(element) => Ok(Some(element)),
            Err(error) => Err(self.place(error)),
        }
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The pairs of a map.
pub(super) struct Pairs<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
    /// Where the last key begins.
    key: &'de [u8],
}

impl<'a, 'de> Pairs<'a, 'de> {
    #[inline]
    pub(super) fn new(decoder: &'a mut Decoder<'de>, count: usize) -> Self {
        Self { decoder, left: count, key: &[] }
    }

    #[inline]
    pub(super) fn unread(&self) -> usize {
        self.left
    }

    #[cold]
    fn place(&self, error: DecodeError) -> DecodeError {
        let mut reader = Reader::new(self.key);
        match reader.head() {
            Ok(Head::Str(length)) => error.at_field(&String::from_utf8_lossy(reader.take(length))),
            Ok(Head::Unsigned(key)) => error.at_field(&key.to_string()),
            Ok(Head::Negative(key)) => error.at_field(&key.to_string()),
            _ => error.at_field("?"),
        }
    }
}

impl<'de> MapAccess<'de> for &mut Pairs<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.key = self.decoder.reader.rest;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        seed.deserialize(&mut *self.decoder).map_err(|error| self.place(error))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The bytes of a `bin` or a `str`, one by one, for a list whose elements are `u8` and for no other.
pub(super) struct Bytes<'de> {
    value: &'de [u8],
    bytes: std::slice::Iter<'de, u8>,
}

impl<'de> Bytes<'de> {
    /// The `bytes` inside of the value that begins at `value`.
    #[inline]
    pub(super) fn new(value: &'de [u8], bytes: &'de [u8]) -> Self {
        Self { value, bytes: bytes.iter() }
    }
}

impl<'de> SeqAccess<'de> for Bytes<'de> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(&byte) = self.bytes.next() else { return Ok(None) };
        seed.deserialize(Byte { value: self.value, byte }).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.bytes.len())
    }
}

/// One of them.
struct Byte<'de> {
    value: &'de [u8],
    byte: u8,
}

impl<'de> Deserializer<'de> for Byte<'de> {
    type Error = DecodeError;

    #[cold]
    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError::mismatch("an array", self.value))
    }

    #[inline]
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u8(self.byte)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// A variant that is only named, or one of an `IpAddr`, whose `content` is the value that came.
pub(super) struct Name<'de> {
    pub(super) name: &'de str,
    pub(super) content: Option<&'de [u8]>,
}

impl<'de> EnumAccess<'de> for Name<'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DecodeError> {
        Ok((seed.deserialize(value::BorrowedStrDeserializer::new(self.name))?, self))
    }
}

impl Name<'_> {
    #[cold]
    fn refused<T>() -> Result<T, DecodeError> {
        Err(serde::de::Error::custom("expected a variant with its content, got its name alone"))
    }
}

impl<'de> VariantAccess<'de> for Name<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        match self.content {
            Some(content) => seed.deserialize(&mut Decoder::new(content, MAX_DEPTH)),
            None => Self::refused(),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, _visitor: V) -> Result<V::Value, DecodeError> {
        Self::refused()
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, DecodeError> {
        Self::refused()
    }
}

/// A variant as a map of its name to its content.
pub(super) struct Variant<'a, 'de>(pub(super) &'a mut Decoder<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DecodeError> {
        Ok((seed.deserialize(&mut *self.0)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.0.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.0.deserialize_struct("", fields, visitor)
    }
}
