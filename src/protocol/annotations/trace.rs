//! Defines the trace context of a call, in the form of W3C Trace Context: <https://www.w3.org/TR/trace-context/>.

use crate::protocol::decode::{Head, Reader};

/// The trace that a call belongs to: a `traceparent` and a `tracestate`, each of them empty if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    /// The ids of the trace and of the span that enqueued the call: `00-<trace id>-<span id>-<flags>`.
    pub parent: String,
    /// What vendors have added to it. Not sent without a parent.
    pub state: String,
}

/// Why the trace context of a call cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The `traceparent` is not one.
    #[error(
        "the traceparent is invalid: expected `00-`, 32 hex digits, `-`, 16 hex digits, and `-01` or `-00`, in lower \
        case"
    )]
    Parent,
    /// The `tracestate` is too long, or not printable ASCII.
    #[error(
        "the tracestate is invalid: expected at most {MAX_STATE} characters, all of them printable ASCII"
    )]
    State,
}

/// The longest texts, in bytes. A `traceparent` of version 0 has 55.
const MAX_PARENT: usize = 256;
const MAX_STATE: usize = 512;

impl TraceContext {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// Checks both texts.
    ///
    /// # Errors
    /// One of them is not what the standard allows, or is too long.
    pub fn check(&self) -> Result<(), TraceError> {
        match self {
            _ if self.is_empty() => Ok(()),
            _ if !is_parent(&self.parent) => Err(TraceError::Parent),
            _ if !is_state(&self.state) => Err(TraceError::State),
            _ => Ok(()),
        }
    }

    /// Reads the value of `w`. A context that is invalid is none: no call fails because of its trace.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let (parent, state) = read(value)?;
        Some(Self { parent: parent.to_owned(), state: state.to_owned() })
    }
}

/// Reads the value of `w`: the parent and the state, which may be empty.
pub(crate) fn read(value: &[u8]) -> Option<(&str, &str)> {
    let mut reader = Reader::new(value);
    let Ok(Head::Array(count @ 1..)) = reader.head() else { return None };
    let parent = text(&mut reader).filter(|parent| is_parent(parent))?;
    let state = if count > 1 { text(&mut reader) } else { None };
    Some((parent, state.filter(|state| is_state(state)).unwrap_or_default()))
}

/// Reads the third element of the value of `w`: the span of the run that failed last.
#[cfg_attr(not(feature = "otel"), allow(dead_code))]
pub(crate) fn read_last(value: &[u8]) -> Option<&str> {
    let mut reader = Reader::new(value);
    let Ok(Head::Array(3..)) = reader.head() else { return None };
    (0..2).try_for_each(|_| reader.value().map(drop)).ok()?;
    text(&mut reader).filter(|last| is_parent(last))
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    let Ok(Head::Str(length)) = reader.head() else { return None };
    str::from_utf8(reader.take(length)).ok()
}

/// Version, trace id, span id and flags in hex digits; a later version may have more behind them.
fn is_parent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |length| parts.next().filter(|part| part.len() == length && part.bytes().all(is_hex));
    let (Some(version), Some(trace), Some(span), Some(_)) = (part(2), part(32), part(16), part(2)) else {
        return false;
    };
    let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
    let ends_well = version != "00" || parts.next().is_none();
    version != "ff" && !is_zero(trace) && !is_zero(span) && ends_well && text.len() <= MAX_PARENT
}

fn is_hex(digit: u8) -> bool {
    matches!(digit, b'0'..=b'9' | b'a'..=b'f')
}

fn is_state(text: &str) -> bool {
    text.len() <= MAX_STATE && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparents_are_those_of_the_standard() {
        let later = format!("cc{}-more", &PARENT[2..]);
        for good in [PARENT, &later, &PARENT.replace("-01", "-00")] {
            assert!(is_parent(good), "{good}");
        }
        let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let zero_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let (upper, short, long) = (PARENT.to_uppercase(), &PARENT[..54], format!("{PARENT}-x"));
        let (future, huge) =
            (format!("ff{}", &PARENT[2..]), format!("cc{}-{}", &PARENT[2..], "x".repeat(256)));
        for bad in ["", "x", zero_trace, zero_span, &upper, short, &long, &future, &huge] {
            assert!(!is_parent(bad), "{bad}");
        }
    }

    #[test]
    fn states_are_printable_and_short() {
        let context = |state: &str| TraceContext { parent: PARENT.into(), state: state.into() };
        assert_eq!(context(&"x".repeat(512)).check(), Ok(()));
        for bad in [&"x".repeat(513), "é", "a\nb"] {
            assert_eq!(context(bad).check(), Err(TraceError::State));
        }
        let alone = TraceContext { parent: String::new(), state: "é".into() };
        assert_eq!((alone.check(), alone.is_empty()), (Ok(()), true));
        assert_eq!(TraceContext { parent: "x".into(), ..alone }.check(), Err(TraceError::Parent));
    }

    #[test]
    fn context_that_cannot_be_read_is_none() {
        for bad in [&b"\xc0"[..], b"\x90", b"\x91\x05", b"\x91\xa1x", b"\xa1x"] {
            assert_eq!(TraceContext::read(bad), None, "{bad:02x?}");
        }
        let one = |count: u8, rest: &[u8]| [&[0x90 | count, 0xd9, 55], PARENT.as_bytes(), rest].concat();
        for (value, state) in [
            (one(1, b""), ""),
            (one(2, b"\xa3a=b"), "a=b"),
            (one(2, b"\x05"), ""),
            (one(2, b"\xa1\n"), ""),
            (one(3, b"\xa3a=b\xc0"), "a=b"),
        ] {
            let read = TraceContext::read(&value).unwrap();
            assert_eq!((&*read.parent, &*read.state), (PARENT, state));
            assert_eq!(read_last(&value), None);
        }
    }

    #[test]
    fn run_of_the_last_attempt_stands_third() {
        let parent = [&[0xd9, 55], PARENT.as_bytes()].concat();
        let last = PARENT.replace("b7", "c8");
        let encoded = [&[0xd9, 55], last.as_bytes()].concat();
        for (head, state, behind) in [
            (0x93, &b"\xa0"[..], &b""[..]),
            (0x93, b"\xa3a=b", b""),
            (0x93, b"\x05", b""),
            (0x94, b"\xa0", b"\x05"),
        ] {
            let value = [&[head], &*parent, state, &encoded, behind].concat();
            assert_eq!(read_last(&value), Some(&*last), "{value:02x?}");
            assert_eq!(TraceContext::read(&value).unwrap().parent, PARENT);
        }
        for bad in [[&[0x92], &*parent, b"\xa0"].concat(), [&[0x93], &*parent, b"\xa0\xa1x"].concat()] {
            assert_eq!(read_last(&bad), None, "{bad:02x?}");
        }
    }
}
