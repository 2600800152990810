//! What holds for any bytes and any values.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::SystemTime;

use delayed::__private::protocol::arguments::{ArgumentError, Param, Presence};
use delayed::__private::protocol::decode::{from_slice, skip};
use delayed::__private::protocol::encode::{Encoder, Meta, native};
use delayed::__private::protocol::message::Message;
use delayed::__private::protocol::tracking::{Lock, LockMode};
use delayed::__private::protocol::value::{describe, describe_arguments};
use delayed::CallId;
use delayed::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    id: i64,
    name: String,
    data: Vec<u8>,
    parts: Vec<Record>,
    by_name: BTreeMap<String, Option<u16>>,
    kind: Kind,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Kind {
    Empty,
    One(char),
    Two(i8, bool),
    Named { wide: i128, tuple: (u8, String), bytes: [u8; 3] },
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Empty),
        any::<char>().prop_map(Kind::One),
        any::<(i8, bool)>().prop_map(|(a, b)| Kind::Two(a, b)),
        any::<(i128, (u8, String), [u8; 3])>().prop_map(|(wide, tuple, bytes)| Kind::Named {
            wide,
            tuple,
            bytes
        }),
    ]
}

fn moment() -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![any::<i64>(), 0..1_i64 << 34, 0..1_i64 << 32];
    let nanoseconds = prop_oneof![Just(0_u32), 0..1_000_000_000_u32];
    (seconds, nanoseconds).prop_map(|(seconds, nanoseconds)| Timestamp::new(seconds, nanoseconds).unwrap())
}

fn record() -> impl Strategy<Value = Record> {
    let by_name = || btree_map(any::<String>(), any::<Option<u16>>(), 0..4);
    let leaf = (any::<i64>(), any::<String>(), any::<Vec<u8>>(), by_name(), kind(), moment());
    let leaf = leaf.prop_map(|(id, name, data, by_name, kind, at)| Record {
        id,
        name,
        data,
        parts: vec![],
        by_name,
        kind,
        at,
    });
    leaf.prop_recursive(4, 20, 4, |inner| {
        (inner.clone(), vec(inner, 0..4)).prop_map(|(record, parts)| Record { parts, ..record })
    })
}

const PARAMS: [&[Param]; 6] = {
    const fn param(name: &'static str, presence: Presence) -> Param {
        Param { name, ty: "T", presence }
    }
    [
        &[],
        &[param("a", Presence::Required)],
        &[param("a", Presence::Optional)],
        &[param("a", Presence::Variadic)],
        &[param("a", Presence::Required), param("b", Presence::Optional)],
        &[param("a", Presence::Required), param("b", Presence::Variadic)],
    ]
};

/// Reads the arguments for `params`, all of one type, as text.
fn read<T: DeserializeOwned + Debug>(
    message: &Message<'_>,
    params: &'static [Param],
) -> Result<String, ArgumentError> {
    let mut reader = message.arguments().reader(params)?;
    let mut text = String::new();
    for param in params {
        text += &match param.presence {
            Presence::Required => format!("{:?}", reader.required::<T>()?),
            Presence::Optional => format!("{:?}", reader.optional::<T>()?),
            Presence::Variadic => format!("{:?}", reader.variadic::<T>()?),
        };
    }
    reader.finish().map(|()| text)
}

fn same_arguments(first: &Message<'_>, second: &Message<'_>) {
    for params in PARAMS {
        assert_eq!(read::<i64>(first, params), read::<i64>(second, params));
        assert_eq!(read::<String>(first, params), read::<String>(second, params));
        assert_eq!(read::<Vec<u8>>(first, params), read::<Vec<u8>>(second, params));
        assert_eq!(read::<Vec<f32>>(first, params), read::<Vec<f32>>(second, params));
        assert_eq!(read::<Record>(first, params), read::<Record>(second, params));
        assert_eq!(read::<SystemTime>(first, params), read::<SystemTime>(second, params));
        assert_eq!(read::<serde_json::Value>(first, params), read::<serde_json::Value>(second, params));
    }
}

fn hold_for(bytes: &[u8]) {
    let text = describe(bytes, 50);
    assert!(text.chars().count() <= 50);
    assert!(
        skip(bytes).is_ok_and(|(_, rest)| rest.is_empty()) || describe(bytes, 10_000).contains("no value")
    );
    let Ok(message) = Message::decode(bytes) else { return };
    assert!(describe_arguments(&message, 50).chars().count() <= 50);
    let retried = message.retried();
    let next = Message::decode(&retried).expect("the next attempt is a message");
    assert_eq!(
        (next.task(), next.attempts(), next.retry(), next.id()),
        (message.task(), message.attempts().saturating_add(1), message.retry(), message.id())
    );
    assert_eq!((next.expires_ms(), next.timeout_ms()), (message.expires_ms(), message.timeout_ms()));
    same_arguments(&message, &next);
    let revived = next.revived();
    let revived = Message::decode(&revived).expect("the revived is a message");
    assert_eq!((revived.attempts(), revived.retry(), revived.id()), (0, message.retry(), message.id()));
    // Of our form only: what others sent is put back to the byte, and has neither.
    assert_eq!((revived.expires_ms(), revived.timeout_ms()), (None, message.timeout_ms()));
    same_arguments(&message, &revived);
}

/// Bytes that are more often a value than random ones are.
fn nearly_value() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        Just(b"\xa1a".to_vec()),
        Just(b"\xa1b".to_vec()),
        Just(b"\xc4\x01x".to_vec()),
        Just(b"\xc0".to_vec()),
        Just(b"\xd6\xff\0\0\0\x01".to_vec()),
        Just(b"\xcb\x3f\xf8\0\0\0\0\0\0".to_vec()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|list| [vec![0x90 | list.len() as u8], list.concat()].concat()),
            vec((inner.clone(), inner.clone()), 0..3).prop_map(|map| {
                let pairs = map.iter().map(|(key, value)| [&key[..], value].concat()).collect::<Vec<_>>();
                [vec![0x80 | map.len() as u8], pairs.concat()].concat()
            }),
            inner.prop_map(|value| [vec![0xc4, value.len() as u8], value].concat()),
        ]
    })
}

/// Frames of all forms around such bytes.
fn nearly_message() -> impl Strategy<Value = Vec<u8>> {
    vec(nearly_value(), 0..4)
        .prop_map(|elements| [vec![0x91 + elements.len() as u8, 0xa1, b'f'], elements.concat()].concat())
}

fn identity<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let mut encoder = Encoder::new(1);
    encoder.argument("value", value);
    let payload = encoder.finish().unwrap();
    assert_eq!(skip(&payload).unwrap(), (&payload[..], &[][..]));
    assert_eq!(&from_slice::<T>(&payload).unwrap(), value);
    let (begin, end) = payload.split_at(payload.len() - 1);
    assert!(from_slice::<T>(begin).is_err(), "cut off {end:?}");
    // With names instead of places, as other languages may write a struct.
    let named = rmp_serde::to_vec_named(value).unwrap();
    assert_eq!(&from_slice::<T>(&named).unwrap(), value);
}

proptest! {
    #[test]
    fn any_bytes_do_not_panic(bytes in any::<Vec<u8>>()) {
        hold_for(&bytes);
    }

    #[test]
    fn any_frame_is_safe_and_its_next_attempt_has_equal_arguments(bytes in nearly_message()) {
        hold_for(&bytes);
    }

    #[test]
    fn what_is_written_is_read_again(
        record in record(),
        numbers in any::<(u8, i16, u32, i64, u64, u128)>(),
        lists in any::<(Vec<Option<u8>>, Vec<Vec<i32>>, Option<bool>)>(),
        text in any::<String>(),
    ) {
        identity(&record);
        identity(&numbers);
        identity(&lists);
        identity(&text);
    }

    #[test]
    fn floats_are_read_as_they_were_written(wide in any::<f64>(), narrow in any::<f32>()) {
        identity(&(wide, narrow));
    }

    #[test]
    fn what_a_client_sets_is_read_again(
        path in ".+",
        payload in any::<Vec<u8>>(),
        attempts in any::<u32>(),
        id in any::<Option<[u8; 16]>>(),
        by_place in any::<bool>(),
        retry in any::<Option<i64>>(),
        times in (any::<Option<u64>>(), proptest::option::of(1_u64..), proptest::option::of(1_u64..)),
        tracked in (any::<Option<u64>>(), proptest::option::of(".*")),
    ) {
        let (expires_ms, timeout_ms, retry_for_ms) = times;
        let (keep_ms, key) = tracked;
        let lock = key.map(|key| Lock::of_key(LockMode::UntilDone, &path, &key));
        let id = id.map(CallId::from_bytes);
        let backoff = None;
        let meta =
            Meta { attempts, backoff, expires_ms, id, by_place, retry, retry_for_ms, keep_ms, timeout_ms, lock };
        let bytes = native(&path, &payload, &meta);
        let message = Message::decode(&bytes).unwrap();
        prop_assert_eq!(message.task(), path);
        let said = Meta {
            attempts: message.attempts(),
            backoff: message.backoff(),
            expires_ms: message.expires_ms(),
            id: message.id(),
            by_place,
            retry: message.retry(),
            retry_for_ms: message.retry_for_ms(),
            keep_ms: message.tracking().map_or(keep_ms, |tracking| tracking.keep_ms),
            timeout_ms: message.timeout_ms(),
            lock: message.tracking().map_or(lock, |tracking| tracking.lock),
        };
        prop_assert_eq!(said, meta);
        hold_for(&bytes);
    }
}
