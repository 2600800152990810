use super::*;
use crate::protocol::arguments::{Param, Presence};
use crate::protocol::encode;

const ADD: &[Param] = &[
    Param { name: "a", ty: "i64", presence: Presence::Required },
    Param { name: "b", ty: "i64", presence: Presence::Required },
];

fn add(message: &[u8]) -> Result<(i64, i64), String> {
    let message = Message::decode(message).map_err(|error| error.to_string())?;
    let read = || {
        let mut reader = message.arguments().reader(ADD)?;
        let arguments = (reader.required()?, reader.required()?);
        reader.finish().map(|()| arguments)
    };
    read().map_err(|error| error.to_string())
}

#[test]
fn every_form_that_adds_two_numbers() {
    for message in [
        &b"\x92\xa1f\xc4\x03\x92\x01\x02"[..],
        b"\x93\xa1f\xc4\x03\x92\x01\x02\x80",
        b"\x93\xa1f\xc4\x03\x92\x01\x02\xc0",
        b"\x92\xa1f\x92\x01\x02",
        b"\x93\xa1f\x92\x01\x02\xc0",
        b"\x93\xa1f\x91\x01\x81\xa1b\x02",
        b"\x94\xa1f\x90\x82\xa1b\x02\xa1a\x01\x03",
        b"\x93\xa1f\xc0\x82\xa1b\x02\xc4\x01a\x01",
    ] {
        assert_eq!(add(message), Ok((1, 2)), "{message:02x?}");
        let decoded = Message::decode(message).unwrap();
        let retried = decoded.retried();
        assert_eq!(add(&retried), Ok((1, 2)), "{message:02x?} → {retried:02x?}");
        let again = Message::decode(&retried).unwrap();
        assert_eq!((again.form(), again.attempts(), again.retry()), (Form::Native, 1, decoded.retry()));
    }
}

#[test]
fn bytes_that_are_no_message_say_why() {
    for (bytes, sentence) in [
        (&b""[..], "not a message: the bytes end in the middle of a value"),
        (b"\xc1", "not a message: the byte 0xc1, which MessagePack does not use"),
        (
            b"\x05",
            "not a message: expected the path of a task, or an array of 1 to 4 that begins with one, got the integer 5",
        ),
        (
            b"\x90",
            "not a message: expected the path of a task, or an array of 1 to 4 that begins with one, got an array of 0",
        ),
        (
            b"\x95\xa1f\0\0\0\0",
            "not a message: expected the path of a task, or an array of 1 to 4 that begins with one, got an array of 5",
        ),
        (b"\xa0", "not a message: the path of its task is empty"),
        (b"\x92\xa0\xc0", "not a message: the path of its task is empty"),
        (b"\x92\xc4\x01f\xc0", "not a message: expected the path of a task first, got 1 byte 0x66"),
        (
            b"\xa1\xff",
            "not a message: expected the path of a task first, got a string that is not UTF-8 (1 byte)",
        ),
        (
            b"\x92\xa1f\x05",
            "not a message: expected a payload (bytes) or arguments (an array) second, got the integer 5",
        ),
        (
            b"\x93\xa1f\xc4\x01\xc0\x05",
            "not a message: expected a map after the payload third, got the integer 5",
        ),
        (
            b"\x93\xa1f\x90\x05",
            "not a message: expected arguments by keyword (a map) third, got the integer 5",
        ),
        (
            b"\x94\xa1f\x90\x80\xc3",
            "not a message: expected a count of retries (an integer of 64 bits) fourth, got the boolean true",
        ),
        (b"\x94\xa1f\xc4\x01\xc0\x80\x05", "not a message: expected nothing fourth, got the integer 5"),
        (b"\x92\xa1f\xc4\x01\xc0\x05", "not a message: 1 byte too many after its end"),
        (b"\xa1f\x05", "not a message: 1 byte too many after its end"),
        (
            b"\x93\xa1f\xc4\0\x81\xa1a\xff",
            "not a message: expected a count as `a` of its meta, got the integer -1",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1d\xff",
            "not a message: expected a moment (milliseconds since 1970) as `d` of its meta, got the integer -1",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1d\xc0",
            "not a message: expected a moment (milliseconds since 1970) as `d` of its meta, got nil",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1t\0",
            "not a message: expected a time (milliseconds, at least 1) as `t` of its meta, got the integer 0",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1t\xcb\x3f\xf8\0\0\0\0\0\0",
            "not a message: expected a time (milliseconds, at least 1) as `t` of its meta, got the float 1.5",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1i\xc4\x01a",
            "not a message: expected an id (16 bytes) as `i` of its meta, got 1 byte 0x61",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1g\0",
            "not a message: expected a time (milliseconds, at least 1) as `g` of its meta, got the integer 0",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1h\x81\xa1x\x05",
            "not a message: expected headers (a map of texts) as `h` of its meta, got a map of 1",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1k\x05",
            "not a message: expected a map as `k` of its meta, got the integer 5",
        ),
        (
            b"\x93\xa1f\xc4\0\x81\xa1r\xa1x",
            "not a message: expected a count of retries (an integer of 64 bits) as `r` of its meta, got a string \"x\"",
        ),
    ] {
        assert_eq!(Message::decode(bytes).unwrap_err().to_string(), sentence, "{bytes:02x?}");
    }
}

#[test]
fn what_a_message_says_of_itself() {
    let id = CallId::from_bytes([7; 16]);
    let lock = Lock::of_key(crate::protocol::tracking::LockMode::Replace, "x::f", "k");
    let bytes = encode::native(
        "x::f",
        b"\x05",
        &encode::Meta {
            backoff: None,
            by_place: false,
            attempts: 2,
            expires_ms: Some(1 << 40),
            id: Some(id),
            retry: Some(-1),
            retry_for_ms: Some(172_800_000),
            keep_ms: Some(0),
            timeout_ms: Some(1500),
            lock: Some(lock),
        },
    );
    let message = Message::decode(&bytes).unwrap();
    let tracking = Tracking { id, keep_ms: Some(0), lock: Some(lock) };
    assert_eq!((message.tracking(), message.keeps_result()), (Some(tracking), false));
    assert_eq!((message.task(), message.form()), ("x::f", Form::Native));
    assert_eq!((message.attempts(), message.retry(), message.id()), (2, Some(-1), Some(id)));
    assert_eq!((message.expires_ms(), message.timeout_ms()), (Some(1 << 40), Some(1500)));
    assert_eq!(message.retry_for_ms(), Some(172_800_000));
    let plain = Message::decode(b"\xa1f").unwrap();
    assert_eq!((plain.form(), plain.attempts(), plain.retry(), plain.id()), (Form::Bare, 0, None, None));
    assert_eq!((plain.expires_ms(), plain.timeout_ms(), plain.retry_for_ms()), (None, None, None));
    let retry = |bytes| Message::decode(bytes).unwrap().retry();
    assert_eq!(retry(b"\x94\xa1f\x90\x80\0"), Some(0));
    assert_eq!(retry(b"\x94\xa1f\x90\x80\xc0"), None);
    assert_eq!(retry(b"\x91\xa1f"), None);
}

#[test]
fn the_next_attempt_to_the_byte() {
    let retried = |bytes: &[u8]| Message::decode(bytes).unwrap().retried();
    for nothing in [&b"\xa1f"[..], b"\x92\xa1f\xc0", b"\x92\xa1f\xc4\x01\xc0"] {
        assert_eq!(retried(nothing), b"\x93\xa1f\xc4\x01\xc0\x81\xa1a\x01");
    }
    assert_eq!(retried(b"\x92\xa1f\xc4\0"), b"\x93\xa1f\xc4\0\x81\xa1a\x01");
    assert_eq!(retried(b"\x91\xa1f"), b"\x93\xa1f\xc4\x01\x90\x82\xa1a\x01\xa1k\x80");
    assert_eq!(retried(b"\x93\xa1f\xc0\xc0"), b"\x93\xa1f\xc4\x01\x90\x82\xa1a\x01\xa1k\xc0");
    let python = b"\x94\xa1f\x91\x01\x81\xa1b\x02\xff";
    assert_eq!(retried(python), b"\x93\xa1f\xc4\x02\x91\x01\x83\xa1a\x01\xa1k\x81\xa1b\x02\xa1r\xff");
    assert_eq!(
        retried(&retried(python)),
        b"\x93\xa1f\xc4\x02\x91\x01\x83\xa1a\x02\xa1k\x81\xa1b\x02\xa1r\xff"
    );
    // Payloads are copied whatever they are, unknown keys kept, all of them sorted.
    let unknown = b"\x93\xa1f\xc4\x02\xcc\x05\x85\xa1z\xcd\0\x01\xa2ab\x01\xa1r\xcc\x02\xa1a\xcc\x7f\x05\x06";
    let next = b"\x93\xa1f\xc4\x02\xcc\x05\x85\x05\x06\xa1a\xcc\x80\xa2ab\x01\xa1r\xcc\x02\xa1z\xcd\0\x01";
    assert_eq!(retried(unknown), next);
    // A key in another width is the same key, and a number is none.
    let wide = b"\x93\xa1f\xc4\0\x82\xd9\x01a\x03\x61\x05";
    assert_eq!(Message::decode(wide).unwrap().attempts(), 3);
    assert_eq!(retried(wide), b"\x93\xa1f\xc4\0\x82\x61\x05\xa1a\x04");
    let most = b"\x93\xa1f\xc4\0\x81\xa1a\xce\xff\xff\xff\xff";
    assert_eq!(retried(most), most);
}

#[test]
fn a_revived_message_forgets_its_attempts() {
    let revived = |bytes: &[u8]| Message::decode(bytes).unwrap().revived();
    assert_eq!(revived(b"\x93\xa1f\xc4\x01\x05\x81\xa1a\x03"), b"\x92\xa1f\xc4\x01\x05");
    assert_eq!(revived(b"\x93\xa1f\xc4\x01\x05\xc0"), b"\x92\xa1f\xc4\x01\x05");
    assert_eq!(
        revived(b"\x93\xa1f\xc4\x01\x05\x82\xa1a\x03\xa1r\x05"),
        b"\x93\xa1f\xc4\x01\x05\x81\xa1r\x05"
    );
    let late = b"\x93\xa1f\xc4\x01\x05\x83\xa1a\x03\xa1d\x07\xa1t\x09";
    assert_eq!(revived(late), b"\x93\xa1f\xc4\x01\x05\x81\xa1t\x09", "what was too late is not any more");
    for same in [&b"\xa1f"[..], b"\x92\xa1f\xc0", b"\x92\xa1f\xc4\x01\x05", b"\x94\xa1f\x90\x80\x05"] {
        assert_eq!(revived(same), same);
    }
}

#[test]
fn keywords_in_an_array_decode_and_name_the_mistake_of_go() {
    let bytes = b"\x93\xa1f\xc0\x92\x01\xa2hi";
    assert_eq!(Message::decode(bytes).unwrap().task(), "f");
    let sentence = add(bytes).unwrap_err();
    assert!(sentence.contains("Go's `NewPyTask` makes of a struct: give it a map"), "{sentence}");
    assert_eq!(add(&Message::decode(bytes).unwrap().retried()), Err(sentence));
}
