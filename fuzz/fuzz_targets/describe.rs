//! Any bytes as a text, as long as was asked for.
#![no_main]

use delayed::protocol::message::Message;
use delayed::protocol::value::{describe, describe_arguments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (limit, bytes) = input;
    let limit = usize::from(limit);
    let text = describe(bytes, limit);
    assert!(text.chars().count() <= limit);
    let whole = describe(bytes, usize::MAX);
    assert_eq!(text == whole, whole.chars().count() <= limit);
    if let Ok(message) = Message::decode(bytes) {
        let text = describe_arguments(&message, limit);
        assert!(text.chars().count() <= limit);
        assert!(describe_arguments(&message, usize::MAX).ends_with(')'));
    }
});
