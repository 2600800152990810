//! The arguments of a call, encoded.

use std::borrow::Cow;

use crate::protocol::annotations::Annotations;
use crate::protocol::encode::{self, Meta};

/// Encoded arguments of a call whose task is named at run time.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "gateway"), allow(dead_code))]
pub(crate) enum Payload {
    /// As Go encodes them.
    ByPlace(Vec<u8>),
    /// A map.
    ByName(Vec<u8>),
}

/// A [`Payload`], or what the macro's code has encoded.
pub(super) enum Encoded<'a> {
    ByPlace(Cow<'a, [u8]>),
    ByName(&'a [u8]),
}

impl Encoded<'_> {
    pub(super) fn message(&self, task: &str, meta: &Meta, annotations: &Annotations) -> Vec<u8> {
        match self {
            Self::ByPlace(payload) => encode::annotated(task, payload, meta, annotations),
            Self::ByName(keywords) => encode::by_keyword(task, keywords, meta, annotations),
        }
    }

    /// What the calls of a task are compared by.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::ByPlace(payload) => payload,
            Self::ByName(keywords) => keywords,
        }
    }
}
