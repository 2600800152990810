//! The bytes of the Go module, as typed arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delayed::__private::protocol::arguments::{ArgumentReader, Param};
use delayed::__private::protocol::encode::{Encoder, go_task, py_task};
use delayed::__private::protocol::message::{Form, Message};
use delayed::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::vectors::{Case, load, params};

const VECTORS: &str = include_str!("go-delayed.json");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Point {
    x: i64,
    y: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    name: String,
    tags: Vec<String>,
    at: Point,
    extra: BTreeMap<String, i64>,
    note: Option<String>,
}

/// The cases, and which of them were looked at.
struct Vectors {
    cases: Vec<Case>,
    seen: BTreeSet<String>,
}

impl Vectors {
    fn case(&mut self, name: &str) -> &Case {
        assert!(self.seen.insert(name.to_owned()), "{name} twice");
        self.cases.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
    }
}

/// One argument of a known type: how it is read and written.
trait Argument: Debug {
    fn check(&self, reader: &mut ArgumentReader<'_>, name: &str);
    fn write(&self, encoder: &mut Encoder);
}

impl<T: Serialize + DeserializeOwned + PartialEq + Debug> Argument for T {
    fn check(&self, reader: &mut ArgumentReader<'_>, name: &str) {
        let read: T = reader.required().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&read, self, "{name}");
    }

    fn write(&self, encoder: &mut Encoder) {
        encoder.argument("value", self);
    }
}

/// The case reads as these arguments, and so does its next attempt.
fn reads(case: &Case, names: &[&str], arguments: &[&dyn Argument]) {
    let params: &'static [Param] = params(names.iter().map(|&name| name.to_owned()));
    let message = Message::decode(&case.bytes).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let (retried, revived) = (message.retried(), message.revived());
    assert_eq!(revived, case.bytes);
    for message in [message, Message::decode(&retried).unwrap()] {
        assert_eq!(message.task(), case.path);
        let mut reader =
            message.arguments().reader(params).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        arguments.iter().for_each(|argument| argument.check(&mut reader, &case.name));
        reader.finish().unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
}

const NAMES: [&str; 20] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];

/// The case reads as these arguments, and they are written as its bytes.
fn both_ways(vectors: &mut Vectors, name: &str, arguments: &[&dyn Argument]) {
    let case = vectors.case(name);
    reads(case, &NAMES[..arguments.len()], arguments);
    let mut encoder = Encoder::new(arguments.len());
    arguments.iter().for_each(|argument| argument.write(&mut encoder));
    assert_eq!(go_task(&case.path, &encoder.finish().unwrap()), case.bytes, "{name}");
}

#[test]
fn every_message_is_read_and_written() {
    let mut vectors = Vectors { cases: load(VECTORS), seen: BTreeSet::new() };
    numbers_and_texts(&mut vectors);
    lists_maps_and_structs(&mut vectors);
    several(&mut vectors);
    moments(&mut vectors);
    py_tasks(&mut vectors);
    let all: BTreeSet<String> = vectors.cases.iter().map(|case| case.name.clone()).collect();
    assert_eq!(vectors.seen, all);
}

fn numbers_and_texts(vectors: &mut Vectors) {
    both_ways(vectors, "no arguments", &[]);
    reads(vectors.case("nil argument"), &[], &[]);
    both_ways(vectors, "one int", &[&5_i64]);
    both_ways(vectors, "one negative int", &[&-5_i64]);
    both_ways(vectors, "one int 200", &[&200_i64]);
    both_ways(vectors, "one int -200", &[&-200_i64]);
    both_ways(vectors, "one int64 max", &[&i64::MAX]);
    both_ways(vectors, "one int64 min", &[&i64::MIN]);
    both_ways(vectors, "one uint64 max", &[&u64::MAX]);
    both_ways(vectors, "one uint8", &[&7_u8]);
    both_ways(vectors, "one float64", &[&0.5_f64]);
    both_ways(vectors, "one float32", &[&0.5_f32]);
    both_ways(vectors, "one bool", &[&true]);
    both_ways(vectors, "one string", &[&"ann".to_owned()]);
    both_ways(vectors, "one long string", &[&"é".repeat(40)]);
    both_ways(vectors, "one empty string", &[&String::new()]);
    both_ways(vectors, "a string of 300 bytes", &[&"a".repeat(300)]);
    both_ways(vectors, "bytes", &[&vec![0_u8, 1, 255]]);
}

fn lists_maps_and_structs(vectors: &mut Vectors) {
    let point = Point { x: 1, y: 2.5 };
    both_ways(vectors, "slice of ints", &[&vec![1_i64, 2, 300]]);
    reads(
        vectors.cases.iter().find(|case| case.name == "slice of ints").unwrap(),
        &NAMES[..3],
        &[&1, &2, &300],
    );
    both_ways(vectors, "empty slice", &[&Vec::<i64>::new()]);
    both_ways(vectors, "array of ints", &[&[1_i64, 2, 3]]);
    both_ways(vectors, "map", &[&BTreeMap::from([("a".to_owned(), 1_i64)])]);
    both_ways(vectors, "struct", &[&point]);
    both_ways(vectors, "pointer to struct", &[&point]);
    both_ways(vectors, "slice of structs", &[&vec![Point { x: 1, y: 2.0 }, Point { x: 3, y: 4.0 }]]);
    let order = Order {
        id: 1 << 40,
        name: "shoes".into(),
        tags: vec!["a".into(), "b".into()],
        at: Point { x: 3, y: 4.0 },
        extra: BTreeMap::from([("k".into(), 9)]),
        note: Some("n".into()),
    };
    both_ways(vectors, "nested struct", &[&order]);
    // Go's nil for an empty list or map is read; we write the empty one.
    let at = Point { x: 0, y: 0.0 };
    let empty = Order { id: 0, name: String::new(), tags: vec![], at, extra: BTreeMap::new(), note: None };
    reads(vectors.case("nested struct, empty"), &["a"], &[&empty]);
}

fn several(vectors: &mut Vectors) {
    both_ways(vectors, "two ints", &[&1_i64, &2_i64]);
    both_ways(vectors, "int and string", &[&7_i64, &"x".to_owned()]);
    both_ways(vectors, "int and nil", &[&7_i64, &None::<String>]);
    both_ways(vectors, "int, string, bool", &[&1_i64, &"two".to_owned(), &true]);
    both_ways(vectors, "struct and int", &[&Point { x: 1, y: 2.0 }, &3_i64]);
    both_ways(vectors, "two structs", &[&Point { x: 1, y: 2.0 }, &Point { x: 3, y: 4.0 }]);
    both_ways(vectors, "list and list", &[&vec![1_i64], &vec![2_i64, 3]]);
    both_ways(vectors, "four arguments", &[&-1_i64, &1.5_f64, &"s".to_owned(), &vec![9_u8]]);
    let many: Vec<i64> = (0..20).collect();
    let many: Vec<&dyn Argument> = many.iter().map(|argument| argument as &dyn Argument).collect();
    both_ways(vectors, "twenty arguments", &many);
}

fn moments(vectors: &mut Vectors) {
    let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    both_ways(vectors, "time", &[&Timestamp::from(time)]);
    both_ways(vectors, "time, whole second", &[&Timestamp::new(1_700_000_000, 0).unwrap()]);
    for (name, nanoseconds) in [("time", 123_456_789), ("time, whole second", 0)] {
        let time: SystemTime = UNIX_EPOCH + Duration::new(1_700_000_000, nanoseconds);
        reads(vectors.cases.iter().find(|case| case.name == name).unwrap(), &["a"], &[&time]);
    }
}

fn py_tasks(vectors: &mut Vectors) {
    let x = || "x".to_owned();
    // Go writes three elements always; Python and we cut off what is empty.
    reads(vectors.case("nothing"), &[], &[]);
    reads(vectors.case("args"), &["a", "b"], &[&1_i64, &2_i64]);
    reads(vectors.case("mixed args"), &["id", "name"], &[&7_i64, &x()]);
    reads(vectors.case("kwargs map"), &["name"], &[&x()]);
    reads(vectors.case("empty args"), &[], &[]);
    let case = vectors.case("args and kwargs map");
    reads(case, &["id", "name"], &[&7_i64, &x()]);
    assert_eq!(py_task(&case.path, b"\x91\x07", b"\x81\xa4name\xa1x", 0), case.bytes);

    let case = vectors.case("kwargs struct");
    let message = Message::decode(&case.bytes).unwrap();
    assert_eq!((message.task(), message.form()), (&*case.path, Form::Python));
    let error = message.arguments().reader(params(["id".to_owned(), x()])).unwrap_err().to_string();
    assert!(error.contains("Go's `NewPyTask`"), "{error}");
}
