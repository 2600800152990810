//! Finds the bytes of each parameter.

use serde::Deserialize;

use super::error::{ArgumentError, ArgumentErrorKind};
use super::guess::{from_whole, list_or_one, one_or_list, variadic_from_whole};
use super::param::{Param, Presence};
use crate::protocol::decode::{
    DecodeError, DecodeErrorKind, Decoder, Head, MAX_DEPTH, Reader, describe_actual, from_slice,
};

/// Reads the arguments, one call for each parameter, in their order.
#[derive(Debug)]
pub struct ArgumentReader<'a> {
    params: &'static [Param],
    /// The place of the next parameter.
    next: usize,
    /// How many arguments came.
    given: usize,
    /// How many by place are left; they begin where `decoder` stands.
    left: usize,
    decoder: Decoder<'a>,
    /// The payload of a task of one parameter, which may be the argument or hold it.
    whole: Option<&'a [u8]>,
    /// Where the argument by keyword of each parameter is; empty when there are none.
    keywords: Vec<Option<&'a [u8]>>,
    /// Whether each argument by place is one element, also those of a variadic parameter.
    by_place: bool,
}

impl<'a> ArgumentReader<'a> {
    #[inline]
    pub(super) fn of_payload(params: &'static [Param], payload: &'a [u8]) -> Result<Self, ArgumentError> {
        let mut reader = Self::new(params);
        match params {
            [_] => reader.whole = Some(if payload.is_empty() { &[0xc0] } else { payload }),
            _ => reader.read_array(payload)?,
        }
        Ok(reader)
    }

    pub(super) fn of_place_and_keyword(
        params: &'static [Param],
        positional: &'a [u8],
        keywords: &'a [u8],
    ) -> Result<Self, ArgumentError> {
        let mut reader = Self::new(params);
        reader.by_place = true;
        reader.read_array(positional)?;
        reader.read_keywords(keywords)?;
        Ok(reader)
    }

    #[inline]
    fn new(params: &'static [Param]) -> Self {
        let decoder = Decoder::new(&[], MAX_DEPTH);
        let (keywords, whole) = (Vec::new(), None);
        Self { params, next: 0, given: 0, left: 0, decoder, whole, keywords, by_place: false }
    }

    /// Goes to the first element of an array of arguments.
    #[inline]
    fn read_array(&mut self, array: &'a [u8]) -> Result<(), ArgumentError> {
        if array.is_empty() {
            return Ok(());
        }
        let mut reader = Reader::new(array);
        let given = match reader.head()? {
            Head::Array(given) => given,
            Head::Nil => 0,
            // One argument by itself is what Go sends where it leaves out all that may be left out.
            _ if self.takes_one() => {
                (self.given, self.left) = (1, 1);
                self.decoder = Decoder::new(array, MAX_DEPTH);
                return Ok(());
            }
            _ => return Err(self.no_array(array)),
        };
        let variadic = self.params.last().is_some_and(|param| param.presence == Presence::Variadic);
        if given > self.params.len() && !variadic {
            return Err(self.too_many(given));
        }
        (self.given, self.left) = (given, given);
        self.decoder = Decoder::new(reader.rest, MAX_DEPTH - 1);
        Ok(())
    }

    /// Whether the first argument may stand alone, outside of an array.
    fn takes_one(&self) -> bool {
        let [_, others @ ..] = self.params else { return false };
        !self.by_place && others.iter().all(|param| param.presence != Presence::Required)
    }

    fn read_keywords(&mut self, keywords: &'a [u8]) -> Result<(), ArgumentError> {
        let mut reader = Reader::new(keywords);
        let count = match reader.head()? {
            Head::Map(count) => count,
            Head::Nil => 0,
            _ => return Err(ArgumentError::new(ArgumentErrorKind::KeywordsInArray)),
        };
        if count > 0 {
            self.keywords = vec![None; self.params.len()];
        }
        for _ in 0..count {
            let (key, value) = (reader.value()?, reader.value()?);
            let Some(index) = self.params.iter().position(|param| is_text(key, param.name)) else {
                return Err(self.unknown_keyword(key));
            };
            if index < self.given || self.keywords[index].replace(value).is_some() {
                let (param, count) = (self.params[index], self.params.len());
                return Err(ArgumentError::new(ArgumentErrorKind::Twice { param, index, count }));
            }
        }
        Ok(())
    }

    /// The next parameter, which must be there.
    ///
    /// # Errors
    /// It is missing or of another type.
    #[inline]
    pub fn required<T: Deserialize<'a>>(&mut self) -> Result<T, ArgumentError> {
        let index = self.step();
        if self.left > 0 {
            self.left -= 1;
            return self.decoder.value().map_err(|error| self.wrong(index, error));
        }
        if let Some(whole) = self.whole.take() {
            return match from_whole(whole) {
                Ok(value) => Ok(value),
                // Nil is no argument, unless the type has a meaning for it.
                Err(_) if whole == [0xc0] || whole == [0x90] => Err(self.missing(index)),
                Err(error) => Err(self.wrong(index, error)),
            };
        }
        match self.keyword(index) {
            Some(value) => from_slice(value).map_err(|error| self.wrong(index, error)),
            None => Err(self.missing(index)),
        }
    }

    /// The next parameter, or `None` when it is missing or nil.
    ///
    /// # Errors
    /// It is there and of another type.
    #[inline]
    pub fn optional<T: Deserialize<'a>>(&mut self) -> Result<Option<T>, ArgumentError> {
        let index = self.step();
        if self.left > 0 {
            self.left -= 1;
            return self.decoder.value().map_err(|error| self.wrong(index, error));
        }
        if let Some(whole) = self.whole.take() {
            return match from_whole(whole) {
                Ok(value) => Ok(value),
                Err(_) if whole == [0x90] => Ok(None),
                Err(error) => Err(self.wrong(index, error)),
            };
        }
        match self.keyword(index) {
            Some(value) => from_slice(value).map_err(|error| self.wrong(index, error)),
            None => Ok(None),
        }
    }

    /// The last parameter: one list, or all arguments that are left.
    ///
    /// # Errors
    /// One of them is of another type.
    pub fn variadic<T: Deserialize<'a>>(&mut self) -> Result<Vec<T>, ArgumentError> {
        let index = self.step();
        if let Some(whole) = self.whole.take() {
            return variadic_from_whole(whole).map_err(|error| self.wrong(index, error));
        }
        match self.left {
            0 => match self.keyword(index) {
                Some(value) => from_slice(value).map_err(|error| self.wrong(index, error)),
                None => Ok(Vec::new()),
            },
            1 => {
                self.left = 0;
                let value = self.decoder.reader.value().map_err(|error| self.wrong(index, error))?;
                let read = if self.by_place { one_or_list(value) } else { list_or_one(value) };
                read.map_err(|error| self.wrong(index, error))
            }
            left => {
                self.left = 0;
                // Each has at least one byte, so there are no more than what came.
                let mut values = Vec::with_capacity(left.min(1024));
                for place in 0..left {
                    let value = self.decoder.value();
                    values.push(value.map_err(|error| self.wrong(index, error.at_index(place)))?);
                }
                Ok(values)
            }
        }
    }

    /// Refuses what is left.
    ///
    /// # Errors
    /// Bytes after the last argument.
    #[inline]
    pub fn finish(self) -> Result<(), ArgumentError> {
        if self.left > 0 {
            return Err(self.too_many(self.given));
        }
        match self.decoder.reader.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::new(DecodeErrorKind::TrailingBytes { count }).into()),
        }
    }

    #[inline]
    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    #[inline]
    fn keyword(&self, index: usize) -> Option<&'a [u8]> {
        self.keywords.get(index).copied().flatten()
    }

    #[cold]
    fn param(&self, index: usize) -> Param {
        let unknown = Param { name: "?", ty: "nothing", presence: Presence::Required };
        self.params.get(index).copied().unwrap_or(unknown)
    }

    #[cold]
    fn wrong(&self, index: usize, error: DecodeError) -> ArgumentError {
        let (param, count) = (self.param(index), self.params.len());
        ArgumentError::new(ArgumentErrorKind::Type { param, index, count, error })
    }

    #[cold]
    fn missing(&self, index: usize) -> ArgumentError {
        let (param, count) = (self.param(index), self.params.len());
        let given = self.given + self.keywords.iter().flatten().count();
        ArgumentError::new(ArgumentErrorKind::Missing { param, index, count, given })
    }

    #[cold]
    fn too_many(&self, given: usize) -> ArgumentError {
        ArgumentError::new(ArgumentErrorKind::TooMany { given, count: self.params.len() })
    }

    #[cold]
    fn no_array(&self, actual: &[u8]) -> ArgumentError {
        match self.params.len() {
            0 => self.too_many(1),
            count => ArgumentError::new(ArgumentErrorKind::NoArray { count, found: describe_actual(actual) }),
        }
    }

    #[cold]
    fn unknown_keyword(&self, key: &[u8]) -> ArgumentError {
        let keyword =
            from_slice::<String>(key).unwrap_or_else(|_| describe_actual(key)).chars().take(80).collect();
        ArgumentError::new(ArgumentErrorKind::UnknownKeyword { keyword, params: self.params })
    }
}

/// Whether `value` is a `str` or a `bin` with the text `text`.
fn is_text(value: &[u8], text: &str) -> bool {
    let mut reader = Reader::new(value);
    match reader.head() {
        Ok(Head::Str(length) | Head::Bin(length)) => reader.take(length) == text.as_bytes(),
        _ => false,
    }
}
