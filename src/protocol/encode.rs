//! Encodes calls.
//!
//! What Go would make of it: structs as arrays of their fields, integers in the smallest width, lists of bytes as
//! `bin`. [`Encoder`] writes the payload, the functions beside it the messages.

use rmp_serde::Serializer;
use rmp_serde::config::BytesMode;
use serde::Serialize;

use crate::protocol::annotations::{Annotations, HeaderError, TraceContext, TraceError};
use crate::protocol::backoff::Backoff;
use crate::protocol::batch::BatchKeyError;
use crate::protocol::call_id::CallId;
use crate::protocol::decode::{MAX_DEPTH, Reader};
use crate::protocol::limit::LimitError;
use crate::protocol::meta;
use crate::protocol::names::PathError;
use crate::protocol::plan_error::PlanError;
use crate::protocol::tracking::Lock;

/// Why a call could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The `Serialize` of an argument failed, or it is too long, or nests deeper than [`MAX_DEPTH`].
    #[error("argument `{name}` cannot be encoded as MessagePack: {reason}")]
    Argument {
        /// The argument.
        name: &'static str,
        /// What its `Serialize` says.
        reason: String,
    },
    /// There were more or fewer arguments than announced.
    #[error("{count} arguments were announced and {given} given")]
    Count {
        /// The arguments announced.
        count: usize,
        /// The arguments given.
        given: usize,
    },
    /// It is to run more than a hundred years from now.
    #[error("a call can be scheduled for at most a hundred years from now")]
    TooFarAhead,
    /// Its headers are too many or too large, or one has no name.
    #[error(transparent)]
    Headers(#[from] HeaderError),
    /// Its trace context is not one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The name of a limit is not valid, or it names too many.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The key of its batch is not valid.
    #[error(transparent)]
    BatchKey(#[from] BatchKeyError),
    /// It is a flow that cannot be run.
    #[error(transparent)]
    Flow(#[from] PlanError),
    /// No worker could know a task by that path.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Writes the payload of a call, argument by argument.
#[derive(Debug)]
pub struct Encoder {
    count: usize,
    /// Whether the payload becomes an element of a list.
    is_item: bool,
    given: usize,
    result: Result<Vec<u8>, EncodeError>,
}

impl Encoder {
    /// Begins the payload of a call with `count` arguments (one argument stands by itself, none is nil).
    #[must_use]
    pub fn new(count: usize) -> Self {
        let mut payload = Vec::with_capacity(32);
        match count {
            0 => payload.push(0xc0),
            1 => {}
            _ => array_head(&mut payload, count),
        }
        Self { count, is_item: false, given: 0, result: Ok(payload) }
    }

    /// Begins one item of a batch, which becomes an element of the list of its items.
    #[must_use]
    pub fn of_item() -> Self {
        Self { is_item: true, ..Self::new(1) }
    }

    /// Appends the next argument; `name` is named in an error.
    pub fn argument<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.given += 1;
        let Ok(payload) = &mut self.result else { return };
        // Beside others it stands in an array, which is a level of its own.
        let depth = if self.count > 1 || self.is_item { MAX_DEPTH - 1 } else { MAX_DEPTH };
        if let Err(reason) = append(payload, value, depth) {
            self.result = Err(EncodeError::Argument { name, reason });
        }
    }

    /// The payload.
    ///
    /// # Errors
    /// The first argument that could not be written, or more or fewer of them than were announced.
    pub fn finish(self) -> Result<Vec<u8>, EncodeError> {
        let payload = self.result?;
        if self.given != self.count {
            return Err(EncodeError::Count { count: self.count, given: self.given });
        }
        Ok(payload)
    }
}

fn append<T: Serialize + ?Sized>(payload: &mut Vec<u8>, value: &T, depth: usize) -> Result<(), String> {
    let begin = payload.len();
    if serialize(payload, value, BytesMode::ForceIterables).is_err() {
        // A list whose first element alone is written as a byte (an untagged enum) is not a list of bytes.
        payload.truncate(begin);
        serialize(payload, value, BytesMode::Normal).map_err(|error| error.to_string())?;
    }
    if u32::try_from(payload.len()).is_err() {
        return Err("it is longer than 4 GiB".into());
    }
    // What a reader would refuse is refused here: too deep a nesting, or a `Serialize` that writes not one value.
    let mut written = Reader::new(&payload[begin..]);
    written.skip(depth).map_err(|error| error.to_string())?;
    if written.rest.is_empty() { Ok(()) } else { Err("its `Serialize` writes more than one value".into()) }
}

#[inline]
fn serialize<T: Serialize + ?Sized>(
    payload: &mut Vec<u8>,
    value: &T,
    bytes: BytesMode,
) -> Result<(), rmp_serde::encode::Error> {
    value.serialize(&mut Serializer::new(payload).with_bytes(bytes))
}

/// A value with its structs as maps.
pub(crate) fn with_maps<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let write = |bytes| {
        let mut out = Vec::new();
        value.serialize(&mut Serializer::new(&mut out).with_struct_map().with_bytes(bytes))?;
        Ok(out)
    };
    // A list whose first element alone is written as a byte is not a list of bytes.
    write(BytesMode::ForceIterables).or_else(|_: rmp_serde::encode::Error| write(BytesMode::Normal))
}

/// What a message of ours says beside its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// How many attempts failed so far.
    pub attempts: u32,
    /// How long it waits after a failed attempt. None: what the task says holds.
    pub backoff: Option<Backoff>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The id of the call.
    pub id: Option<CallId>,
    /// Whether the payload is an array of arguments by place, as Python sends them: each is one value, also those of a
    /// variadic parameter.
    pub by_place: bool,
    /// How often it may be retried; negative is for ever. None: without limit if there is a `retry_for_ms`, else as often as
    /// the task says.
    pub retry: Option<i64>,
    /// For how long after its first failed attempt it is retried, in milliseconds; 0 is written as 1. None: the task's own
    /// time holds.
    pub retry_for_ms: Option<u64>,
    /// For how many milliseconds the record of the call is kept after its end. None: it has none.
    pub keep_ms: Option<u64>,
    /// How long one run may go on, in milliseconds; 0 is written as 1. None: the task's own time holds.
    pub timeout_ms: Option<u64>,
    /// The lock of a unique call.
    pub lock: Option<Lock>,
}

/// A message of ours: `[path, payload, meta]`, and without any meta what Go makes: `[path, payload]`.
///
/// # Panics
/// A path or a payload of 4 GiB or more.
#[must_use]
pub fn native(path: &str, payload: &[u8], meta: &Meta) -> Vec<u8> {
    annotated(path, payload, meta, &Annotations::default())
}

/// The same with what it carries for its program.
///
/// # Panics
/// A path or a payload of 4 GiB or more.
#[must_use]
pub fn annotated(path: &str, payload: &[u8], meta: &Meta, annotations: &Annotations) -> Vec<u8> {
    with_keywords(path, payload, &[0x80], meta, annotations)
}

/// A message of ours with arguments by keyword alone, in a map from an [`Encoder`]; for a task whose parameters are not
/// known.
///
/// # Panics
/// A path or keywords of 4 GiB or more.
#[must_use]
pub fn by_keyword(path: &str, keywords: &[u8], meta: &Meta, annotations: &Annotations) -> Vec<u8> {
    with_keywords(path, &[0x90], keywords, &Meta { by_place: true, ..*meta }, annotations)
}

fn with_keywords(
    path: &str,
    payload: &[u8],
    keywords: &[u8],
    meta: &Meta,
    annotations: &Annotations,
) -> Vec<u8> {
    if *meta == Meta::default() && annotations.is_empty() {
        return go_task(path, payload);
    }
    let said = [
        meta.attempts > 0,
        meta.backoff.is_some(),
        meta.expires_ms.is_some(),
        meta.retry_for_ms.is_some(),
        !annotations.headers.is_empty(),
        meta.id.is_some(),
        meta.by_place,
        !annotations.limits.is_empty(),
        meta.retry.is_some(),
        meta.keep_ms.is_some(),
        meta.timeout_ms.is_some(),
        meta.lock.is_some(),
        !annotations.trace.is_empty(),
    ];
    let count = said.into_iter().filter(|said| *said).count();
    let mut message = Vec::with_capacity(path.len() + payload.len() + keywords.len() + 76);
    array_head(&mut message, 3);
    text(&mut message, path);
    bytes(&mut message, payload);
    map_head(&mut message, count);
    if meta.attempts > 0 {
        message.extend_from_slice(meta::ATTEMPTS);
        message.extend_from_slice(integer(u64::from(meta.attempts)).as_slice());
    }
    if let Some(backoff) = meta.backoff {
        message.extend_from_slice(meta::BACKOFF);
        text(&mut message, &backoff.to_string());
    }
    if let Some(expires) = meta.expires_ms {
        message.extend_from_slice(meta::EXPIRES);
        message.extend_from_slice(integer(expires).as_slice());
    }
    if let Some(time) = meta.retry_for_ms {
        message.extend_from_slice(meta::RETRY_FOR);
        message.extend_from_slice(integer(time.max(1)).as_slice());
    }
    if !annotations.headers.is_empty() {
        message.extend_from_slice(meta::HEADERS);
        texts(&mut message, annotations.headers.iter());
    }
    if let Some(id) = &meta.id {
        message.extend_from_slice(meta::ID);
        bytes(&mut message, id.as_bytes());
    }
    if meta.by_place {
        message.extend_from_slice(meta::KEYWORDS);
        message.extend_from_slice(keywords);
    }
    if !annotations.limits.is_empty() {
        message.extend_from_slice(meta::LIMITS);
        array_head(&mut message, annotations.limits.len());
        annotations.limits.iter().for_each(|limit| text(&mut message, limit.as_str()));
    }
    if let Some(retry) = meta.retry {
        message.extend_from_slice(meta::RETRY);
        message.extend_from_slice(signed_integer(retry).as_slice());
    }
    if let Some(keep) = meta.keep_ms {
        message.extend_from_slice(meta::KEEP);
        message.extend_from_slice(integer(keep).as_slice());
    }
    if let Some(timeout) = meta.timeout_ms {
        message.extend_from_slice(meta::TIMEOUT);
        message.extend_from_slice(integer(timeout.max(1)).as_slice());
    }
    if let Some(lock) = &meta.lock {
        message.extend_from_slice(meta::UNIQUE);
        bytes(&mut message, lock.as_bytes());
    }
    if !annotations.trace.is_empty() {
        message.extend_from_slice(meta::TRACE);
        trace(&mut message, &annotations.trace);
    }
    message
}

/// The message of Go's `NewGoTask(path, …)`: `[path, payload]`, with a payload from an [`Encoder`].
///
/// # Panics
/// A path or a payload of 4 GiB or more.
#[must_use]
pub fn go_task(path: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(path.len() + payload.len() + 11);
    array_head(&mut message, 2);
    text(&mut message, path);
    bytes(&mut message, payload);
    message
}

/// A message of our form, its `pairs` in alphabetical order, or of Go's form when there are none.
pub(crate) fn frame(task: &str, payload: &[u8], mut pairs: Vec<meta::Pair<'_>>) -> Vec<u8> {
    // Keys that are no text come first.
    pairs.sort_by_key(|(key, _)| meta::name(key));
    let pairs_length: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let mut message = Vec::with_capacity(task.len() + payload.len() + pairs_length + 16);
    array_head(&mut message, if pairs.is_empty() { 2 } else { 3 });
    text(&mut message, task);
    bytes(&mut message, payload);
    if !pairs.is_empty() {
        map_head(&mut message, pairs.len());
        for (key, value) in pairs {
            message.extend_from_slice(key);
            message.extend_from_slice(value);
        }
    }
    message
}

/// The message of Python's `PyTask(path, args, kwargs, retry)`, for a function of a Python worker
/// (`package.module:function`): empty elements are cut off at the end.
///
/// `args` is an encoded array and `kwargs` an encoded map; both are empty as nil, too, or without any bytes.
/// `retry` is how often it may be retried; negative is for ever.
///
/// # Panics
/// A path of 4 GiB or more.
#[must_use]
pub fn py_task(path: &str, args: &[u8], kwargs: &[u8], retry: i64) -> Vec<u8> {
    let (no_args, no_kwargs) = (matches!(args, [] | [0xc0] | [0x90]), matches!(kwargs, [] | [0xc0] | [0x80]));
    let count = match (no_args, no_kwargs, retry) {
        (true, true, 0) => 1,
        (false, true, 0) => 2,
        (_, false, 0) => 3,
        _ => 4,
    };
    let mut message = Vec::with_capacity(path.len() + args.len() + kwargs.len() + 17);
    array_head(&mut message, count);
    text(&mut message, path);
    if count > 1 {
        message.extend_from_slice(if no_args { &[0x90] } else { args });
    }
    if count > 2 {
        message.extend_from_slice(if no_kwargs { &[0x80] } else { kwargs });
    }
    if count > 3 {
        message.extend_from_slice(signed_integer(retry).as_slice());
    }
    message
}

/// An encoded integer: at most nine bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Integer {
    bytes: [u8; 9],
    length: usize,
}

impl Integer {
    fn of(marker: Option<u8>, value: &[u8]) -> Self {
        let (mut bytes, begin) = ([0; 9], usize::from(marker.is_some()));
        bytes[0] = marker.unwrap_or_default();
        bytes[begin..begin + value.len()].copy_from_slice(value);
        Self { bytes, length: begin + value.len() }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// An integer in the smallest width.
pub(crate) fn integer(value: u64) -> Integer {
    match value {
        0..=0x7f => Integer::of(None, &[value as u8]),
        0x80..=0xff => Integer::of(Some(0xcc), &[value as u8]),
        0x100..=0xffff => Integer::of(Some(0xcd), &(value as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => Integer::of(Some(0xce), &(value as u32).to_be_bytes()),
        _ => Integer::of(Some(0xcf), &value.to_be_bytes()),
    }
}

/// The same with a sign.
pub(crate) fn signed_integer(value: i64) -> Integer {
    if let Ok(value) = u64::try_from(value) {
        return integer(value);
    }
    match value {
        -0x20.. => Integer::of(None, &(value as i8).to_be_bytes()),
        -0x80.. => Integer::of(Some(0xd0), &(value as i8).to_be_bytes()),
        -0x8000.. => Integer::of(Some(0xd1), &(value as i16).to_be_bytes()),
        -0x8000_0000.. => Integer::of(Some(0xd2), &(value as i32).to_be_bytes()),
        _ => Integer::of(Some(0xd3), &value.to_be_bytes()),
    }
}

/// The head of an array.
pub(crate) fn array_head(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=0x0f => out.push(0x90 | count as u8),
        _ => long_head(out, None, 0xdc, count),
    }
}

/// The head of a map.
pub(crate) fn map_head(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=0x0f => out.push(0x80 | count as u8),
        _ => long_head(out, None, 0xde, count),
    }
}

/// A `str`.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..=0x1f => out.push(0xa0 | length as u8),
        length => long_head(out, Some(0xd9), 0xda, length),
    }
    out.extend_from_slice(text.as_bytes());
}

/// A map of texts.
fn texts<'a>(out: &mut Vec<u8>, pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
    map_head(out, pairs.len());
    for (name, value) in pairs {
        text(out, name);
        text(out, value);
    }
}

/// The texts of a trace context: the second is left out if it is empty.
fn trace(out: &mut Vec<u8>, trace: &TraceContext) {
    let texts = [&trace.parent, &trace.state];
    let count = if trace.state.is_empty() { 1 } else { 2 };
    array_head(out, count);
    texts[..count].iter().for_each(|part| text(out, part));
}

/// The value of `w` for a trace, with the span of the last attempt's run, if there is one.
#[cfg_attr(not(feature = "otel"), allow(dead_code))]
pub(crate) fn trace_value(of: &TraceContext, last: Option<&str>) -> Vec<u8> {
    let mut value = Vec::with_capacity(120);
    match last {
        None => trace(&mut value, of),
        Some(last) => {
            array_head(&mut value, 3);
            [&*of.parent, &*of.state, last].into_iter().for_each(|part| text(&mut value, part));
        }
    }
    value
}

/// A `bin`.
pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    long_head(out, Some(0xc4), 0xc5, bytes.len());
    out.extend_from_slice(bytes);
}

/// A marker and a length in the smallest width: `marker8` takes one byte, `marker16` two, the next one four.
fn long_head(out: &mut Vec<u8>, marker8: Option<u8>, marker16: u8, length: usize) {
    match (marker8, length) {
        (Some(marker8), 0..=0xff) => out.extend_from_slice(&[marker8, length as u8]),
        (_, 0..=0xffff) => {
            out.push(marker16);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            let length = u32::try_from(length).expect("no message is as long as 4 GiB");
            out.push(marker16 + 1);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
