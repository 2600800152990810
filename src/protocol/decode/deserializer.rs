//! Converts values to the types that serde asks for.

use serde::de::{Deserializer, Visitor, value};

use super::access::{Bytes, Name, Variant};
use super::error::DecodeError;
use super::reader::Head;
use super::{Decoder, forms, integer, not_utf8};
use crate::protocol::timestamp;

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        let head = self.reader.head()?;
        match head {
            Head::Array(count) if self.as_text && forms::is_struct_variant(&visitor) => {
                self.fields_by_order(count, visitor)
            }
            Head::Array(count) => {
                self.two_forms = true;
                self.array(count, &[], visitor)
            }
            Head::Map(1) if forms::is_address(self.reader.rest) => self.address(at, visitor),
            Head::Map(count) => self.map(count, visitor),
            _ => leaf(self, head, at, visitor),
        }
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Bool(value) => visitor.visit_bool(value),
            _ => Err(DecodeError::mismatch("a boolean", at)),
        }
    }

    integer::deserialize_integers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_i128(integer::wide(self, "an integer of type i128", i128::from_be_bytes)?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u128(integer::wide(self, "an integer of type u128", u128::from_be_bytes)?)
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        let wide = self.float()?;
        let value = wide as f32;
        if value.is_infinite() && wide.is_finite() {
            return Err(DecodeError::out_of_range("a float of type f32", at));
        }
        visitor.visit_f32(value)
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_str(self.text("a character")?)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.reader.at_extension() {
            return visitor.visit_string(self.moment_as_text()?);
        }
        visitor.visit_borrowed_str(self.text("a string")?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.reader.at_extension() {
            return visitor.visit_string(self.moment_as_text()?);
        }
        visitor.visit_borrowed_str(self.text("a string")?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Bin(length) | Head::Str(length) => visitor.visit_borrowed_bytes(self.reader.take(length)),
            Head::Nil => visitor.visit_borrowed_bytes(&[]),
            Head::Array(_) => {
                self.reader.rest = at;
                visitor.visit_byte_buf(serde::Deserialize::deserialize(self)?)
            }
            _ => Err(DecodeError::mismatch("bytes", at)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.reader.at_nil() {
            self.reader.take(1);
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Nil | Head::Array(0) | Head::Map(0) => visitor.visit_unit(),
            _ => Err(DecodeError::mismatch("nil", at)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Array(count) => self.array(count, &[], visitor),
            Head::Nil => self.array(0, &[], visitor),
            Head::Bin(length) | Head::Str(length) => {
                visitor.visit_seq(Bytes::new(at, self.reader.take(length)))
            }
            _ => Err(DecodeError::mismatch("an array", at)),
        }
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        let count = match self.reader.head()? {
            Head::Array(count) => count,
            Head::Bin(count) | Head::Str(count) if count == length => {
                return visitor.visit_seq(Bytes::new(at, self.reader.take(count)));
            }
            head => return self.other_tuple(head, at, length, visitor),
        };
        if count > length {
            return Err(DecodeError::mismatch(format!("an array of {length}"), at));
        }
        self.array(count, &[], visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_tuple(length, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Map(count) => self.map(count, visitor),
            Head::Nil => self.map(0, visitor),
            _ => Err(DecodeError::mismatch("a map", at)),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Map(count) => self.map(count, visitor),
            Head::Array(count) if count != 1 || fields.len() != 2 => self.array(count, fields, visitor),
            head => self.other_struct(head, at, name, fields, visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let at = self.reader.rest;
        match self.reader.head()? {
            Head::Bin(length @ (4 | 16)) if name == "IpAddr" => {
                let name = forms::version(self.reader.take(length));
                visitor.visit_enum(Name { name, content: Some(at) })
            }
            Head::Str(length) | Head::Bin(length) => {
                let text = std::str::from_utf8(self.reader.take(length)).map_err(|_| not_utf8(at))?;
                visitor.visit_enum(Name { name: text, content: None })
            }
            Head::Map(1) => {
                self.enter()?;
                let result = visitor.visit_enum(Variant(self));
                self.depth += 1;
                result
            }
            _ => {
                let expected =
                    format!("a variant of `{name}` (its name, or a map of its name to its content)");
                Err(DecodeError::mismatch(expected, at))
            }
        }
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_str(self.text("a name")?)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.reader.skip(self.depth)?;
        visitor.visit_unit()
    }

    /// Types that have two forms, one of text and one of bytes or parts, ask this first: it is the form that comes.
    fn is_human_readable(&self) -> bool {
        forms::is_text(self.reader)
    }
}

/// What has no type and no elements. Apart, so that a level of nesting takes little stack.
fn leaf<'de, V: Visitor<'de>>(
    decoder: &mut Decoder<'de>,
    head: Head,
    at: &'de [u8],
    visitor: V,
) -> Result<V::Value, DecodeError> {
    match head {
        Head::Nil => visitor.visit_unit(),
        Head::Bool(value) => visitor.visit_bool(value),
        Head::Unsigned(value) => visitor.visit_u64(value),
        Head::Negative(value) => visitor.visit_i64(value),
        Head::Float32(value) if value.is_finite() => visitor.visit_f32(value),
        Head::Float64(value) if value.is_finite() => visitor.visit_f64(value),
        Head::Float32(value) => forms::no_number(value.into(), at, visitor),
        Head::Float64(value) => forms::no_number(value, at, visitor),
        Head::Str(length) => {
            let text = std::str::from_utf8(decoder.reader.take(length)).map_err(|_| not_utf8(at))?;
            visitor.visit_borrowed_str(text)
        }
        Head::Bin(length) => visitor.visit_borrowed_bytes(decoder.reader.take(length)),
        Head::Ext(..) | Head::Array(_) | Head::Map(_) => match decoder.moment(head) {
            Some(Some(moment)) if decoder.as_text => visitor.visit_string(moment.to_string()),
            // What has no type gets the fields of a `SystemTime`, from which both that and `Timestamp` are read.
            Some(Some(moment)) => {
                decoder.two_forms = true;
                let fields = [
                    (timestamp::FIELDS[0], moment.seconds()),
                    (timestamp::FIELDS[1], i64::from(moment.nanoseconds())),
                ];
                visitor.visit_map(value::MapDeserializer::new(fields.into_iter()))
            }
            Some(None) => Err(DecodeError::out_of_range("a timestamp", at)),
            None => Err(DecodeError::mismatch("a value", at)),
        },
    }
}
