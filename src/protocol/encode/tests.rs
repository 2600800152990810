use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;

use super::*;
use crate::protocol::decode::from_slice;
use crate::protocol::timestamp::Timestamp;

fn one<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut encoder = Encoder::new(1);
    encoder.argument("a", value);
    encoder.finish().unwrap()
}

#[test]
fn the_payload_is_nil_or_the_argument_or_an_array() {
    assert_eq!(Encoder::new(0).finish().unwrap(), b"\xc0");
    assert_eq!(one(&5), b"\x05");
    let mut encoder = Encoder::new(2);
    encoder.argument("a", &-1);
    encoder.argument("b", "x");
    assert_eq!(encoder.finish().unwrap(), b"\x92\xff\xa1x");
    let mut many = Encoder::new(20);
    (0..20).for_each(|argument| many.argument("a", &argument));
    assert_eq!(many.finish().unwrap()[..4], *b"\xdc\0\x14\0");
}

#[test]
fn values_are_written_as_go_writes_them() {
    #[derive(Serialize)]
    struct Point {
        x: i64,
        y: f64,
    }
    assert_eq!(one(&Point { x: 1, y: 2.5 }), b"\x92\x01\xcb\x40\x04\0\0\0\0\0\0");
    assert_eq!(one(&vec![9_u8, 0]), b"\xc4\x02\x09\0");
    assert_eq!(one(&[9_u8, 0][..]), b"\xc4\x02\x09\0");
    assert_eq!(one(&Vec::<i64>::new()), b"\x90");
    assert_eq!(one(&vec![1_i64, 300]), b"\x92\x01\xcd\x01\x2c");
    assert_eq!(one(&0.5_f32), b"\xca\x3f\0\0\0");
    assert_eq!(one(&None::<i64>), b"\xc0");
    assert_eq!(one(&BTreeMap::from([("a", 1)])), b"\x81\xa1a\x01");
    let time = Timestamp::from(UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789));
    assert_eq!(one(&time), b"\xd7\xff\x1d\x6f\x34\x54\x65\x53\xf1\0");
}

#[test]
fn a_list_that_begins_with_a_byte_may_go_on_otherwise() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Byte(u8),
        Text(String),
    }
    let list = vec![Either::Byte(1), Either::Text("a".into())];
    assert_eq!(one(&list), b"\x92\x01\xa1a");
    assert_eq!(from_slice(&one(&list)), Ok(list));
    let list = vec![Some(1_u8), None];
    assert_eq!(from_slice(&one(&list)), Ok(list));
    let list = vec![Some(1_u8), Some(255)];
    assert_eq!(from_slice(&one(&list)), Ok(list));
}

#[test]
fn an_argument_that_cannot_be_written_is_named() {
    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    let mut encoder = Encoder::new(2);
    encoder.argument("a", &1);
    encoder.argument("b", &Refuses);
    let error = encoder.finish().unwrap_err();
    assert_eq!(error.to_string(), "argument `b` cannot be encoded as MessagePack: not today");

    struct Lies;
    impl Serialize for Lies {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serde::ser::SerializeSeq::end(serializer.serialize_seq(Some(3))?)
        }
    }
    let mut encoder = Encoder::new(1);
    encoder.argument("a", &Lies);
    assert!(encoder.finish().is_err());

    let mut encoder = Encoder::new(2);
    encoder.argument("a", &1);
    assert_eq!(encoder.finish(), Err(EncodeError::Count { count: 2, given: 1 }));
}

#[test]
fn what_nests_too_deep_to_be_read_is_not_written() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nest(Vec<Nest>);
    let nest = |depth| (1..depth).fold(Nest(vec![]), |nest, _| Nest(vec![nest]));
    assert_eq!(from_slice(&one(&nest(MAX_DEPTH))), Ok(nest(MAX_DEPTH)));
    for (count, depth) in [(1, MAX_DEPTH + 1), (2, MAX_DEPTH)] {
        let mut encoder = Encoder::new(count);
        (0..count).for_each(|_| encoder.argument("a", &nest(depth)));
        assert!(encoder.finish().unwrap_err().to_string().ends_with("nested deeper than 128"));
    }
}

#[test]
fn integers_lengths_and_heads_are_those_of_rmp() {
    for bits in 0..64 {
        for value in [(1_u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
            let mut expected = Vec::new();
            rmp::encode::write_uint(&mut expected, value).unwrap();
            assert_eq!(integer(value).as_slice(), expected);
            for value in
                [value as i64, (value as i64).wrapping_neg(), (value as i64).wrapping_neg().wrapping_sub(1)]
            {
                let mut expected = Vec::new();
                rmp::encode::write_sint(&mut expected, value).unwrap();
                assert_eq!(signed_integer(value).as_slice(), expected);
            }
        }
    }
    for length in [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
        let (mut ours, mut rmps) = (Vec::new(), Vec::new());
        array_head(&mut ours, length);
        map_head(&mut ours, length);
        text(&mut ours, &"a".repeat(length));
        bytes(&mut ours, &vec![7; length]);
        rmp::encode::write_array_len(&mut rmps, length as u32).unwrap();
        rmp::encode::write_map_len(&mut rmps, length as u32).unwrap();
        rmp::encode::write_str(&mut rmps, &"a".repeat(length)).unwrap();
        rmp::encode::write_bin(&mut rmps, &vec![7; length]).unwrap();
        assert_eq!(ours, rmps);
    }
}

#[test]
fn no_meta_is_the_form_of_go() {
    assert_eq!(native("f", b"\xc0", &Meta::default()), b"\x92\xa1f\xc4\x01\xc0");
    let id = Some(CallId::from_bytes([7; 16]));
    let lock = Lock::of_key(crate::protocol::tracking::LockMode::UntilDone, "f", "k");
    let message = native(
        "f",
        b"\xc0",
        &Meta {
            attempts: 300,
            backoff: Some(Backoff::Fixed(Duration::from_secs(90))),
            expires_ms: Some(0),
            id,
            by_place: true,
            retry: Some(-1),
            retry_for_ms: Some(0),
            keep_ms: Some(300),
            timeout_ms: Some(0),
            lock: Some(lock),
        },
    );
    let meta = [
        &b"\x8a\xa1a\xcd\x01\x2c\xa1b\xabfixed:1m30s\xa1d\0\xa1g\x01\xa1i\xc4\x10"[..],
        &[7; 16],
        b"\xa1k\x80\xa1r\xff\xa1s\xcd\x01\x2c\xa1t\x01\xa1u\xc4\x11",
        lock.as_bytes(),
    ]
    .concat();
    assert_eq!(message, [b"\x93\xa1f\xc4\x01\xc0", &meta[..]].concat());
    assert_eq!(native("f", b"", &Meta { retry: Some(0), ..Meta::default() }), b"\x93\xa1f\xc4\0\x81\xa1r\0");
}

#[test]
fn python_cuts_off_what_is_empty() {
    assert_eq!(py_task("f", b"", b"\xc0", 0), b"\x91\xa1f");
    assert_eq!(py_task("f", b"\x91\x01", b"\x80", 0), b"\x92\xa1f\x91\x01");
    assert_eq!(py_task("f", b"\x90", b"\x81\xa1a\x01", 0), b"\x93\xa1f\x90\x81\xa1a\x01");
    assert_eq!(py_task("f", b"\xc0", b"", -1), b"\x94\xa1f\x90\x80\xff");
}
