//! Which replies are believed.

use super::*;

#[test]
fn reply_is_believed_with_its_echo_or_when_both_are_refused() {
    let echo = |text: &str| Value::BulkString(text.into());
    let refused = |text: &str| {
        let error = format!("-{text}\r\n");
        redis::parse_redis_value(error.as_bytes()).expect("an error of the server")
    };
    let busy = || refused("BUSY a script");
    for (reply, second, is_believed) in [
        (Value::Int(1), echo("7"), true),
        (busy(), echo("7"), true),
        (busy(), refused("BUSY still"), true),
        (Value::Int(1), echo("6"), false),
        (Value::Int(1), Value::Int(7), false),
        (Value::Int(1), busy(), false),
        (refused("NOAUTH no"), busy(), false),
    ] {
        let shown = format!("{reply:?}, {second:?}");
        assert_eq!(check(vec![reply, second], "7").is_ok(), is_believed, "{shown}");
    }
    assert!(check(vec![echo("7")], "7").is_err(), "expected two replies to be needed");
    let told = check(vec![Value::Int(1), echo(&"x".repeat(1 << 20))], "7").unwrap_err().to_string();
    assert!(told.contains("xxx") && told.len() < 500, "expected few words, not {}", told.len());
}

#[test]
fn transaction_is_believed_with_its_echo_or_when_refused_whole() {
    let replies = |text: &str| -> Vec<Value> {
        let whole = format!("*{}\r\n{}\r\n", text.split(", ").count(), text.replace(", ", "\r\n"));
        match redis::parse_redis_value(whole.replace('|', "\r\n").as_bytes()) {
            Ok(Value::Array(replies)) => replies,
            other => panic!("{text}: {other:?}"),
        }
    };
    for (text, expected) in [
        ("+OK, +QUEUED, +QUEUED, *2|:3|$1|7", Ok(1)),
        ("+OK, +QUEUED, +QUEUED, *2|-WRONGTYPE no|$1|7", Ok(1)),
        ("+OK, -OOM full, +QUEUED, -EXECABORT discarded", Err("OOM")),
        ("-NOAUTH no, -NOAUTH no, -NOAUTH no, -NOAUTH no", Err("NOAUTH")),
        ("+OK, +QUEUED, +QUEUED, -EXECABORT discarded because of: OOM full", Err("OOM")),
        ("+OK, +QUEUED, +QUEUED, -CROSSSLOT no slot in common", Err("CrossSlot")),
        ("+OK, -MOVED 7 10.0.0.1:6379, +QUEUED, -EXECABORT discarded", Err("Moved")),
        // Of another transaction, or of one of which a part is missing.
        ("+OK, +QUEUED, +QUEUED, *2|:3|$1|6", Err("another request")),
        ("+OK, +QUEUED, +QUEUED, *1|$1|7", Err("another request")),
        ("-ERR nested, +QUEUED, +QUEUED, *4|:1|$1|6|:3|$1|7", Err("another request")),
        ("+QUEUED, +QUEUED, *2|:3|$1|7, +OK", Err("another request")),
        ("+OK, +QUEUED, +QUEUED, *-1", Err("another request")),
        ("+OK, +QUEUED, +QUEUED, -EXECABORT discarded", Err("another request")),
        // A user that may not begin one: all the rest was done, each by itself.
        ("-NOPERM multi, :3, $1|7, -ERR EXEC without MULTI", Err("another request")),
    ] {
        let found = check_transaction(replies(text), "7").map(|results| results.len());
        match (&found, expected) {
            (Ok(found), Ok(expected)) if *found == expected => {}
            (Err(error), Err(word)) if error.to_string().contains(word) => {}
            _ => panic!("expected {expected:?} of {text:?}, it is {found:?}"),
        }
    }
}
