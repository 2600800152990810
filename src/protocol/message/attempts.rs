//! What a message says of its attempts, and the bytes that it has for the next one.

use serde::{Deserialize, Serialize};

use super::{EMPTY_ARRAY, Form, Message, NIL};
use crate::protocol::backoff::Backoff;
use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader, from_slice};
use crate::protocol::encode;
use crate::protocol::meta;

/// How many failed attempts a message tells of, and how many bytes of each error.
const MOST: usize = 10;
#[cfg_attr(not(feature = "worker"), allow(dead_code))]
const DETAIL: usize = 200;

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// When, in milliseconds since 1970, by the clock of its worker.
    pub at_ms: u64,
    /// One word, such as `failed` or `timed_out`: see `docs/protocol.md`.
    pub reason: String,
    /// The error, at most 200 bytes of it.
    pub detail: String,
}

/// What the next attempt differs in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Next<'a> {
    /// For a message without an id.
    pub(crate) id: Option<CallId>,
    /// Whether this attempt counts as failed.
    pub(crate) counts: bool,
    /// The error of this attempt.
    pub(crate) error: Option<&'a FailedAttempt>,
    /// When the first attempt failed, for a message that does not say; in milliseconds since 1970.
    pub(crate) first_failed_ms: Option<u64>,
}

impl FailedAttempt {
    /// With as much of the error as a message takes.
    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) fn new(at_ms: u64, reason: &str, mut detail: String) -> Self {
        if detail.len() > DETAIL {
            let end = (0..=DETAIL).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
            detail.truncate(end);
        }
        Self { at_ms, reason: reason.to_owned(), detail }
    }

    /// Reads what a message or a record has of failed attempts. None of what cannot be read.
    pub(crate) fn decode_all(bytes: &[u8]) -> Vec<Self> {
        from_slice(bytes).unwrap_or_default()
    }
}

impl<'a> Message<'a> {
    /// How long the call waits after a failed attempt, when the message says so. None: what its task says holds.
    #[must_use]
    pub fn backoff(&self) -> Option<Backoff> {
        let mut reader = Reader::new(self.meta.find(b"b")?);
        let Ok(Head::Str(length)) = reader.head() else { return None };
        str::from_utf8(reader.take(length)).ok()?.parse().ok()
    }

    /// For how long after its first failed attempt the call is retried, in milliseconds, when the message says so. None:
    /// what its task says holds.
    #[must_use]
    pub fn retry_for_ms(&self) -> Option<u64> {
        self.meta.find(b"g").and_then(|value| meta::time(value).ok())
    }

    /// The last failed attempts, oldest first: up to ten.
    #[must_use]
    pub fn errors(&self) -> Vec<FailedAttempt> {
        self.encoded_errors().map(FailedAttempt::decode_all).unwrap_or_default()
    }

    /// The same as they stand in the message, and in a record.
    pub(crate) fn encoded_errors(&self) -> Option<&'a [u8]> {
        self.meta.find(b"e")
    }

    /// When its first attempt failed, when the message says so; in milliseconds since 1970.
    pub(crate) fn first_failed_ms(&self) -> Option<u64> {
        match Reader::new(self.meta.find(b"f")?).head() {
            Ok(Head::Unsigned(at)) => Some(at),
            _ => None,
        }
    }

    /// The bytes of the message for the next attempt: our form, with one failed attempt more. The payload is copied
    /// as it is, and so are the keys of the meta that this version does not know.
    #[must_use]
    pub fn retried(&self) -> Vec<u8> {
        self.next(Next { counts: true, ..Next::default() })
    }

    /// The same for an attempt that may not count, and with what is to be remembered of it.
    pub(crate) fn next(&self, next: Next<'_>) -> Vec<u8> {
        let id = next.id.filter(|_| self.id.is_none()).map(|id| {
            let mut encoded = Vec::with_capacity(18);
            encode::bytes(&mut encoded, id.as_bytes());
            encoded
        });
        let attempts = self.attempts.saturating_add(u32::from(next.counts));
        let attempts = (attempts > 0).then(|| encode::integer(u64::from(attempts)));
        let errors = next.error.map(|error| self.errors_with(error));
        let first = next.first_failed_ms.filter(|_| self.first_failed_ms().is_none()).map(encode::integer);
        let retry = self.retry.map(encode::signed_integer);
        let mut pairs = Vec::new();
        pairs.extend(attempts.as_ref().map(|attempts| (meta::ATTEMPTS, attempts.as_slice())));
        if self.form == Form::Python {
            pairs.extend(self.keywords.map(|keywords| (meta::KEYWORDS, keywords)));
            pairs.extend(retry.as_ref().map(|retry| (meta::RETRY, retry.as_slice())));
        }
        pairs.extend(id.as_ref().map(|id| (meta::ID, id.as_slice())));
        pairs.extend(errors.as_ref().map(|errors| (meta::ERRORS, errors.as_slice())));
        pairs.extend(first.as_ref().map(|first| (meta::FIRST_FAILED, first.as_slice())));
        let replaced: &[&[u8]] = if errors.is_some() { &[b"a", b"e"] } else { &[b"a"] };
        pairs.extend(self.meta.without(replaced));
        let payload = match self.form {
            Form::Python if self.payload == NIL => EMPTY_ARRAY,
            _ => self.payload,
        };
        encode::frame(self.task, payload, pairs)
    }

    fn errors_with(&self, error: &FailedAttempt) -> Vec<u8> {
        let mut errors = self.errors();
        errors.push(error.clone());
        let last = &errors[errors.len().saturating_sub(MOST)..];
        let mut encoded = Vec::with_capacity(64);
        encode::array_head(&mut encoded, last.len());
        for FailedAttempt { at_ms, reason, detail } in last {
            encode::array_head(&mut encoded, 3);
            encoded.extend_from_slice(encode::integer(*at_ms).as_slice());
            encode::text(&mut encoded, reason);
            encode::text(&mut encoded, detail);
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Meta, native, py_task};

    fn fail(bytes: &[u8], at_ms: u64) -> Vec<u8> {
        let error = FailedAttempt::new(at_ms, "failed", format!("error {at_ms}"));
        let next =
            Next { counts: true, error: Some(&error), first_failed_ms: Some(at_ms), ..Next::default() };
        Message::decode(bytes).unwrap().next(next)
    }

    #[test]
    fn last_ten_errors_travel_and_the_first_time_stays() {
        for first in
            [native("f", b"\x05", &Meta::default()), py_task("f", b"\x91\x05", b"", 3), b"\xa1f".to_vec()]
        {
            let bytes = (1..=12).fold(first, |bytes, at| fail(&bytes, at));
            let message = Message::decode(&bytes).unwrap();
            let errors = message.errors();
            assert_eq!((message.attempts(), message.first_failed_ms()), (12, Some(1)));
            assert_eq!(
                errors.iter().map(|error| error.at_ms).collect::<Vec<_>>(),
                (3..=12).collect::<Vec<_>>()
            );
            assert_eq!((&*errors[9].reason, &*errors[9].detail), ("failed", "error 12"));
            let revived = message.revived();
            let revived = Message::decode(&revived).unwrap();
            assert_eq!((revived.attempts(), revived.first_failed_ms(), revived.errors()), (0, None, vec![]));
        }
    }

    #[test]
    fn attempt_that_does_not_count_changes_nothing_but_the_id() {
        let id = CallId::new();
        let bytes = native("f", b"\x05", &Meta { attempts: 2, retry: Some(3), ..Meta::default() });
        let next = Message::decode(&bytes).unwrap().next(Next { id: Some(id), ..Next::default() });
        assert_eq!(
            next,
            native("f", b"\x05", &Meta { attempts: 2, retry: Some(3), id: Some(id), ..Meta::default() })
        );
    }

    #[test]
    fn errors_are_cut_between_characters() {
        let error = FailedAttempt::new(1, "failed", "ü".repeat(DETAIL));
        assert_eq!(error.detail, "ü".repeat(DETAIL / 2));
        assert_eq!(
            FailedAttempt::new(1, "failed", "x".repeat(DETAIL - 1) + "ü").detail,
            "x".repeat(DETAIL - 1)
        );
    }

    #[test]
    fn what_cannot_be_read_of_the_past_is_left_out() {
        let pairs =
            [(meta::BACKOFF, &b"\xa4soon"[..]), (meta::ERRORS, b"\x91\x05"), (meta::FIRST_FAILED, b"\xa1x")];
        let bytes = encode::frame("f", b"", pairs.to_vec());
        let message = Message::decode(&bytes).unwrap();
        assert_eq!((message.backoff(), message.errors(), message.first_failed_ms()), (None, vec![], None));
    }
}
