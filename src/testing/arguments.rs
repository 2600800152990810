//! Compares the arguments of a message with what a test expects of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::protocol::arguments::{ArgumentReader, Arguments, Param, Presence};
use crate::protocol::decode::from_slice;
use crate::protocol::encode::{EncodeError, Encoder};
use crate::protocol::message::Message;
use crate::testing::value::Value;

/// As many arguments a task has at most.
pub(super) const MOST: usize = 16;
/// The parameters of a task that is not known here: arguments by place.
static PLACES: [Param; MOST] = [Param { name: "", ty: "", presence: Presence::Optional }; MOST];
const NIL: &[u8] = &[0xc0];

/// Reads arguments, and says whether they are as expected; `None` if they have another type.
type Check<'t> = Box<dyn for<'a> Fn(&mut ArgumentReader<'a>) -> Option<bool> + 't>;

/// What is expected of one argument.
pub enum Position<'t> {
    /// Nothing: `_`.
    Any,
    /// This value, encoded.
    Value(Vec<u8>),
    /// What a closure checks.
    Check(Check<'t>),
}

/// What is expected of the arguments of a call.
#[derive(Debug)]
pub(super) enum Expected<'t> {
    /// One by one; if it is open, more may follow.
    Each { positions: Vec<Position<'t>>, is_open: bool },
    /// Of so many together.
    All { count: usize, check: Position<'t> },
}

/// What an argument can be compared with.
#[diagnostic::on_unimplemented(
    message = "an argument cannot be compared with `{Self}`: it does not implement `serde::Serialize`",
    label = "expected a value, `_`, or a closure that names the type of its argument",
    note = "such as `args: [\"ann\", _, |count: u32| count > 3]`"
)]
pub trait Comparable {
    /// The value, encoded as an argument is.
    ///
    /// # Errors
    /// It cannot be encoded.
    fn encoded(&self) -> Result<Vec<u8>, EncodeError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Comparable for T {
    fn encoded(&self) -> Result<Vec<u8>, EncodeError> {
        let mut encoder = Encoder::new(1);
        encoder.argument("expected", self);
        encoder.finish()
    }
}

impl<'t> Position<'t> {
    /// This value.
    ///
    /// # Panics
    /// It cannot be encoded.
    pub fn value<T: Comparable + ?Sized>(value: &T) -> Self {
        Self::Value(value.encoded().unwrap_or_else(|error| panic!("delayed::testing: {error}")))
    }

    /// What a closure checks.
    pub fn check(check: impl for<'a> Fn(&mut ArgumentReader<'a>) -> Option<bool> + 't) -> Self {
        Self::Check(Box::new(check))
    }

    /// Reads the next argument. Gives whether it is as expected, or `None` if it has another type.
    fn is_met(&self, reader: &mut ArgumentReader<'_>, param: Option<&Param>) -> Option<bool> {
        let expected = match self {
            Self::Check(check) => return check(reader),
            Self::Value(expected) => Some(from_slice::<Value>(expected).ok()?),
            Self::Any => None,
        };
        let value = match param.map(|param| param.presence) {
            Some(Presence::Variadic) => Value::List(reader.variadic().ok()?),
            _ => next(reader)?,
        };
        Some(expected.is_none_or(|expected| expected.is_same(&value)))
    }
}

impl fmt::Debug for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "Any",
            Self::Value(_) => "Value",
            Self::Check(_) => "Check",
        })
    }
}

/// Reads the next argument; one that is missing is nil. `None` if it has another type.
pub fn next<'a, T: Deserialize<'a>>(reader: &mut ArgumentReader<'a>) -> Option<T> {
    match reader.optional() {
        Ok(Some(value)) => Some(value),
        Ok(None) => from_slice(NIL).ok(),
        Err(_) => None,
    }
}

impl Expected<'_> {
    /// Why the arguments of a message are not as expected; `None` if they are. `params` are those of the task, if this
    /// program has it.
    pub(super) fn problem(&self, message: &Message<'_>, params: Option<&'static [Param]>) -> Option<String> {
        let (count, is_open) = match self {
            Self::Each { positions, is_open } => (positions.len(), *is_open),
            Self::All { count, .. } => (*count, false),
        };
        let fits = |params: &[Param]| params.len() == count || (is_open && params.len() > count);
        if let Some(params) = params.filter(|params| !fits(params)) {
            return Some(format!("the task has {}", arguments(params.len())));
        }
        let mut reader = match reader(message, params, if is_open { MOST } else { count }) {
            Ok(reader) => reader,
            Err(error) => return Some(error),
        };
        match self {
            Self::Each { positions, .. } => positions.iter().enumerate().find_map(|(index, position)| {
                let param = params.and_then(|params| params.get(index));
                let problem = problem(position.is_met(&mut reader, param))?;
                let name = param.map_or_else(String::new, |param| format!(" (`{}`)", param.name));
                Some(format!("argument {}{name} {problem}", index + 1))
            }),
            Self::All { check, .. } => {
                problem(check.is_met(&mut reader, None)).map(|problem| format!("an argument {problem}"))
            }
        }
    }
}

fn problem(is_met: Option<bool>) -> Option<&'static str> {
    match is_met {
        Some(true) => None,
        Some(false) => Some("differs"),
        None => Some("has another type"),
    }
}

fn arguments(count: usize) -> String {
    if count == 1 { "1 argument".into() } else { format!("{count} arguments") }
}

/// Begins to read the arguments of a message: of a task that is not known here, up to `count` of them by place.
pub(super) fn reader<'a>(
    message: &Message<'a>,
    params: Option<&'static [Param]>,
    count: usize,
) -> Result<ArgumentReader<'a>, String> {
    let given = message.arguments();
    let reader = match params {
        Some(params) => given.reader(params),
        None => {
            let by_place = match given.parts() {
                (positional, Some(_)) => Arguments::by_place_and_keyword(positional, NIL),
                (payload, None) => Arguments::from_payload(payload),
            };
            by_place.reader(PLACES.get(..count).unwrap_or(&PLACES))
        }
    };
    reader.map_err(|error| error.to_string())
}
