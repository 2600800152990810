//! No bytes make the text of a value panic, and it is as long as was asked for.

use delayed::__private::protocol::message::Message;
use delayed::__private::protocol::value::{describe, describe_arguments};

/// The first byte is the length that is asked for.
pub(crate) fn target(input: &[u8]) {
    let Some((limit, bytes)) = input.split_first() else { return };
    let limit = usize::from(*limit);
    let text = describe(bytes, limit);
    assert!(text.chars().count() <= limit);
    let whole = describe(bytes, usize::MAX);
    assert_eq!(text == whole, whole.chars().count() <= limit);
    if let Ok(message) = Message::decode(bytes) {
        let text = describe_arguments(&message, limit);
        assert!(text.chars().count() <= limit);
        assert!(describe_arguments(&message, usize::MAX).ends_with(')'));
    }
}
