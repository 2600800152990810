use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::*;

fn error<'de, T: Deserialize<'de> + std::fmt::Debug>(bytes: &'de [u8]) -> String {
    from_slice::<T>(bytes).unwrap_err().to_string()
}

#[derive(Debug, PartialEq, Deserialize)]
struct Point {
    x: i64,
    y: f64,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    id: u64,
    tags: Vec<String>,
    at: Point,
    extra: BTreeMap<String, i64>,
    note: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Meters(f64);

#[derive(Debug, PartialEq, Deserialize)]
struct Marker;

#[derive(Debug, PartialEq, Deserialize)]
enum Shape {
    Empty,
    Circle(f64),
    Line(i64, i64),
    Named { name: String },
}

#[test]
fn integers_of_any_width_that_fits() {
    for bytes in
        [&b"\x07"[..], b"\xcc\x07", b"\xcd\0\x07", b"\xce\0\0\0\x07", b"\xcf\0\0\0\0\0\0\0\x07", b"\xd0\x07"]
    {
        assert_eq!(from_slice(bytes), Ok(7_u8));
        assert_eq!(from_slice(bytes), Ok(7_i64));
        assert_eq!(from_slice(bytes), Ok(7_u128));
    }
    assert_eq!(from_slice(b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(-1_i8));
    assert_eq!(from_slice(b"\xff"), Ok(-1_i128));
    assert_eq!(
        error::<u8>(b"\xcd\x01\0"),
        "expected an integer of type u8, got the integer 256, which is out of range"
    );
    assert_eq!(
        error::<u64>(b"\xff"),
        "expected an integer of type u64, got the integer -1, which is out of range"
    );
    assert!(error::<i64>(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff").ends_with("which is out of range"));
    assert_eq!(
        error::<i64>(b"\xcb\x3f\xf0\0\0\0\0\0\0"),
        "expected an integer of type i64, got the float 1.0"
    );
    assert_eq!(error::<i64>(b"\xa3abc"), "expected an integer of type i64, got a string \"abc\"");
    assert_eq!(error::<i64>(b"\xc3"), "expected an integer of type i64, got the boolean true");
}

#[test]
fn floats_from_whole_numbers_and_between_widths() {
    assert_eq!(from_slice(b"\x02"), Ok(2.0_f64));
    assert_eq!(from_slice(b"\xfe"), Ok(-2.0_f32));
    assert_eq!(from_slice(b"\xca\x3f\0\0\0"), Ok(0.5_f64));
    assert_eq!(from_slice(b"\xcb\x3f\xe0\0\0\0\0\0\0"), Ok(0.5_f32));
    assert!(error::<f32>(b"\xcb\x7f\xe0\0\0\0\0\0\0").ends_with("which is out of range"));
    assert!(from_slice::<f32>(b"\xcb\x7f\xf0\0\0\0\0\0\0").unwrap().is_infinite());
    assert_eq!(error::<f64>(b"\xa11"), "expected a float, got a string \"1\"");
    assert_eq!(error::<bool>(b"\x01"), "expected a boolean, got the integer 1");
}

#[test]
fn texts_and_bytes_stand_for_each_other() {
    assert_eq!(from_slice(b"\xc4\x02hi"), Ok("hi"));
    assert_eq!(from_slice(b"\xa2hi"), Ok(b"hi".to_vec()));
    assert_eq!(from_slice(b"\xa2hi"), Ok(*b"hi"));
    assert_eq!(from_slice(b"\xc4\x02\0\xff"), Ok(vec![0_u8, 255]));
    assert_eq!(from_slice(b"\x92\x01\xcc\xff"), Ok(vec![1_u8, 255]));
    assert_eq!(from_slice(b"\x92\x01\x02"), Ok(serde_bytes::ByteBuf::from(vec![1, 2])));
    assert_eq!(from_slice(b"\xa2hi"), Ok(&b"hi"[..]));
    assert_eq!(from_slice(b"\xa1h"), Ok('h'));
    assert_eq!(error::<Vec<i64>>(b"\xa3abc"), "expected an array, got a string \"abc\"");
    assert_eq!(error::<Vec<String>>(b"\xc4\x01a"), "expected an array, got 1 byte 0x61");
    assert_eq!(error::<String>(b"\xc4\x01\xff"), "expected a text in UTF-8, got 1 byte 0xff");
    assert_eq!(
        error::<&str>(b"\xa1\xff"),
        "expected a text in UTF-8, got a string that is not UTF-8 (1 byte)"
    );
    assert_eq!(error::<[u8; 4]>(b"\xc4\x02hi"), "expected an array of 4, got 2 bytes 0x6869");
}

#[test]
fn nil_is_the_empty_list_and_map_at_any_depth() {
    assert_eq!(from_slice(b"\xc0"), Ok(Vec::<i64>::new()));
    assert_eq!(from_slice(b"\xc0"), Ok(Vec::<u8>::new()));
    assert_eq!(from_slice(b"\xc0"), Ok(serde_bytes::ByteBuf::new()));
    assert_eq!(from_slice(b"\xc0"), Ok(BTreeMap::<String, i64>::new()));
    assert_eq!(from_slice(b"\x92\xc0\x91\xc0"), Ok(vec![vec![], vec![Vec::<i64>::new()]]));
    let empty = Order { id: 0, tags: vec![], at: Point { x: 0, y: 0.0 }, extra: BTreeMap::new(), note: None };
    assert_eq!(from_slice(b"\x95\0\xc0\x92\0\0\xc0\xc0"), Ok(empty));
    assert_eq!(error::<String>(b"\xc0"), "expected a string, got nil");
    assert_eq!(error::<Point>(b"\xc0"), "expected `Point` (a map or an array of its fields), got nil");
}

#[test]
fn structs_by_name_and_by_order() {
    assert_eq!(from_slice(b"\x92\x01\x02"), Ok(Point { x: 1, y: 2.0 }));
    assert_eq!(
        from_slice(b"\x83\xa1y\x02\xa1z\x93\xc0\xd4\x05\0\x81\0\0\xa1x\x01"),
        Ok(Point { x: 1, y: 2.0 })
    );
    assert_eq!(from_slice(b"\x82\xc4\x01x\x01\xa1y\x02"), Ok(Point { x: 1, y: 2.0 }));
    assert_eq!(from_slice(b"\x02"), Ok(Meters(2.0)));
    assert_eq!(from_slice(b"\x93\x01\xa1a\xc3"), Ok((1_i64, "a", true)));
    for bytes in [&b"\xc0"[..], b"\x90", b"\x80"] {
        assert_eq!(from_slice(bytes), Ok(Marker));
        assert_eq!(from_slice(bytes), Ok(()));
    }
    assert_eq!(error::<Point>(b"\x93\x01\x02\x03"), "expected an array of 2, got an array of 3");
    assert_eq!(error::<Point>(b"\x91\x01"), "expected struct Point with 2 elements, got only 1");
    assert_eq!(error::<Point>(b"\x81\xa1x\x01"), "missing field `y`");
    assert_eq!(error::<(i64, i64)>(b"\x93\x01\x02\x03"), "expected an array of 2, got an array of 3");
}

#[test]
fn enums_by_name_and_as_rmp_serde_writes_them() {
    for shape in [Shape::Empty, Shape::Circle(1.5), Shape::Line(1, 2), Shape::Named { name: "a".into() }] {
        let bytes = match &shape {
            Shape::Empty => b"\xa5Empty".to_vec(),
            Shape::Circle(_) => b"\x81\xa6Circle\xcb\x3f\xf8\0\0\0\0\0\0".to_vec(),
            Shape::Line(..) => b"\x81\xa4Line\x92\x01\x02".to_vec(),
            Shape::Named { .. } => b"\x81\xa5Named\x91\xa1a".to_vec(),
        };
        assert_eq!(from_slice(&bytes), Ok(shape));
    }
    assert_eq!(from_slice(b"\x81\xa5Named\x81\xa4name\xa1a"), Ok(Shape::Named { name: "a".into() }));
    assert_eq!(from_slice(b"\x81\xa5Empty\xc0"), Ok(Shape::Empty));
    assert!(error::<Shape>(b"\xa6Square").starts_with("unknown variant `Square`"));
    assert_eq!(error::<Shape>(b"\xa6Circle"), "expected a variant with its content, got its name alone");
    assert!(error::<Shape>(b"\x05").starts_with("expected a variant of `Shape`"));
    assert_eq!(from_slice(b"\x81\xa2Ok\x01"), Ok(Ok::<i64, String>(1)));
}

#[test]
fn timestamps() {
    let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    let bytes = b"\xd7\xff\x1d\x6f\x34\x54\x65\x53\xf1\0";
    assert_eq!(from_slice(bytes), Ok(time));
    assert_eq!(from_slice(bytes), Ok(Timestamp::from(time)));
    let (whole, bytes) = (UNIX_EPOCH + Duration::from_secs(1_700_000_000), b"\xd6\xff\x65\x53\xf1\0");
    assert_eq!(from_slice(bytes), Ok(whole));
    assert_eq!(
        from_slice(b"\xc7\x0c\xff\0\0\0\x05\xff\xff\xff\xff\xff\xff\xff\xff"),
        Ok(Timestamp::new(-1, 5).unwrap())
    );
    assert_eq!(from_slice(b"\xce\x65\x53\xf1\0"), Ok(whole));
    assert_eq!(from_slice(b"\xcb\x41\xd9\x54\xfc\x40\x20\0\0"), Ok(whole + Duration::from_millis(500)));
    assert_eq!(from_slice(b"\xff"), Ok(Timestamp::new(-1, 0).unwrap()));
    assert_eq!(from_slice(b"\x92\x05\x06"), Ok(UNIX_EPOCH + Duration::new(5, 6)));
    assert_eq!(
        from_slice(b"\x92\xc0\xd6\xff\0\0\0\x01"),
        Ok(vec![None, Some(UNIX_EPOCH + Duration::from_secs(1))])
    );
    assert!(error::<SystemTime>(b"\xff").contains("Timestamp"));
    assert_eq!(
        error::<Timestamp>(b"\xa1a"),
        "expected a timestamp (the extension, RFC 3339 or a number of seconds), got a string \"a\""
    );
    assert_eq!(
        error::<Timestamp>(b"\xd5\xff\0\0"),
        "expected a timestamp (the extension, RFC 3339 or a number of seconds), got a timestamp, which is out of range"
    );
    assert_eq!(
        error::<Timestamp>(b"\xd4\x05\0"),
        "expected a timestamp (the extension, RFC 3339 or a number of seconds), got an extension of type 5 (1 byte)"
    );
    assert_eq!(error::<i64>(b"\xd6\xff\0\0\0\x01"), "expected an integer of type i64, got a timestamp");
}

#[test]
fn untyped_values() {
    use serde_json::{Value, json};
    let bytes =
        b"\x86\xa1a\x93\x01\xff\xc0\xa1b\xca\x3f\0\0\0\xa1c\xc3\xa1d\x80\xa1e\xa1x\xa1f\xd6\xff\0\0\0\x01";
    let time = json!({"secs_since_epoch": 1, "nanos_since_epoch": 0});
    let value = json!({"a": [1, -1, null], "b": 0.5, "c": true, "d": {}, "e": "x", "f": time});
    assert_eq!(from_slice::<Value>(bytes), Ok(value));
    assert_eq!(
        error::<Value>(b"\x91\xd4\x05\0"),
        "at [0]: expected a value, got an extension of type 5 (1 byte)"
    );

    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        id: i64,
        #[serde(flatten)]
        times: BTreeMap<String, Timestamp>,
    }
    let flat = Flat { id: 1, times: BTreeMap::from([("at".into(), Timestamp::new(1, 0).unwrap())]) };
    assert_eq!(from_slice(b"\x82\xa2id\x01\xa2at\xd6\xff\0\0\0\x01"), Ok(flat));
}

#[test]
fn errors_say_where() {
    assert_eq!(
        error::<Vec<Order>>(b"\x91\x95\0\x92\xa1a\x05\x92\0\0\xc0\xc0"),
        "at [0].tags[1]: expected a string, got the integer 5"
    );
    assert_eq!(
        error::<BTreeMap<String, Point>>(b"\x81\xa1p\x81\xa1x\xc3"),
        "at p.x: expected an integer of type i64, got the boolean true"
    );
    assert_eq!(from_slice::<Vec<Order>>(b"\x91\x91\xc3").unwrap_err().path(), "[0].id");
    let long = [&b"\xd9\x64"[..], &[b'a'; 100]].concat();
    assert_eq!(
        error::<i64>(&long),
        format!("expected an integer of type i64, got a string {:?}… (100 bytes)", "a".repeat(40))
    );
}

#[test]
fn what_is_refused_before_anything_is_allocated() {
    let kind = |bytes: &[u8]| from_slice::<Vec<String>>(bytes).unwrap_err().kind().clone();
    assert_eq!(kind(b""), DecodeErrorKind::UnexpectedEnd);
    assert_eq!(kind(b"\xdd\0\0"), DecodeErrorKind::UnexpectedEnd);
    assert_eq!(kind(b"\xc1"), DecodeErrorKind::Reserved);
    assert_eq!(kind(b"\x90\x90"), DecodeErrorKind::TrailingBytes { count: 1 });
    for bytes in [
        &b"\xdd\xff\xff\xff\xff"[..],
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ] {
        assert_eq!(kind(bytes), DecodeErrorKind::Length { claimed: u32::MAX.into(), left: 0 });
        assert!(skip(bytes).is_err());
    }
    assert!(matches!(kind(b"\xc9\xff\xff\xff\xff\xff"), DecodeErrorKind::Length { .. }));
    assert_eq!(kind(b"\x92\xa1a"), DecodeErrorKind::UnexpectedEnd);
    assert!(from_slice::<BTreeMap<i64, i64>>(b"\x82\x01\x02\x03").is_err());
}

#[test]
fn depth_is_counted_the_same_by_reading_and_by_skipping() {
    use serde_json::Value;
    let nested = |depth: usize| [vec![0x91; depth], vec![0x01]].concat();
    assert!(from_slice::<Value>(&nested(MAX_DEPTH)).is_ok());
    assert!(skip(&nested(MAX_DEPTH)).is_ok());
    assert!(from_slice::<serde::de::IgnoredAny>(&nested(MAX_DEPTH)).is_ok());
    for depth in [MAX_DEPTH + 1, 10_000] {
        let kind = from_slice::<Value>(&nested(depth)).map(|_| ()).unwrap_err().kind().clone();
        assert_eq!(kind, DecodeErrorKind::TooDeep);
        assert_eq!(skip(&nested(depth)).unwrap_err().kind(), &DecodeErrorKind::TooDeep);
        assert!(from_slice::<serde::de::IgnoredAny>(&nested(depth)).is_err());
    }
    // The levels of lists that were left do not count.
    let wide = [vec![0xdc, 0x01, 0x00], [0x91, 0x01].repeat(256)].concat();
    assert!(from_slice::<Value>(&wide).is_ok());
    let pairs = [[0x81, 0x01].repeat(MAX_DEPTH + 1), vec![0x01]].concat();
    assert_eq!(skip(&pairs).unwrap_err().kind(), &DecodeErrorKind::TooDeep);
}

#[test]
fn skip_splits_off_one_value() {
    assert_eq!(skip(b"\x92\x01\x81\xa1a\xc0\x05"), Ok((&b"\x92\x01\x81\xa1a\xc0"[..], &b"\x05"[..])));
    assert_eq!(skip(b"\xd6\xff\0\0\0\x01"), Ok((&b"\xd6\xff\0\0\0\x01"[..], &b""[..])));
    assert!(skip(b"\x92\x01").is_err());
}

#[test]
fn json_value_refuses_what_json_cannot_say() {
    let infinite = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for number in infinite {
        let bytes = rmp_serde::to_vec(&number).unwrap();
        from_slice::<serde_json::Value>(&bytes).expect_err("a number that JSON does not have");
        let listed = rmp_serde::to_vec(&[1.5, number]).unwrap();
        from_slice::<Vec<serde_json::Value>>(&listed).expect_err("one in a list");
        assert!(from_slice::<f64>(&bytes).is_ok_and(|read| read.is_nan() == number.is_nan()));
    }
}

/// serde reads these into a form of its own before it is known whether a `Value` or an `f64` takes them.
#[test]
fn below_flatten_and_untagged_it_becomes_null() {
    #[derive(Deserialize)]
    struct Flat {
        #[serde(flatten)]
        rest: std::collections::BTreeMap<String, serde_json::Value>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Any(serde_json::Value),
    }
    let bytes = rmp_serde::to_vec_named(&std::collections::BTreeMap::from([("x", f64::NAN)])).unwrap();
    assert!(from_slice::<Flat>(&bytes).unwrap().rest["x"].is_null());
    let Either::Any(value) = from_slice(&rmp_serde::to_vec(&f64::NAN).unwrap()).unwrap();
    assert!(value.is_null());
}
