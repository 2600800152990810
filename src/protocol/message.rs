//! Decodes the frame of a message, in all the forms of `docs/protocol.md`.

mod attempts;
mod error;
#[cfg(feature = "worker")]
mod items;
#[cfg(test)]
mod tests;

pub use self::attempts::FailedAttempt;
#[cfg(feature = "worker")]
pub(crate) use self::attempts::Next;
pub use self::error::MessageError;

use crate::protocol::annotations::{Headers, read_trace};
use crate::protocol::arguments::Arguments;
use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader, describe_actual};
use crate::protocol::encode;
use crate::protocol::meta::{self, Pairs};
use crate::protocol::tracking::{Lock, Tracking};

/// Which of the forms of `docs/protocol.md` a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The path alone: Python's `GoTask` without arguments.
    Bare,
    /// `[path, payload]`: a call from Go, from Python's `GoTask`, or one of ours without options.
    Payload,
    /// `[path, args, kwargs, retry]`: Python's `PyTask`, with what is empty cut off at the end.
    Python,
    /// `[path, payload, meta]`: ours.
    Native,
}

/// One message, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    task: &'a str,
    form: Form,
    /// The payload, which is empty or nil without arguments; in Python's form the array of positional arguments, or nil.
    payload: &'a [u8],
    /// The arguments by keyword; that there are any, if only an empty map, makes the payload positional.
    keywords: Option<&'a [u8]>,
    attempts: u32,
    retry: Option<i64>,
    id: Option<CallId>,
    expires_ms: Option<u64>,
    timeout_ms: Option<u64>,
    names_limits: bool,
    meta: Pairs<'a>,
}

const NIL: &[u8] = &[0xc0];
const EMPTY_ARRAY: &[u8] = &[0x90];
const EMPTY_MAP: &[u8] = &[0x80];

impl<'a> Message<'a> {
    /// Reads the frame of a message; arguments are only read when a task asks for them.
    ///
    /// # Errors
    /// Bytes that are none of the forms of `docs/protocol.md`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        let count = match reader.head()? {
            Head::Array(count @ 1..=4) => count,
            Head::Str(_) => 0,
            _ => return Err(MessageError::Frame { found: describe_actual(bytes) }),
        };
        if count == 0 {
            reader = Reader::new(bytes);
        }
        let mut message = Self {
            bytes,
            task: path(&mut reader)?,
            form: Form::Bare,
            payload: NIL,
            keywords: None,
            attempts: 0,
            retry: None,
            id: None,
            expires_ms: None,
            timeout_ms: None,
            names_limits: false,
            meta: Pairs::default(),
        };
        match count {
            0 => {}
            1 => message.form = Form::Python,
            _ => message.read_second(count, &mut reader)?,
        }
        match (message.form, count) {
            (Form::Native, _) => message.read_meta(&mut reader)?,
            (Form::Python, _) => message.read_python(count, &mut reader)?,
            (Form::Bare | Form::Payload, _) => {}
        }
        match reader.rest.len() {
            0 => Ok(message),
            count => Err(MessageError::TrailingBytes { count }),
        }
    }

    /// The second element decides which form it is.
    fn read_second(&mut self, count: usize, reader: &mut Reader<'a>) -> Result<(), MessageError> {
        let at = reader.rest;
        match (reader.head()?, count) {
            (Head::Bin(length), 2) => (self.form, self.payload) = (Form::Payload, reader.take(length)),
            (Head::Bin(length), 3) => (self.form, self.payload) = (Form::Native, reader.take(length)),
            (Head::Bin(length), _) => {
                reader.take(length);
                reader.value()?;
                return Err(MessageError::Fourth {
                    expected: "nothing",
                    found: describe_actual(reader.rest),
                });
            }
            (Head::Nil, 2) => self.form = Form::Payload,
            (Head::Nil, _) => self.form = Form::Python,
            (Head::Array(_), _) => {
                *reader = Reader::new(at);
                (self.form, self.payload) = (Form::Python, reader.value()?);
            }
            _ => return Err(MessageError::Payload { found: describe_actual(at) }),
        }
        Ok(())
    }

    /// What follows the positional arguments.
    fn read_python(&mut self, count: usize, reader: &mut Reader<'a>) -> Result<(), MessageError> {
        self.keywords = Some(EMPTY_MAP);
        if count > 2 {
            let value = reader.value()?;
            if !meta::may_be_keywords(value) {
                let expected = "arguments by keyword (a map)";
                return Err(MessageError::Third { expected, found: describe_actual(value) });
            }
            self.keywords = Some(value);
        }
        if count > 3 {
            let value = reader.value()?;
            self.retry = meta::retry(value)
                .map_err(|expected| MessageError::Fourth { expected, found: describe_actual(value) })?;
        }
        Ok(())
    }

    fn read_meta(&mut self, reader: &mut Reader<'a>) -> Result<(), MessageError> {
        let at = reader.rest;
        let count = match reader.head()? {
            Head::Map(count) => count,
            Head::Nil => 0,
            _ => {
                return Err(MessageError::Third {
                    expected: "a map after the payload",
                    found: describe_actual(at),
                });
            }
        };
        let pairs = reader.rest;
        for _ in 0..count {
            let (key, value) = (reader.value()?, reader.value()?);
            let refused =
                |key| move |expected| MessageError::Meta { key, expected, found: describe_actual(value) };
            match meta::name(key) {
                Some(b"a") => self.attempts = meta::attempts(value).map_err(refused('a'))?,
                Some(b"d") => self.expires_ms = Some(meta::expires(value).map_err(refused('d'))?),
                Some(b"g") => drop(meta::time(value).map_err(refused('g'))?),
                Some(b"h") => Headers::check_value(value).map_err(refused('h'))?,
                Some(b"i") => self.id = Some(meta::id(value).map_err(refused('i'))?),
                Some(b"r") => self.retry = meta::retry(value).map_err(refused('r'))?,
                Some(b"t") => self.timeout_ms = Some(meta::time(value).map_err(refused('t'))?),
                Some(b"l") => self.names_limits = true,
                Some(b"k") if meta::may_be_keywords(value) => self.keywords = Some(value),
                Some(b"k") => return Err(refused('k')("a map")),
                _ => {}
            }
        }
        self.meta = Pairs::new(count, &pairs[..pairs.len() - reader.rest.len()]);
        Ok(())
    }

    /// The pairs of the meta.
    pub(crate) fn pairs(&self) -> Pairs<'a> {
        self.meta
    }

    /// The `traceparent` of the trace that the call belongs to.
    #[must_use]
    pub fn traceparent(&self) -> Option<&'a str> {
        self.meta.find(b"w").and_then(read_trace).map(|(parent, _)| parent)
    }

    /// The path of the task.
    #[must_use]
    pub fn task(&self) -> &'a str {
        self.task
    }

    /// The form that it came in.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The payload as it stands.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The arguments, not yet read.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'a> {
        match self.keywords {
            Some(keywords) => Arguments::by_place_and_keyword(self.payload, keywords),
            None => Arguments::from_payload(self.payload),
        }
    }

    /// How many attempts failed so far.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How often it may be retried, when the message says so; negative is for ever. None: the task's own count holds.
    #[must_use]
    pub fn retry(&self) -> Option<i64> {
        self.retry
    }

    /// The id of the call, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.id
    }

    /// When it expires, in milliseconds since 1970: it does not begin later, and is asked to end then.
    #[must_use]
    pub fn expires_ms(&self) -> Option<u64> {
        self.expires_ms
    }

    /// How long one run may go on, in milliseconds, when the message says so. None: the task's own time holds.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }

    /// Whether it may name limits.
    pub(crate) fn names_limits(&self) -> bool {
        self.names_limits
    }

    /// Whether what its task returns is kept.
    #[must_use]
    pub fn keeps_result(&self) -> bool {
        self.id.is_some() && self.meta.find(b"s").and_then(meta::keep).is_some_and(|ms| ms > 0)
    }

    /// How the call is followed: `None` for one without an id, a record or a lock.
    #[must_use]
    pub fn tracking(&self) -> Option<Tracking> {
        let id = self.id?;
        let keep_ms = self.meta.find(b"s").and_then(meta::keep);
        let lock = self.meta.find(b"u").and_then(Lock::read);
        (keep_ms.is_some() || lock.is_some()).then_some(Tracking { id, keep_ms, lock })
    }

    /// The bytes of the same message with these pairs in its meta, in place of its own of the same keys. For our form, and
    /// for Go's, which becomes ours.
    #[cfg_attr(not(any(feature = "periodic", feature = "otel")), allow(dead_code))]
    pub(crate) fn with_pairs(&self, pairs: &[meta::Pair<'_>]) -> Vec<u8> {
        let replaced: Vec<&[u8]> = pairs.iter().filter_map(|(key, _)| meta::name(key)).collect();
        let own = self.meta.without(&replaced);
        let all = pairs.iter().copied().chain(own).collect();
        encode::frame(self.task, self.payload, all)
    }

    /// The bytes of the same message, its failed attempts and its expiry forgotten. Without any other meta it is what
    /// Go makes.
    #[must_use]
    pub fn revived(&self) -> Vec<u8> {
        if self.form != Form::Native {
            return self.bytes.to_vec();
        }
        let pairs = self.meta.without_past().collect();
        encode::frame(self.task, self.payload, pairs)
    }
}

fn path<'a>(reader: &mut Reader<'a>) -> Result<&'a str, MessageError> {
    let at = reader.rest;
    let Head::Str(length) = reader.head()? else {
        return Err(MessageError::Path { found: describe_actual(at) });
    };
    match std::str::from_utf8(reader.take(length)) {
        Ok("") => Err(MessageError::EmptyPath),
        Ok(path) => Ok(path),
        Err(_) => Err(MessageError::Path { found: describe_actual(at) }),
    }
}
