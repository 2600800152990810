use super::*;

fn arguments(bytes: &[u8]) -> String {
    describe_arguments(&Message::decode(bytes).unwrap(), 100)
}

#[test]
fn values_as_text() {
    for (bytes, text) in [
        (&b"\xc0"[..], "nil"),
        (b"\x93\x01\xff\xc3", "[1, -1, true]"),
        (b"\xcb\x3f\xf0\0\0\0\0\0\0", "1.0"),
        (b"\x82\xa1a\xc4\x02\0\xff\x05\x90", r#"{"a": 0x00ff, 5: []}"#),
        (b"\xa3a\"\n", r#""a\"\n""#),
        (b"\xa1\xff", "0xff"),
        (b"\xd6\xff\x65\x53\xf1\0", "2023-11-14T22:13:20Z"),
        (b"\xd4\x05\x06", "ext(5, 0x06)"),
        (b"\xd4\xff\x06", "ext(-1, 0x06)"),
        (b"", "0x (no value: the bytes end in the middle of a value)"),
        (b"\x92\x01", "0x9201 (no value: a length of 2 where 1 byte is left)"),
        (b"\x01\x02", "0x0102 (no value: 1 byte too many)"),
    ] {
        assert_eq!(describe(bytes, 100), text);
    }
}

#[test]
fn a_text_is_cut_at_its_limit() {
    let bytes = b"\x92\xa6\xd1\x82\xd1\x80\xd0\xb8\x01";
    assert_eq!(describe(bytes, 10), "[\"три\", 1]");
    assert_eq!(describe(bytes, 9), "[\"три\", …");
    assert_eq!(describe(bytes, 4), "[\"т…");
    assert_eq!(describe(bytes, 1), "…");
    assert_eq!(describe(bytes, 0), "");
}

#[test]
fn arguments_as_they_were_written() {
    for (bytes, text) in [
        (&b"\xa1f"[..], "()"),
        (b"\x92\xa1f\xc0", "()"),
        (b"\x92\xa1f\xc4\0", "()"),
        (b"\x92\xa1f\xc4\x01\xc0", "()"),
        (b"\x92\xa1f\xc4\x01\x90", "()"),
        (b"\x92\xa1f\xc4\x01\x05", "(5)"),
        (b"\x92\xa1f\xc4\x05\x93\x01\xa1x\xc0", "(1, \"x\", nil)"),
        (b"\x92\xa1f\xc4\x02\x92\x01", "(0x9201 (no value: a length of 2 where 1 byte is left))"),
        (b"\x93\xa1f\x92\x01\x02\x81\xa4name\xa1x", "(1, 2, name=\"x\")"),
        (b"\x93\xa1f\x90\x82\xa1a\x01\x05\x02", "(a=1, 5=2)"),
        (b"\x93\xa1f\xc0\x92\x01\x02", "(**[1, 2])"),
        (b"\x93\xa1f\xc4\x02\x91\x01\x82\xa1a\x01\xa1k\x81\xa1b\x02", "(1, b=2)"),
    ] {
        assert_eq!(arguments(bytes), text);
    }
}
