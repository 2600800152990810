//! Do arguments in JSON fit a task, and which bytes are they?

use serde_json::{Map, Value};

use super::notation::{self, Argument};
use super::{ArgumentsError, exact};
use crate::protocol::arguments::{Arguments, Parameter, Presence};
use crate::protocol::encode::{Encoder, array_head, map_head};
use crate::task::Registration;

/// Arguments as they were given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    ByPlace(Vec<Value>),
    ByName(Map<String, Value>),
}

impl Given {
    /// Reads a text; none is no arguments.
    ///
    /// # Errors
    /// It is not JSON, would not be sent as it is written, or is neither an array nor an object.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, ArgumentsError> {
        match text.map(exact::parse) {
            None => Ok(Self::ByPlace(Vec::new())),
            Some(Ok(value)) => Self::of(value),
            Some(Err(error)) => Err(ArgumentsError::new(format!(
                "the arguments cannot be read: {error}; use an array, such as '[1, \"two\"]', or an object with the \
                parameters' names"
            ))),
        }
    }

    /// The arguments that a value has.
    ///
    /// # Errors
    /// It is neither an array nor an object, or an object in it stands for no value.
    pub(crate) fn of(value: Value) -> Result<Self, ArgumentsError> {
        let given = match value {
            Value::Array(values) => Self::ByPlace(values),
            Value::Object(values) => Self::ByName(values),
            value => {
                return Err(ArgumentsError::new(format!(
                    "the arguments must be a JSON array, such as '[{value}]', or an object with the parameters' names"
                )));
            }
        };
        given.check_notation().map(|()| given)
    }

    /// Checks all objects that stand for values which JSON does not have.
    ///
    /// # Errors
    /// One of them stands for nothing.
    pub(crate) fn check_notation(&self) -> Result<(), ArgumentsError> {
        let wrong = match self {
            Self::ByPlace(values) => values.iter().try_for_each(notation::check),
            // Its names are those of parameters.
            Self::ByName(values) => values.values().try_for_each(notation::check),
        };
        wrong.map_err(|wrong| ArgumentsError::new(format!("the arguments cannot be read: {wrong}")))
    }

    /// The same behind a first argument, nil, in whose place a result comes.
    pub(crate) fn with_first(self, path: &str, task: Option<&Registration>) -> Result<Self, ArgumentsError> {
        match (self, task.map(|task| task.params)) {
            (Self::ByPlace(mut values), _) => {
                values.insert(0, Value::Null);
                Ok(Self::ByPlace(values))
            }
            (Self::ByName(mut values), Some([first, ..])) => {
                values.insert(first.name.to_owned(), Value::Null);
                Ok(Self::ByName(values))
            }
            (Self::ByName(_), _) => Err(ArgumentsError::new(format!(
                "the arguments of the step `{path}` follow the result before it, and the task is not in this program: use an \
                 array"
            ))),
        }
    }

    /// Whether so many can be arguments of a task, whatever their types.
    pub(crate) fn check_count(&self, task: &Registration) -> Result<(), ArgumentsError> {
        let params = task.params;
        let (fits, is_there): (bool, &dyn Fn(usize) -> bool) = match self {
            Self::ByPlace(values) => {
                let has_rest = params.last().is_some_and(|param| param.presence == Presence::Variadic);
                (has_rest || values.len() <= params.len(), &|place| place < values.len())
            }
            Self::ByName(values) => {
                let is_known = |name: &String| params.iter().any(|param| param.name == *name);
                (values.keys().all(is_known), &|place: usize| values.contains_key(params[place].name))
            }
        };
        let required = params.iter().enumerate().filter(|(_, param)| param.presence == Presence::Required);
        if fits && required.map(|(place, _)| place).all(is_there) {
            return Ok(());
        }
        Err(ArgumentsError::new(format!(
            "`{}` is {}, and these are not the arguments behind its first one",
            task.name,
            task.signature()
        )))
    }

    /// Checks whether there are as many as a task takes, and by its names, whatever their types.
    #[cfg(feature = "gateway")]
    pub(crate) fn fit<P: Parameter>(&self, params: &[P]) -> Result<(), ArgumentsError> {
        let is_given = |place: usize, param: &P| match self {
            Self::ByPlace(values) => place < values.len(),
            Self::ByName(values) => values.contains_key(param.name()),
        };
        let mut places = params.iter().enumerate();
        let is_missing =
            |(place, param): &(usize, &P)| param.presence() == Presence::Required && !is_given(*place, param);
        if let Some((_, missing)) = places.find(is_missing) {
            return Err(ArgumentsError::new(format!("`{}` is missing", missing.name())));
        }
        let has_rest = params.last().is_some_and(|param| param.presence() == Presence::Variadic);
        match self {
            Self::ByPlace(values) if values.len() > params.len() && !has_rest => {
                Err(ArgumentsError::new(format!("{} arguments are too many", values.len())))
            }
            Self::ByPlace(_) => Ok(()),
            Self::ByName(values) => {
                match values.keys().find(|name| !params.iter().any(|param| param.name() == *name)) {
                    Some(unknown) => Err(ArgumentsError::new(format!("it has no parameter `{unknown}`"))),
                    None => Ok(()),
                }
            }
        }
    }

    /// The payload for a task of these parameters, after [`check`], and whether it has to be read by place to mean
    /// the same.
    pub(crate) fn payload_for<P: Parameter>(&self, params: &[P]) -> Result<(Vec<u8>, bool), ArgumentsError> {
        let rest = params.last().filter(|param| param.presence() == Presence::Variadic);
        let values = match self {
            Self::ByPlace(values) => values,
            Self::ByName(named) => return Ok((places(params, &placed(params, rest, named)?)?, false)),
        };
        match (params, rest) {
            // Alone: the array of what is given is the list.
            ([_], Some(_)) => Ok((array(values)?, false)),
            _ => {
                // In a payload this would be the list of Go, by place it is the only element.
                let last = values.get(params.len().wrapping_sub(1)..);
                let by_place = rest.is_some() && matches!(last, Some([Value::Array(_) | Value::Null]));
                Ok((places(params, values)?, by_place))
            }
        }
    }

    /// As Python would send them: an array and a map, which say by themselves how many there are.
    fn place_and_keyword(&self) -> Result<(Vec<u8>, Vec<u8>), ArgumentsError> {
        match self {
            Self::ByPlace(values) => Ok((array(values)?, vec![0x80])),
            Self::ByName(values) => Ok((vec![0x90], keywords(values)?)),
        }
    }
}

/// Arguments by name in their places. What is left out before another is nil; a variadic one is its list, as Go has it.
fn placed<P: Parameter>(
    params: &[P],
    rest: Option<&P>,
    named: &Map<String, Value>,
) -> Result<Vec<Value>, ArgumentsError> {
    if let Some(name) = rest.map(Parameter::name)
        && !matches!(named.get(name), None | Some(Value::Array(_) | Value::Null))
    {
        return Err(ArgumentsError::new(format!("by its name `{name}` takes a list, such as [1, 2]")));
    }
    let count = params.iter().rposition(|param| named.contains_key(param.name())).map_or(0, |last| last + 1);
    Ok(params[..count].iter().map(|param| named.get(param.name()).cloned().unwrap_or(Value::Null)).collect())
}

/// The payload for a task whose parameters are not known: as Go makes it.
pub(crate) fn payload(values: &[Value]) -> Result<Vec<u8>, ArgumentsError> {
    encode(values, values.len())
}

/// Arguments by keyword, as a map.
pub(crate) fn keywords(values: &Map<String, Value>) -> Result<Vec<u8>, ArgumentsError> {
    let mut bytes = Vec::new();
    map_head(&mut bytes, values.len());
    for (name, value) in values {
        bytes.extend(encode(&[Value::String(name.clone())], 1)?);
        bytes.extend(encode(std::slice::from_ref(value), 1)?);
    }
    Ok(bytes)
}

fn places<P>(params: &[P], values: &[Value]) -> Result<Vec<u8>, ArgumentsError> {
    match params {
        [_, _, ..] => array(values),
        _ => encode(values, values.len()),
    }
}

fn array(values: &[Value]) -> Result<Vec<u8>, ArgumentsError> {
    let mut bytes = Vec::new();
    array_head(&mut bytes, values.len());
    for value in values {
        bytes.extend(encode(std::slice::from_ref(value), 1)?);
    }
    Ok(bytes)
}

fn encode(values: &[Value], count: usize) -> Result<Vec<u8>, ArgumentsError> {
    let mut encoder = Encoder::new(count);
    values.iter().for_each(|value| encoder.argument("JSON", &Argument(value)));
    encoder.finish().map_err(|error| ArgumentsError::new(error.to_string()))
}

/// Checks the arguments by the task's own rules, without running it.
fn check(task: &'static Registration, given: &Given) -> Result<(), ArgumentsError> {
    let (positional, keywords) = given.place_and_keyword()?;
    (task.check)(Arguments::by_place_and_keyword(&positional, &keywords))
        .map_err(|error| ArgumentsError::new(format!("`{}`: {error}; it is {}", task.name, task.signature())))
}

/// The payload for a task, and whether it has to be read by place, after [`check`].
pub(crate) fn checked(task: &'static Registration, given: &Given) -> Result<(Vec<u8>, bool), ArgumentsError> {
    check(task, given)?;
    given.payload_for(task.params)
}
