//! No bytes make a message panic: its frame, its arguments by many signatures, and the message of its next attempt.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::SystemTime;

use delayed::__private::protocol::arguments::{ArgumentError, Param, Presence};
use delayed::__private::protocol::decode::from_slice;
use delayed::__private::protocol::encode::Encoder;
use delayed::__private::protocol::message::Message;
use delayed::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    name: String,
    tags: Vec<String>,
    extra: BTreeMap<String, i32>,
    note: Option<String>,
    #[serde(default)]
    parts: Vec<Order>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Empty,
    Circle(f64),
    Line(i8, u16),
    Named { name: String, inner: Option<Box<Shape>> },
}

const fn param(name: &'static str, presence: Presence) -> Param {
    Param { name, ty: "T", presence }
}

const NONE: &[Param] = &[];
const ONE: &[Param] = &[param("a", Presence::Required)];
const MAYBE: &[Param] = &[param("a", Presence::Optional)];
const MANY: &[Param] = &[param("a", Presence::Variadic)];
const THREE: &[Param] =
    &[param("a", Presence::Required), param("b", Presence::Required), param("c", Presence::Optional)];
const REST: &[Param] = &[param("a", Presence::Required), param("b", Presence::Variadic)];

type Read = Result<String, ArgumentError>;

fn none(message: &Message<'_>) -> Read {
    message.arguments().reader(NONE)?.finish().map(|()| String::new())
}

fn one<T: DeserializeOwned + Debug>(message: &Message<'_>) -> Read {
    let mut reader = message.arguments().reader(ONE)?;
    let value: T = reader.required()?;
    reader.finish().map(|()| format!("{value:?}"))
}

fn maybe<T: DeserializeOwned + Debug>(message: &Message<'_>) -> Read {
    let mut reader = message.arguments().reader(MAYBE)?;
    let value: Option<T> = reader.optional()?;
    reader.finish().map(|()| format!("{value:?}"))
}

fn many<T: DeserializeOwned + Debug>(message: &Message<'_>) -> Read {
    let mut reader = message.arguments().reader(MANY)?;
    let values: Vec<T> = reader.variadic()?;
    reader.finish().map(|()| format!("{values:?}"))
}

fn three(message: &Message<'_>) -> Read {
    let mut reader = message.arguments().reader(THREE)?;
    let values: (i64, String, Option<bool>) = (reader.required()?, reader.required()?, reader.optional()?);
    reader.finish().map(|()| format!("{values:?}"))
}

fn rest<T: DeserializeOwned + Debug>(message: &Message<'_>) -> Read {
    let mut reader = message.arguments().reader(REST)?;
    let values: (T, Vec<T>) = (reader.required()?, reader.variadic()?);
    reader.finish().map(|()| format!("{values:?}"))
}

const SIGNATURES: &[fn(&Message<'_>) -> Read] = &[
    none,
    one::<i64>,
    one::<String>,
    one::<f32>,
    one::<Vec<u8>>,
    one::<Vec<i64>>,
    one::<Order>,
    one::<Shape>,
    one::<SystemTime>,
    one::<Timestamp>,
    one::<BTreeMap<String, Vec<u16>>>,
    one::<serde_json::Value>,
    one::<(u8, [u8; 3], char)>,
    maybe::<i32>,
    maybe::<Vec<Order>>,
    many::<i64>,
    many::<String>,
    many::<Order>,
    many::<u8>,
    three,
    rest::<i64>,
    rest::<Vec<i64>>,
    rest::<serde_json::Value>,
];

/// What was read is written and read again.
fn round<T: Serialize + DeserializeOwned + Debug>(message: &Message<'_>) {
    let Ok(mut reader) = message.arguments().reader(ONE) else { return };
    let Ok(value) = reader.required::<T>() else { return };
    let mut encoder = Encoder::new(1);
    encoder.argument("a", &value);
    let payload = encoder.finish().expect("what was read can be written");
    let again = from_slice::<T>(&payload).expect("what was written can be read");
    assert_eq!(format!("{value:?}"), format!("{again:?}"));
}

pub(crate) fn target(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    let retried = message.retried();
    let next = Message::decode(&retried).expect("the next attempt is a message");
    assert_eq!(next.task(), message.task());
    assert_eq!(next.retry(), message.retry());
    assert_eq!(next.id(), message.id());
    assert_eq!(next.attempts(), message.attempts().saturating_add(1));
    for signature in SIGNATURES {
        assert_eq!(signature(&message), signature(&next));
    }
    let revived = next.revived();
    let revived = Message::decode(&revived).expect("the revived is a message");
    assert_eq!((revived.attempts(), revived.retry()), (0, message.retry()));
    assert_eq!(one::<serde_json::Value>(&revived), one::<serde_json::Value>(&message));
    round::<Order>(&message);
    round::<Shape>(&message);
    round::<Timestamp>(&message);
    round::<(f32, i128, Vec<u8>)>(&message);
}
