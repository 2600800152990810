//! Carries what a task returned, encoded, if its call keeps a record.

use serde::{Deserialize, Serialize};

use crate::protocol::encode;

/// The most bytes of an encoded result.
pub(crate) const MAX_RESULT: usize = 1 << 20;

/// What a task returned. Empty, unless its call keeps it: then it is encoded as MessagePack, with structs as maps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnValue(Option<Box<Kept>>);

/// What is kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// The encoded value.
    Value(serde_bytes::ByteBuf),
    /// The encoded value has so many bytes, which is more than a record takes.
    TooLarge(u64),
    /// It cannot be encoded, for this reason.
    Unencodable(String),
}

impl ReturnValue {
    /// The value, encoded.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(Some(Box::new(match encode::with_maps(value) {
            Ok(bytes) if bytes.len() > MAX_RESULT => Kept::TooLarge(bytes.len() as u64),
            Ok(bytes) => Kept::Value(serde_bytes::ByteBuf::from(bytes)),
            Err(error) => Kept::Unencodable(error.to_string()),
        })))
    }

    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.0.as_deref()
    }
}

#[cfg_attr(not(feature = "worker"), expect(dead_code))]
impl Kept {
    /// The field of a record that holds it, and its value.
    pub(crate) fn field(&self) -> (&'static str, Vec<u8>) {
        match self {
            Self::Value(bytes) => ("result", bytes.to_vec()),
            Self::TooLarge(bytes) => ("too_large", bytes.to_string().into_bytes()),
            Self::Unencodable(reason) => ("unencodable", reason.clone().into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Receipt {
        order: u64,
    }

    #[test]
    fn structs_are_maps_and_what_is_too_large_is_told() {
        let kept = |value: ReturnValue| value.kept().map(Kept::field);
        assert_eq!(kept(ReturnValue::default()), None);
        assert_eq!(
            kept(ReturnValue::of(&Receipt { order: 7 })),
            Some(("result", b"\x81\xa5order\x07".to_vec()))
        );
        let large = "x".repeat(MAX_RESULT);
        assert_eq!(kept(ReturnValue::of(&large)), Some(("too_large", b"1048581".to_vec())));
    }
}
