//! Bytes that lie about their depth or their length.

use std::collections::BTreeMap;
use std::thread;

use delayed::__private::protocol::decode::{DecodeErrorKind, from_slice, skip};
use delayed::__private::protocol::message::Message;
use delayed::__private::protocol::value::{describe, describe_arguments};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Deserialize)]
struct List(#[expect(dead_code)] Vec<List>);

#[derive(Debug, Deserialize)]
struct Map(#[expect(dead_code)] BTreeMap<u8, Map>);

#[derive(Debug, Deserialize)]
enum Tree {
    #[serde(rename = "n")]
    Node(#[expect(dead_code)] Box<Tree>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Either {
    #[expect(dead_code)]
    List(Vec<Either>),
    #[expect(dead_code)]
    Number(i64),
}

fn nested(level: &[u8], depth: usize) -> Vec<u8> {
    [level.repeat(depth), vec![0x01]].concat()
}

fn read_deep(depth: usize) {
    for level in [&b"\x91"[..], b"\x81\x01", b"\x81\xa1n", b"\xdd\0\0\0\x01", b"\x82\x01\x02\x03"] {
        let deep = nested(level, depth);
        assert!(from_slice::<List>(&deep).is_err());
        assert!(from_slice::<Map>(&deep).is_err());
        assert!(from_slice::<Tree>(&deep).is_err());
        assert!(from_slice::<rmpv::Value>(&deep).is_err());
        assert!(from_slice::<Either>(&deep).is_err());
        assert!(from_slice::<IgnoredAny>(&deep).is_err());
        assert!(skip(&deep).is_err());
        assert!(describe(&deep, 1_000_000).starts_with("0x"));

        let mut message = b"\x92\xa1f\xc6".to_vec();
        message.extend_from_slice(&u32::try_from(deep.len()).unwrap().to_be_bytes());
        message.extend_from_slice(&deep);
        let message = Message::decode(&message).unwrap();
        assert!(describe_arguments(&message, 1_000_000).starts_with("(0x"));
        assert_eq!(Message::decode(&message.retried()).unwrap().attempts(), 1);
        for begin in [&b"\x92\xa1f\x91"[..], b"\x93\xa1f\x90\x81\xa1a", b"\x93\xa1f\xc4\0\x81\xa1z"] {
            assert!(Message::decode(&[begin, &deep].concat()).is_err());
        }
    }
}

#[test]
fn deep_nesting_is_an_error_on_a_small_stack() {
    for (stack, depth) in [(2 << 20, 10_000), (256 << 10, 10_000), (256 << 10, 129)] {
        let reading = thread::Builder::new().stack_size(stack).spawn(move || read_deep(depth));
        reading.expect("a thread starts").join().expect("the thread did not panic");
    }
}

#[test]
fn deep_nesting_is_an_error_for_a_type_of_large_frames() {
    // In a debug build each level of this type takes 2 KiB, most of them its own.
    let read = || {
        for depth in [129, 10_000] {
            for level in [&b"\x91"[..], b"\x81\xa1n"] {
                assert!(from_slice::<serde_json::Value>(&nested(level, depth)).is_err());
            }
        }
    };
    thread::Builder::new().stack_size(512 << 10).spawn(read).unwrap().join().unwrap();
}

#[test]
fn what_is_as_deep_as_allowed_is_read_on_a_small_stack() {
    let read = || {
        let lists = nested(b"\x91", 128);
        assert!(from_slice::<rmpv::Value>(&lists).is_ok());
        assert!(from_slice::<Either>(&lists).is_ok());
        assert_eq!(describe(&lists, 1000), format!("{}1{}", "[".repeat(128), "]".repeat(128)));
    };
    thread::Builder::new().stack_size(256 << 10).spawn(read).unwrap().join().unwrap();
}

/// The most that this process ever had mapped, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("VmPeak is told");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let before = peak();
    for head in [&b"\xdd"[..], b"\xdf", b"\xdb", b"\xc6", b"\xc9"] {
        for rest in [&b""[..], b"\x01", b"\xff\x01\x02\x03"] {
            let value = [head, &[0xff; 4], rest].concat();
            let is_a_lie = |kind: &DecodeErrorKind| {
                matches!(kind, DecodeErrorKind::Length { .. } | DecodeErrorKind::UnexpectedEnd)
            };
            assert!(is_a_lie(skip(&value).unwrap_err().kind()));
            assert!(is_a_lie(from_slice::<Vec<u64>>(&value).unwrap_err().kind()));
            assert!(is_a_lie(from_slice::<BTreeMap<u64, u64>>(&value).unwrap_err().kind()));
            assert!(is_a_lie(from_slice::<String>(&value).unwrap_err().kind()));
            assert!(is_a_lie(from_slice::<serde_json::Value>(&value).unwrap_err().kind()));
            assert!(Message::decode(&value).is_err());
            assert!(Message::decode(&[b"\x92\xa1f", &value[..]].concat()).is_err());
            assert!(Message::decode(&[b"\x93\xa1f\xc4\0", &value[..]].concat()).is_err());
            assert!(describe(&value, 100).starts_with("0x"));
        }
    }
    // Threads of other tests map some as well.
    assert!(peak() - before < 2 << 20, "{} KiB were mapped", peak() - before);
}
