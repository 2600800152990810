use serde::de::DeserializeOwned;

use super::*;

const fn param(name: &'static str, ty: &'static str, presence: Presence) -> Param {
    Param { name, ty, presence }
}

const NONE: &[Param] = &[];
const ONE: &[Param] = &[param("a", "i64", Presence::Required)];
const MAYBE: &[Param] = &[param("a", "Option<i64>", Presence::Optional)];
const MANY: &[Param] = &[param("a", "i64", Presence::Variadic)];
const TWO: &[Param] = &[param("a", "i64", Presence::Required), param("b", "i64", Presence::Required)];
const TWO_OR_ONE: &[Param] = &[param("a", "i64", Presence::Required), param("b", "i64", Presence::Optional)];
const REST: &[Param] = &[param("a", "String", Presence::Required), param("b", "i64", Presence::Variadic)];

type Read<T> = Result<T, String>;

fn text(error: ArgumentError) -> String {
    error.to_string()
}

fn payload(payload: &[u8]) -> Arguments<'_> {
    Arguments::from_payload(payload)
}

fn python<'a>(positional: &'a [u8], keywords: &'a [u8]) -> Arguments<'a> {
    Arguments::by_place_and_keyword(positional, keywords)
}

fn none(arguments: Arguments<'_>) -> Read<()> {
    arguments.reader(NONE).and_then(ArgumentReader::finish).map_err(text)
}

fn one<T: DeserializeOwned>(arguments: Arguments<'_>) -> Read<T> {
    let read = || {
        let mut reader = arguments.reader(ONE)?;
        let value = reader.required()?;
        reader.finish().map(|()| value)
    };
    read().map_err(text)
}

fn maybe<T: DeserializeOwned>(arguments: Arguments<'_>) -> Read<Option<T>> {
    let read = || {
        let mut reader = arguments.reader(MAYBE)?;
        let value = reader.optional()?;
        reader.finish().map(|()| value)
    };
    read().map_err(text)
}

fn many<T: DeserializeOwned>(arguments: Arguments<'_>) -> Read<Vec<T>> {
    let read = || {
        let mut reader = arguments.reader(MANY)?;
        let value = reader.variadic()?;
        reader.finish().map(|()| value)
    };
    read().map_err(text)
}

fn two(arguments: Arguments<'_>) -> Read<(i64, i64)> {
    let read = || {
        let mut reader = arguments.reader(TWO)?;
        let values = (reader.required()?, reader.required()?);
        reader.finish().map(|()| values)
    };
    read().map_err(text)
}

fn two_or_one(arguments: Arguments<'_>) -> Read<(i64, Option<i64>)> {
    let read = || {
        let mut reader = arguments.reader(TWO_OR_ONE)?;
        let values = (reader.required()?, reader.optional()?);
        reader.finish().map(|()| values)
    };
    read().map_err(text)
}

fn rest(arguments: Arguments<'_>) -> Read<(String, Vec<i64>)> {
    let read = || {
        let mut reader = arguments.reader(REST)?;
        let values = (reader.required()?, reader.variadic()?);
        reader.finish().map(|()| values)
    };
    read().map_err(text)
}

#[test]
fn without_parameters() {
    for nothing in [&b""[..], b"\xc0", b"\x90"] {
        assert_eq!(none(payload(nothing)), Ok(()));
    }
    assert_eq!(none(python(b"\xc0", b"\x80")), Ok(()));
    assert_eq!(none(python(b"\x90", b"\xc0")), Ok(()));
    assert_eq!(none(payload(b"\x05")), Err("too many arguments: 1 given, none expected".into()));
    assert_eq!(none(payload(b"\x91\x05")), Err("too many arguments: 1 given, none expected".into()));
    assert_eq!(
        none(python(b"\x90", b"\x81\xa1a\x05")),
        Err("unknown keyword `a`: no arguments are expected".into())
    );
    assert!(none(payload(b"\x90\x05")).is_err());
    assert!(none(payload(b"\xc1")).is_err());
}

#[test]
fn one_parameter_is_the_payload_or_alone_in_an_array() {
    assert_eq!(one(payload(b"\x05")), Ok(5));
    assert_eq!(one(payload(b"\x91\x05")), Ok(5));
    assert_eq!(one(payload(b"\x92\x05\x06")), Ok(vec![5, 6]));
    assert_eq!(one(payload(b"\x91\x92\x05\x06")), Ok(vec![5, 6]));
    assert_eq!(one(payload(b"\x91\x91\x05")), Ok(vec![vec![5]]));
    for nothing in [&b""[..], b"\xc0", b"\x90"] {
        assert_eq!(one(payload(nothing)), Ok(Vec::<i64>::new()));
        let missing = "too few arguments: 0 given, `a` (1 of 1, i64) is missing";
        assert_eq!(one::<i64>(payload(nothing)), Err(missing.into()));
        assert_eq!(maybe::<i64>(payload(nothing)), Ok(None));
    }
    assert_eq!(maybe::<Vec<i64>>(payload(b"\x90")), Ok(Some(vec![])));
    assert_eq!(maybe::<Vec<i64>>(payload(b"\xc0")), Ok(None));
    assert_eq!(maybe(payload(b"\x91\x05")), Ok(Some(5)));
    assert_eq!(maybe::<i64>(payload(b"\x91\xc0")), Ok(None));
    assert_eq!(
        one::<i64>(payload(b"\xa1x")),
        Err("argument `a` (1 of 1): expected i64, got a string \"x\"".into())
    );
    assert_eq!(
        one::<i64>(payload(b"\x91\xa1x")),
        Err("argument `a` (1 of 1): expected i64, got a string \"x\"".into())
    );
    assert_eq!(
        one::<i64>(payload(b"\x92\x01\x02")),
        Err("argument `a` (1 of 1): expected i64, got an array of 2".into())
    );
    assert_eq!(
        one::<i8>(payload(b"\xcc\x80")),
        Err("argument `a` (1 of 1): expected i64, got the integer 128, which is out of range".into())
    );
    assert_eq!(
        one::<i64>(payload(b"\x05\x06")),
        Err("argument `a` (1 of 1): expected i64, but 1 byte too many after the value".into())
    );
    assert!(one::<i64>(payload(b"\x91\x05\x06")).is_err());
}

#[test]
fn several_parameters_are_an_array() {
    assert_eq!(two(payload(b"\x92\x01\x02")), Ok((1, 2)));
    assert_eq!(
        two(payload(b"\x91\x01")),
        Err("too few arguments: 1 given, `b` (2 of 2, i64) is missing".into())
    );
    assert_eq!(two(payload(b"\xc0")), Err("too few arguments: 0 given, `a` (1 of 2, i64) is missing".into()));
    assert_eq!(
        two(payload(b"\x93\x01\x02\x03")),
        Err("too many arguments: 3 given, at most 2 expected".into())
    );
    assert_eq!(
        two(payload(b"\x92\x01\xa1x")),
        Err("argument `b` (2 of 2): expected i64, got a string \"x\"".into())
    );
    assert_eq!(two(payload(b"\x05")), Err("expected an array of 2 arguments, got the integer 5".into()));
    assert_eq!(
        two(payload(b"\x92\x01\x02\x03")),
        Err("arguments that cannot be read: 1 byte too many after the value".into())
    );
    assert_eq!(
        two(payload(b"\x92\x01\xc1")),
        Err("argument `b` (2 of 2): expected i64, but the byte 0xc1, which MessagePack does not use".into())
    );
    for short in [&b"\x91\x01"[..], b"\x92\x01\xc0", b"\x01"] {
        assert_eq!(two_or_one(payload(short)), Ok((1, None)));
    }
    assert_eq!(two_or_one(payload(b"\x92\x01\x02")), Ok((1, Some(2))));
    assert!(two_or_one(payload(b"\x01\x02")).is_err());
}

#[test]
fn variadic_parameters_take_a_list_or_what_is_left() {
    let all = ("x".to_owned(), vec![1, 2]);
    assert_eq!(rest(payload(b"\x92\xa1x\x92\x01\x02")), Ok(all.clone()));
    assert_eq!(rest(payload(b"\x93\xa1x\x01\x02")), Ok(all.clone()));
    assert_eq!(rest(python(b"\x93\xa1x\x01\x02", b"\x80")), Ok(all.clone()));
    assert_eq!(rest(python(b"\x92\xa1x\x92\x01\x02", b"\x80")), Ok(all.clone()));
    assert_eq!(rest(python(b"\x91\xa1x", b"\x81\xa1b\x92\x01\x02")), Ok(all));
    for alone in [&b"\x91\xa1x"[..], b"\x92\xa1x\x90", b"\x92\xa1x\xc0", b"\xa1x"] {
        assert_eq!(rest(payload(alone)), Ok(("x".to_owned(), vec![])));
    }
    assert_eq!(rest(payload(b"\x92\xa1x\x01")), Ok(("x".to_owned(), vec![1])));
    assert_eq!(
        rest(payload(b"\x93\xa1x\x01\xa1y")),
        Err("argument `b` (2 of 2): expected i64, but at [1]: expected an integer of type i64, got a string \"y\"".into())
    );
    assert_eq!(
        rest(payload(b"\x92\xa1x\x91\xc3")),
        Err("argument `b` (2 of 2): expected i64, but at [0]: expected an integer of type i64, got the boolean true".into())
    );
    assert_eq!(
        rest(payload(b"\x92\xa1x\xc3")),
        Err("argument `b` (2 of 2): expected i64, got the boolean true".into())
    );
    assert_eq!(
        rest(python(b"\x92\xa1x\x01", b"\x81\xa1b\x90")),
        Err("argument `b` (2 of 2) is given twice".into())
    );
}

#[test]
fn a_variadic_parameter_alone() {
    for list in [&b"\x92\x01\x02"[..], b"\x91\x92\x01\x02"] {
        assert_eq!(many(payload(list)), Ok(vec![1, 2]));
    }
    assert_eq!(many(payload(b"\x05")), Ok(vec![5]));
    assert_eq!(many(payload(b"\x91\x05")), Ok(vec![5]));
    for nothing in [&b""[..], b"\xc0", b"\x90", b"\x91\x90"] {
        assert_eq!(many(payload(nothing)), Ok(Vec::<i64>::new()));
    }
    assert_eq!(many(payload(b"\x92\x01\xcb\x40\0\0\0\0\0\0\0")), Ok(vec![(1_i64, 2.0)]));
    assert_eq!(many(python(b"\x92\x01\x02", b"\x80")), Ok(vec![1, 2]));
    assert_eq!(many(python(b"\x91\x91\x01", b"\x80")), Ok(vec![vec![1]]));
    assert_eq!(many(python(b"\x90", b"\x80")), Ok(Vec::<i64>::new()));
    assert!(many::<i64>(payload(b"\xa1x")).unwrap_err().ends_with("got a string \"x\""));
}

/// What may be a list itself.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
enum Any {
    Nil(()),
    Whole(i64),
    Text(String),
    List(Vec<Any>),
}

#[test]
fn variadic_of_values_is_a_list_from_go_and_spread_from_python() {
    use Any::{List, Nil, Text, Whole};
    let anything = |arguments: Arguments<'_>| -> Read<Vec<Any>> {
        let mut reader = arguments.reader(REST).map_err(text)?;
        let _: String = reader.required().map_err(text)?;
        let values = reader.variadic().map_err(text)?;
        reader.finish().map(|()| values).map_err(text)
    };
    let mixed = || vec![Whole(1), List(vec![Whole(2)])];
    for (go, values) in [
        (&b"\x92\xa1x\x92\x01\x91\x02"[..], mixed()),
        (b"\x93\xa1x\x01\x91\x02", mixed()),
        (b"\x92\xa1x\x91\x92\x01\x91\x02", vec![List(mixed())]),
        (b"\x92\xa1x\xa2ab", vec![Text("ab".into())]),
        (b"\x92\xa1x\xa0", vec![Text(String::new())]),
        (b"\x92\xa1x\x05", vec![Whole(5)]),
        (b"\x92\xa1x\x90", vec![]),
        (b"\x92\xa1x\xc0", vec![]),
        (b"\x92\xa1x\x91\xc0", vec![Nil(())]),
    ] {
        assert_eq!(anything(payload(go)), Ok(values), "{go:02x?}");
    }
    for (by_place, values) in [
        (&b"\x92\xa1x\x92\x01\x91\x02"[..], vec![List(mixed())]),
        (b"\x93\xa1x\x01\x91\x02", mixed()),
        (b"\x92\xa1x\xa2ab", vec![Text("ab".into())]),
        (b"\x92\xa1x\x90", vec![List(vec![])]),
        (b"\x92\xa1x\xc0", vec![Nil(())]),
    ] {
        assert_eq!(anything(python(by_place, b"\x80")), Ok(values), "{by_place:02x?}");
    }
    assert_eq!(anything(python(b"\x91\xa1x", b"\x81\xa1b\x92\x01\x91\x02")), Ok(mixed()));

    // Alone, the payload is the list; a list in a list is one value.
    assert_eq!(many::<Any>(payload(b"\x92\x01\x91\x02")), Ok(mixed()));
    assert_eq!(many::<Any>(payload(b"\x91\x92\x01\x91\x02")), Ok(vec![List(mixed())]));
    assert_eq!(many::<Any>(payload(b"\xa2ab")), Ok(vec![Text("ab".into())]));
    assert_eq!(many::<Any>(payload(b"\xc0")), Ok(vec![]));
    assert_eq!(many::<Any>(python(b"\x91\x92\x01\x91\x02", b"\x80")), Ok(vec![List(mixed())]));
    // Bytes are a list of bytes, and of nothing else, also when there are none.
    assert_eq!(many::<String>(payload(b"\xa0")), Ok(vec![String::new()]));
    assert_eq!(many::<u8>(payload(b"\xc4\0")), Ok(vec![]));
    assert_eq!(many::<u8>(payload(b"\xc4\x02\x01\x02")), Ok(vec![1, 2]));
    assert_eq!(many::<serde_bytes::ByteBuf>(payload(b"\xc4\x01\x01")), Ok(vec![[1].to_vec().into()]));
}

#[test]
fn places_and_keywords() {
    for (positional, keywords) in [
        (&b"\x92\x01\x02"[..], &b"\x80"[..]),
        (b"\x91\x01", b"\x81\xa1b\x02"),
        (b"\x90", b"\x82\xa1b\x02\xa1a\x01"),
        (b"\xc0", b"\x82\xc4\x01b\x02\xa1a\x01"),
        (b"", b"\x82\xa1a\x01\xa1b\x02"),
    ] {
        assert_eq!(two(python(positional, keywords)), Ok((1, 2)));
    }
    let error = |positional, keywords| two(python(positional, keywords)).unwrap_err();
    assert_eq!(error(b"\x91\x01", b"\x81\xa1c\x02"), "unknown keyword `c`: expected `a`, `b`");
    assert_eq!(error(b"\x91\x01", b"\x81\x05\x02"), "unknown keyword `the integer 5`: expected `a`, `b`");
    assert_eq!(error(b"\x91\x01", b"\x82\xa1b\x02\xa1a\x01"), "argument `a` (1 of 2) is given twice");
    assert_eq!(error(b"\x91\x01", b"\x82\xa1b\x02\xa1b\x01"), "argument `b` (2 of 2) is given twice");
    assert_eq!(error(b"\x90", b"\x81\xa1b\x02"), "too few arguments: 1 given, `a` (1 of 2, i64) is missing");
    assert_eq!(error(b"\x93\x01\x02\x03", b"\x80"), "too many arguments: 3 given, at most 2 expected");
    assert_eq!(
        error(b"\x90", b"\x82\xa1a\x01\xa1b\xa1x"),
        "argument `b` (2 of 2): expected i64, got a string \"x\""
    );
    assert!(error(b"\xc0", b"\x92\x01\xa2hi").contains("NewPyTask"));
    assert_eq!(error(b"\x05", b"\x80"), "expected an array of 2 arguments, got the integer 5");
    assert_eq!(two_or_one(python(b"\x91\x01", b"\x81\xa1b\xc0")), Ok((1, None)));
    // By place only: an array of one is one argument, not the argument.
    assert_eq!(one::<i64>(python(b"\x91\x05", b"\x80")), Ok(5));
    assert_eq!(
        one::<Vec<i64>>(python(b"\x91\x05", b"\x80")).unwrap_err(),
        "argument `a` (1 of 1): expected i64, got the integer 5"
    );
    assert!(one::<i64>(python(b"\x05", b"\x80")).is_err());
}

#[test]
fn more_calls_than_parameters_do_not_panic() {
    let mut reader = payload(b"\x92\x01\x02").reader(TWO).unwrap();
    assert_eq!((reader.required(), reader.required()), (Ok(1), Ok(2)));
    assert!(reader.required::<i64>().is_err());
    let mut reader = payload(b"\x01").reader(ONE).unwrap();
    assert_eq!(reader.required(), Ok(1));
    assert!(reader.required::<i64>().is_err());
    assert_eq!(reader.variadic::<i64>(), Ok(vec![]));
    let unread = payload(b"\x92\x01\x02").reader(TWO).unwrap();
    assert!(unread.finish().is_err());
}

#[test]
fn errors_are_as_small_as_a_pointer() {
    assert_eq!(size_of::<ArgumentError>(), size_of::<usize>());
    assert_eq!(size_of::<crate::protocol::decode::DecodeError>(), size_of::<usize>());
}
